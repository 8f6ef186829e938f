// The steps of chains for one instruction set; a part of tiles_rows.h. Each step is a function that
// gets a block in four vector registers and hands it to the next step by a call that the compiler
// makes a jump.

// ---- Optional ----

enum { STEP_VECTORS = 4, STEP_BLOCK = STEP_VECTORS * LANES };

typedef void (*step_function)(cpu_step *step, size_t at, lanes a, lanes b, lanes c, lanes d);

#define STEP(name) static void name(cpu_step *step, size_t at, lanes a, lanes b, lanes c, lanes d)
#define NEXT ((step_function)step[1].run)(step + 1, at, a, b, c, d)

STEP(step_end) {
  (void)step, (void)at, (void)a, (void)b, (void)c, (void)d;
}

STEP(step_take) {
  (void)a, (void)b, (void)c, (void)d;
  const float *row = step->row + at;
  a = load_lanes(row);
  b = load_lanes(row + LANES);
  c = load_lanes(row + 2 * LANES);
  d = load_lanes(row + 3 * LANES);
  NEXT;
}

MATH void put_lanes(float *to, lanes value) {
  memcpy(to, &value, sizeof(value));
}

STEP(step_put) {
  float *row = step->row + at;
  put_lanes(row, a);
  put_lanes(row + LANES, b);
  put_lanes(row + 2 * LANES, c);
  put_lanes(row + 3 * LANES, d);
  NEXT;
}

#ifndef STREAM_LANES
#define STREAM_LANES put_lanes
#endif

STEP(step_stream) {
  float *row = step->row + at;
  STREAM_LANES(row, a);
  STREAM_LANES(row + LANES, b);
  STREAM_LANES(row + 2 * LANES, c);
  STREAM_LANES(row + 3 * LANES, d);
  NEXT;
}

STEP(step_fetch) {
  for (int k = 0; k < STEP_BLOCK; k += 16) __builtin_prefetch(step->row + at + k);
  NEXT;
}

// ---- Optional: UN ----

MATH lanes each_exp(lanes x) {
  float in[LANES], out[LANES];
  memcpy(in, &x, sizeof(x));
  for (int k = 0; k < LANES; ++k) out[k] = exp_f32(in[k]);
  memcpy(&x, out, sizeof(x));
  return x;
}
#ifndef EXP_LANES
#define EXP_LANES each_exp
#endif

STEP(step_exp) {
  a = EXP_LANES(a);
  b = EXP_LANES(b);
  c = EXP_LANES(c);
  d = EXP_LANES(d);
  NEXT;
}

// Any other function goes through memory, which is in the first cache.
STEP(step_unary) {
  float block[STEP_BLOCK];
  put_lanes(block, a);
  put_lanes(block + LANES, b);
  put_lanes(block + 2 * LANES, c);
  put_lanes(block + 3 * LANES, d);
  unary_f32(step->function, block, block, STEP_BLOCK);
  a = load_lanes(block);
  b = load_lanes(block + LANES);
  c = load_lanes(block + 2 * LANES);
  d = load_lanes(block + 3 * LANES);
  NEXT;
}

// ---- Optional: BIN and RED ----

MATH lanes add_lanes(lanes x, lanes y) {
  return x + y;
}
MATH lanes sub_lanes(lanes x, lanes y) {
  return x - y;
}
MATH lanes mul_lanes(lanes x, lanes y) {
  return x * y;
}
MATH lanes div_lanes(lanes x, lanes y) {
  return x / y;
}

// NaN when one is: the comparison gives y when one is, which leaves x's own.
MATH lanes max_lanes(lanes x, lanes y) {
  return choose_lanes((marks)(x != x), x, LARGER_LANES(x, y));
}
MATH lanes min_lanes(lanes x, lanes y) {
  return choose_lanes((marks)(x != x), x, SMALLER_LANES(x, y));
}

#define ALL(operation, y0, y1, y2, y3) \
  a = operation(a, y0);                \
  b = operation(b, y1);                \
  c = operation(c, y2);                \
  d = operation(d, y3);                \
  NEXT
#define ALL_REVERSED(operation, y0, y1, y2, y3) \
  a = operation(y0, a);                         \
  b = operation(y1, b);                         \
  c = operation(y2, c);                         \
  d = operation(y3, d);                         \
  NEXT
#define DEFINE_STEPS(name)                                                                      \
  STEP(step_##name##_scalar) {                                                                  \
    const lanes y = (lanes){0} + step->scalar;                                                  \
    ALL(name##_lanes, y, y, y, y);                                                              \
  }                                                                                             \
  STEP(step_##name##_reversed) {                                                                \
    const lanes y = (lanes){0} + step->scalar;                                                  \
    ALL_REVERSED(name##_lanes, y, y, y, y);                                                     \
  }                                                                                             \
  STEP(step_##name##_row) {                                                                     \
    const float *y = step->row + at;                                                            \
    ALL(name##_lanes, load_lanes(y), load_lanes(y + LANES), load_lanes(y + 2 * LANES),          \
        load_lanes(y + 3 * LANES));                                                             \
  }                                                                                             \
  STEP(step_##name##_row_reversed) {                                                            \
    const float *y = step->row + at;                                                            \
    ALL_REVERSED(name##_lanes, load_lanes(y), load_lanes(y + LANES), load_lanes(y + 2 * LANES), \
                 load_lanes(y + 3 * LANES));                                                    \
  }                                                                                             \
  STEP(step_##name##_twice) {                                                                   \
    ALL(name##_lanes, a, b, c, d);                                                              \
  }
DEFINE_STEPS(add)
DEFINE_STEPS(sub)
DEFINE_STEPS(mul)
DEFINE_STEPS(div)
DEFINE_STEPS(max)
DEFINE_STEPS(min)

// The first block of a row starts the folds.
#define DEFINE_FOLD(name)                                 \
  STEP(step_##name##_fold) {                              \
    float *folds = step->folds;                           \
    lanes f = a, g = b, h = c, i = d;                     \
    if (at) {                                             \
      f = name##_lanes(a, load_lanes(folds));             \
      g = name##_lanes(b, load_lanes(folds + LANES));     \
      h = name##_lanes(c, load_lanes(folds + 2 * LANES)); \
      i = name##_lanes(d, load_lanes(folds + 3 * LANES)); \
    }                                                     \
    put_lanes(folds, f);                                  \
    put_lanes(folds + LANES, g);                          \
    put_lanes(folds + 2 * LANES, h);                      \
    put_lanes(folds + 3 * LANES, i);                      \
    NEXT;                                                 \
  }
DEFINE_FOLD(add)
DEFINE_FOLD(max)
DEFINE_FOLD(min)

// ---- Optional: The table ----

#define FORMS_OF(name)                                                                          \
  {step_##name##_scalar, step_##name##_reversed, step_##name##_row, step_##name##_row_reversed, \
   step_##name##_twice}

static bool find_step(cpu_step *step) {
  static const step_function forms[][5] = {FORMS_OF(add), FORMS_OF(sub), FORMS_OF(mul),
                                           FORMS_OF(div), FORMS_OF(max), FORMS_OF(min)};
  step_function found = NULL;
  float probe = 1;
  switch (step->kind) {
    case CPU_STEP_TAKE:
      found = step_take;
      break;
    case CPU_STEP_UNARY:
      found = step->function == VIL_EXP                      ? step_exp
              : unary_f32(step->function, &probe, &probe, 1) ? step_unary
                                                             : NULL;
      break;
    case CPU_STEP_SCALAR:
    case CPU_STEP_REVERSED:
    case CPU_STEP_ROW:
    case CPU_STEP_ROW_REVERSED:
    case CPU_STEP_TWICE:
      if (step->function >= VIL_ADD && step->function <= VIL_MIN)
        found = forms[step->function - VIL_ADD][step->kind - CPU_STEP_SCALAR];
      break;
    case CPU_STEP_FOLD:
      found = step->function == VIL_ADD   ? step_add_fold
              : step->function == VIL_MAX ? step_max_fold
                                          : step_min_fold;
      break;
    case CPU_STEP_PUT:
      found = step_put;
      break;
    case CPU_STEP_STREAM:
      found = step_stream;
      break;
    case CPU_STEP_FETCH:
      found = step_fetch;
      break;
    case CPU_STEP_END:
      found = step_end;
      break;
  }
  step->run = (void (*)(void))found;
  return found != NULL;
}

static void run_steps(cpu_step *steps, size_t end) {
  const lanes none = {0};
  for (size_t at = 0; at < end; at += STEP_BLOCK)
    ((step_function)steps->run)(steps, at, none, none, none, none);
}
