// Repeats a pattern of 1, 2, 4 or 8 bytes, from any byte on.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes { uint8_t v[]; };
layout(push_constant) uniform Push {
  uint64_t target;
  uint64_t bytes;
  uint64_t pattern;
  uint pattern_bytes;
} push;

void main() {
  uint64_t step = uint64_t(gl_NumWorkGroups.x) * gl_WorkGroupSize.x;
  for (uint64_t n = gl_GlobalInvocationID.x; n < push.bytes; n += step)
    Bytes(push.target + n).v[0] =
        uint8_t(push.pattern >> (uint(n) & (push.pattern_bytes - 1)) * 8 & 0xFF);
}
