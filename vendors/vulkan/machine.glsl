// What every part of the interpreter stands on: memory by address, the block of a launch, values,
// tiles and their valid regions. docs/vil.md is the contract; the kit's vil_flat.h says what the
// block holds.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// A work-group runs one program instance at a time. What a program does not use is compiled away.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OPS = ~0u;
layout(constant_id = 2) const uint FUNCTIONS_LOW = ~0u;
layout(constant_id = 3) const uint FUNCTIONS_HIGH = ~0u;
layout(constant_id = 4) const uint DTYPES = ~0u;
#define LANES gl_WorkGroupSize.x
#define HAS_OP(n) ((OPS >> (n) & 1u) != 0u)
#define HAS(f) (((f) < 32 ? FUNCTIONS_LOW >> ((f) & 31) : FUNCTIONS_HIGH >> ((f) & 31)) & 1u) != 0u
#define HAS_DTYPE(n) ((DTYPES >> (n) & 1u) != 0u)

layout(buffer_reference, std430, buffer_reference_align = 1) coherent buffer Bytes { uint8_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Words { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent buffer Longs { int64_t v[]; };

layout(push_constant) uniform Push {
  uint64_t block;  // Header of 16 words, then the tables at the offsets that it gives.
  uint64_t arena;  // One slice a work-group.
  uint64_t fault;  // First word: 0, or 1 when a launch failed.
  uint step;       // Of the plan.
} push;

// Words of the header.
const uint H_CODE = 0, H_EXTRA = 1, H_TILES = 2, H_DESCRIPTORS = 3, H_TERMS = 4, H_VALUES = 5,
           H_PARAMS = 6, H_STATUS = 7, H_INSTRUCTIONS = 8, H_SREGS = 9, H_STAGES = 10,
           H_GRID_X = 11, H_GRID_Y = 12, H_GRID_Z = 13, H_SLICE_LOW = 14, H_SLICE_HIGH = 15, H_STATE_AT = 16,
           H_GROUPS = 17, H_DONE = 18, H_PREVIOUS = 19;

const uint F32 = 1, I8 = 5, U8 = 6, I32 = 7, I64 = 8, BOOL = 9;
const uint NONE = 0xFFFFu, SREG_BIT = 0x8000u;
const uint64_t HIGHEST = uint64_t(1) << 63;
const int64_t NO_SIZE = int64_t(HIGHEST);

uint header(uint n) { return Words(push.block).v[n]; }
uint half_at(uint64_t at) {  // An aligned u16.
  return Words(at & ~uint64_t(3)).v[0] >> (uint(at & 2) * 8) & 0xFFFFu;
}

// ---- State of the running instance; every lane holds the same ----
uint lane, pc, phase, depth;
int64_t counts[4];    // Turns of the open loops.
uint spent;           // About the turns of loops that this shader has made; see interpret.comp.
uint64_t slice;       // This work-group's part of the arena.
uint64_t code, extra, tile_table, values;
int64_t sregs[64];
shared uint stop[2];  // Some lane found a fault; faulting instructions use the words in turn.

int64_t value_of(uint reference, int64_t absent) {
  if (reference == NONE) return absent;
  if ((reference & SREG_BIT) != 0) return sregs[reference & 63];
  return Longs(values).v[reference];
}

// The instruction's fields; docs/vil.md, section 4.4.
uint64_t at_pc() { return code + uint64_t(pc) * 32; }
int64_t v(uint n, int64_t absent) { return value_of(half_at(at_pc() + 24 + 2 * n), absent); }
uint64_t extra_bits() { return uint64_t(Longs(extra).v[pc]); }

void fault(uint kind, uint i, uint j) {
  Words word = Words(push.fault);
  stop[phase & 1] = 1;
  if (atomicCompSwap(word.v[0], 0u, 1u) == 0u) {
    word.v[1] = kind;
    word.v[2] = pc;
    word.v[3] = i;
    word.v[4] = j;
    word.v[5] = push.step;
  }
}

// ---- Integers ----

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return -a;
  int64_t q = a / b;
  return q - (q * b != a && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t floor_mod(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? int64_t(0) : a - floor_div(a, b) * b;
}
bool add_overflows(int64_t a, int64_t b, out int64_t sum) {
  sum = a + b;
  return ((a ^ sum) & (b ^ sum)) < 0;
}
// A product that the estimate puts near 2^63 shows by its sign whether it wrapped.
bool multiply_overflows(int64_t a, int64_t b, out int64_t product) {
  product = a * b;
  double estimate = double(a) * double(b);
  return abs(estimate) > 1e19lf || (abs(estimate) > 9e18lf && (product < 0) != (estimate < 0.0lf));
}

// ---- Elements ----

uint size_of(uint dtype) {
  return dtype == F32 || dtype == I32 ? 4 : dtype == I64 ? 8 : 1;
}
uint64_t bits_at(uint64_t at, uint size) {
  if (size == 4) return Words(at).v[0];
  if (size == 8) return uint64_t(Longs(at).v[0]);
  return uint64_t(Bytes(at).v[0]);
}
void set_bits(uint64_t at, uint size, uint64_t bits) {
  if (size == 4) Words(at).v[0] = uint(bits);
  else if (size == 8) Longs(at).v[0] = int64_t(bits);
  else Bytes(at).v[0] = uint8_t(bits);
}
float float_at(uint64_t at) { return uintBitsToFloat(Words(at).v[0]); }
void set_float(uint64_t at, float x) { Words(at).v[0] = floatBitsToUint(x); }
// Wraps to a type, sign or zero extended.
int64_t wrap(uint dtype, int64_t x) {
  if (dtype == I32) return int64_t(int(x));
  if (dtype == I8) return int64_t(int(x) << 24 >> 24);
  return dtype == I64 ? x : x & 0xFF;
}
int64_t int_at(uint64_t at, uint dtype) {
  return wrap(dtype, int64_t(bits_at(at, size_of(dtype))));
}
void set_int(uint64_t at, uint dtype, int64_t x) { set_bits(at, size_of(dtype), uint64_t(x)); }
uint width_of(uint dtype) { return 8 * size_of(dtype); }
int64_t lowest(uint dtype) {
  return dtype == U8 || dtype == BOOL ? int64_t(0) : -(int64_t(1) << (width_of(dtype) - 1));
}
int64_t highest(uint dtype) {
  return dtype == BOOL ? int64_t(1) : dtype == U8 ? int64_t(255) : ~lowest(dtype);
}
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u; }

// ---- Tiles ----

// floormod by a small number; the second step mends what double rounded in the first.
uint modulo(int64_t x, uint n) {
  x -= int64_t(floor(double(x) / double(n))) * n;
  x -= int64_t(floor(double(x) / double(n))) * n;
  return uint(x < 0 ? x + n : x >= n ? x - n : x);
}

struct Tile {
  uint64_t at;     // First element.
  uint64_t valid;  // Where this lane keeps the valid region.
  uint dtype, size, rows, columns, valid_rows, valid_columns;
  bool is_there;
};

Tile operand(uint n) {
  Tile tile;
  uint index = half_at(at_pc() + 8 + 4 * n), stage = half_at(at_pc() + 10 + 4 * n);
  tile.is_there = index != NONE;
  tile.at = tile.valid = 0;
  tile.dtype = tile.size = 1;
  tile.rows = tile.columns = tile.valid_rows = tile.valid_columns = 0;
  if (index == NONE) return tile;
  Words record = Words(tile_table + uint64_t(index) * 32);
  tile.dtype = record.v[0];
  tile.size = size_of(tile.dtype);
  tile.rows = record.v[1];
  tile.columns = record.v[2];
  uint k = modulo(value_of(stage, 0), record.v[3]);
  tile.at = slice + record.v[5] + uint64_t(k) * record.v[6];
  tile.valid = slice + (uint64_t(record.v[4] + k) * LANES + lane) * 8;
  tile.valid_rows = Words(tile.valid).v[0];
  tile.valid_columns = Words(tile.valid).v[1];
  return tile;
}
void set_valid(inout Tile tile, uint rows, uint columns) {
  Words(tile.valid).v[0] = tile.valid_rows = rows;
  Words(tile.valid).v[1] = tile.valid_columns = columns;
}
uint64_t element(Tile tile, uint i, uint j) {
  return tile.at + (uint64_t(i) * tile.columns + j) * tile.size;
}
// The element that meets (i, j) of the result: an axis of length 1 is repeated.
uint64_t meets(Tile tile, Tile d, uint i, uint j) {
  return element(tile, tile.rows == d.rows ? i : 0, tile.columns == d.columns ? j : 0);
}
void narrow(Tile d, Tile a, inout uint rows, inout uint columns) {
  if (!a.is_there) return;
  rows = min(rows, a.rows == d.rows ? a.valid_rows : a.valid_rows == 1 ? d.rows : 0);
  columns = min(columns, a.columns == d.columns ? a.valid_columns
                         : a.valid_columns == 1 ? d.columns : 0);
}
