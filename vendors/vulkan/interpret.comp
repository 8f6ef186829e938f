// Runs a VIL program: the grid's instances one after another on each work-group.
//
// A dispatch is short: systems end work of some seconds, and software devices end loops after some
// ten thousand turns. So a work-group that has spent its budget keeps its state and ends; the host
// dispatches again until each has finished. One instruction costs less than the budget again: the
// chip's description bounds tiles so. A device that computes with masks makes one turn of each loop
// that it passes, LOOPS of them for an instruction, also of those that are not meant.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "numbers.glsl"
#include "machine.glsl"
#include "movement.glsl"
#include "functions.glsl"
#include "tiles.glsl"

const uint BUDGET = 24000, LOOPS = 24;
const uint SUSPENDED = 1, FINISHED = 2, FAILED = 3;  // How a work-group ends.

void run_sreg(uint f, uint axis, uint target) {
  int64_t left = f == ARG ? int64_t(0) : v(0, 0);
  if (f == ARG) {
    left = int64_t(extra_bits());
  } else if (f == TILE) {
    Tile a = operand(1);
    left = a.valid_rows != 0 && a.valid_columns != 0 ? int_at(a.at, a.dtype) : int64_t(0);
    barrier();
  } else if (f == GRID) {
    left = int64_t(header(H_GRID_X + axis));
  } else if (f == CHOOSE) {
    left = left != 0 ? v(1, 0) : v(2, 0);
  } else if (f != MOV) {
    left = binary_int(true, f, I64, left, v(1, 0));
  }
  sregs[target & 63] = left;
}

// One tile operation or move; false when it failed.
bool run_one(uint op, uint f, uint axis, uint flags) {
  switch (op) {
    case LOAD:
    case STORE:
    case GATHER: move(op); break;
    case FILL: if (HAS_OP(FILL)) run_fill(); break;
    case IOTA: if (HAS_OP(IOTA)) run_iota(); break;
    case RED: if (HAS_OP(RED)) run_reduce(f, axis); break;
    case MMA: if (HAS_OP(MMA)) run_product((flags & 1) != 0); break;
    case TRN: if (HAS_OP(TRN)) run_transpose(); break;
    default: run_elements(op, f, (flags & 1) != 0);
  }
  memoryBarrierBuffer();
  barrier();
  return stop[phase++ & 1] == 0;
}

// Runs from `pc` on.
uint run_program() {
  uint count = header(H_INSTRUCTIONS);
  for (; pc < count; ++pc) {
    if ((spent += LOOPS) > BUDGET) return SUSPENDED;
    uint word = Words(at_pc()).v[0], second = Words(at_pc()).v[1];
    uint op = word & 0xFFu, target = second >> 16;
    if (op == SREG) {
      run_sreg(word >> 8 & 0xFFu, word >> 24, target);
    } else if (op == LOOP) {
      int64_t turns = v(0, 0);
      sregs[target & 63] = 0;
      if (turns <= 0) pc = uint(extra_bits());
      else counts[depth++ & 3] = turns;
    } else if (op == IF) {
      if (v(0, 0) == 0) pc = uint(extra_bits());
    } else if (op == END) {
      uint start = uint(extra_bits());
      Words opener = Words(code + uint64_t(start) * 32);
      if ((opener.v[0] & 0xFFu) == LOOP) {
        uint counter = opener.v[1] >> 16 & 63;
        if (++sregs[counter] < counts[(depth - 1) & 3]) pc = start;
        else --depth;
      }
    } else if (!run_one(op, word >> 8 & 0xFFu, word >> 24, second & 0xFFFFu)) {
      return FAILED;
    }
  }
  return FINISHED;
}

// ---- An instance that is to go on in the next dispatch ----

void keep(Longs state, uint64_t n) {
  if (lane != 0) return;
  state.v[0] = int64_t(n);
  state.v[1] = int64_t(pc);
  state.v[2] = int64_t(depth);
  for (uint k = 0; k < 4; ++k) state.v[3 + k] = counts[k];
  for (uint s = 0; s < header(H_SREGS); ++s) state.v[7 + s] = sregs[s];
}
void go_on(Longs state, out uint64_t n) {
  n = uint64_t(state.v[0]);
  pc = uint(state.v[1]);
  depth = uint(state.v[2]);
  for (uint k = 0; k < 4; ++k) counts[k] = state.v[3 + k];
  for (uint s = 0; s < header(H_SREGS); ++s) sregs[s] = state.v[7 + s];
}

void begin(uint64_t n) {
  uint64_t x = header(H_GRID_X), y = header(H_GRID_Y);
  for (uint s = header(H_SREGS); s > 3; --s) sregs[s - 1] = 0;
  sregs[0] = int64_t(n % x);
  sregs[1] = int64_t(n / x % y);
  sregs[2] = int64_t(n / x / y);
  for (uint s = 0; s < header(H_STAGES); ++s)
    Longs(slice + (uint64_t(s) * LANES + lane) * 8).v[0] = 0;
  spent += header(H_SREGS) + header(H_STAGES);
  pc = depth = 0;
}

bool step_before_is_done() {
  uint back = header(H_PREVIOUS);
  Words previous = Words(push.block - back);
  return back == 0 || previous.v[H_DONE] == previous.v[H_GROUPS];
}

void main() {
  lane = gl_LocalInvocationID.x;
  uint64_t slice_bytes = uint64_t(header(H_SLICE_HIGH)) << 32 | header(H_SLICE_LOW);
  slice = push.arena + slice_bytes * gl_WorkGroupID.x;
  code = push.block + header(H_CODE);
  extra = push.block + header(H_EXTRA);
  values = push.block + header(H_VALUES);
  tile_table = push.block + header(H_TILES);
  Words status = Words(push.block + header(H_STATUS) + uint64_t(gl_WorkGroupID.x) * 4);
  Longs state = Longs(slice + header(H_STATE_AT));
  uint64_t n = gl_WorkGroupID.x;
  uint64_t total = uint64_t(header(H_GRID_X)) * header(H_GRID_Y) * header(H_GRID_Z);
  uint before = status.v[0];
  if (before == FINISHED || !step_before_is_done()) return;
  phase = spent = 0;
  if (before == SUSPENDED) go_on(state, n);
  for (bool fresh = before != SUSPENDED; n < total; n += gl_NumWorkGroups.x) {
    if (lane < 2) stop[lane] = 0;
    barrier();
    if (lane == 0) stop[phase & 1] = Words(push.fault).v[0];
    barrier();
    if (stop[phase++ & 1] != 0) return;  // Nothing runs behind a failure.
    if (fresh) begin(n);
    fresh = true;
    uint outcome = run_program();
    if (outcome == FAILED) return;
    if (outcome == SUSPENDED) {
      keep(state, n);
      if (lane == 0) status.v[0] = SUSPENDED;
      return;
    }
  }
  if (lane == 0) {
    status.v[0] = FINISHED;
    atomicAdd(Words(push.block).v[H_DONE], 1u);
  }
}
