// The tile operations. Lanes share the result's elements; a barrier follows each operation.
#define EACH(rows, columns, turns)                                 \
  spent += ((rows) * (columns) / LANES + 1) * ((turns) + 4);       \
  for (uint e = lane; e < (rows) * (columns); e += LANES) {        \
    uint i = e / (columns), j = e % (columns);
#define END_EACH }

bool is_comparison(uint f) { return f >= LT && f <= NE; }

void run_elements(uint op, uint f, bool saturates) {
  Tile d = operand(0), a = operand(1), b = operand(2), c = operand(3);
  uint rows = d.rows, columns = d.columns;
  narrow(d, a, rows, columns);
  narrow(d, b, rows, columns);
  narrow(d, c, rows, columns);
  EACH(rows, columns, f == ERF ? 48 : f == FMOD ? 10 : 0)
    uint64_t at = element(d, i, j), x = meets(a, d, i, j), y = meets(b, d, i, j);
    if (HAS_OP(SEL) && op == SEL) {
      uint64_t from = bits_at(x, 1) != 0 ? y : meets(c, d, i, j);
      set_bits(at, d.size, bits_at(from, d.size));
    } else if (op == COPY || (op == UN && f == MOV)) {
      set_bits(at, d.size, bits_at(x, d.size));
    } else if (HAS_OP(UN) && op == UN) {
      if (HAS(ISNAN) && f == ISNAN) set_bits(at, 1, is_nan(float_at(x)) ? 1 : 0);
      else if (HAS_DTYPE(F32) && a.dtype == F32) set_float(at, unary_float(f, float_at(x)));
      else set_int(at, d.dtype, unary_int(f, a.dtype, int_at(x, a.dtype)));
    } else if (HAS_OP(BIN) && op == BIN) {
      if (HAS_DTYPE(F32) && a.dtype == F32) {
        float left = float_at(x), right = float_at(y);
        if (is_comparison(f)) set_bits(at, 1, compare_float(f, left, right) ? 1 : 0);
        else set_float(at, binary_float(f, left, right));
      } else {
        set_int(at, d.dtype, binary_int(false, f, a.dtype, int_at(x, a.dtype), int_at(y, a.dtype)));
      }
    } else if (HAS_OP(CAST) && op == CAST) {
      if (a.dtype == F32 && d.dtype == F32) {
        float value = float_at(x), most = uintBitsToFloat(0x7F7FFFFFu);
        set_float(at, saturates && !is_nan(value) ? clamp(value, -most, most) : value);
      } else if (a.dtype == F32) {
        set_int(at, d.dtype, float_to_int(float_at(x), d.dtype));
      } else if (d.dtype == F32) {
        set_float(at, float(int_at(x, a.dtype)));
      } else {
        int64_t value = int_at(x, a.dtype);
        if (d.dtype == BOOL) value = value != 0 ? 1 : 0;
        else if (saturates) value = clamp(value, lowest(d.dtype), highest(d.dtype));
        set_int(at, d.dtype, value);
      }
    }
  END_EACH
  set_valid(d, rows, columns);
}

// The index of the largest (smallest) of `count` elements from `at` on; the first NaN wins.
int64_t best_of(uint f, Tile a, uint64_t at, uint64_t pitch, uint count) {
  uint best = 0;
  if (a.dtype == F32) {
    float sofar = float_at(at);
    for (uint k = 1; k < count; ++k) {
      float x = float_at(at + k * pitch);
      if (!is_nan(sofar) && (is_nan(x) || (f == ARGMAX ? x > sofar : x < sofar))) {
        sofar = x;
        best = k;
      }
    }
  } else {
    int64_t sofar = int_at(at, a.dtype);
    for (uint k = 1; k < count; ++k) {
      int64_t x = int_at(at + k * pitch, a.dtype);
      if (f == ARGMAX ? x > sofar : x < sofar) {
        sofar = x;
        best = k;
      }
    }
  }
  return int64_t(best);
}

float fold_floats(uint f, uint64_t at, uint64_t pitch, uint count) {
  float sum = f == ADD ? 0.0 : f == MUL ? 1.0 : f == MAX ? -INFINITE : INFINITE;
  for (uint k = 0; k < count; ++k) sum = binary_float(f, sum, float_at(at + k * pitch));
  return sum;
}
int64_t fold_ints(uint f, uint from, uint to, uint64_t at, uint64_t pitch, uint count) {
  int64_t sum = f == MUL ? int64_t(1) : f == MAX ? lowest(from) : f == MIN ? highest(from)
                : f == AND ? (from == BOOL ? int64_t(1) : int64_t(-1)) : int64_t(0);
  for (uint k = 0; k < count; ++k)
    sum = binary_int(false, f, to, sum, int_at(at + k * pitch, from));
  return sum;
}

void run_reduce(uint f, uint axis) {
  Tile d = operand(0), a = operand(1);
  uint rows = axis == 0 ? 1 : a.valid_rows, columns = axis == 0 ? a.valid_columns : 1;
  uint count = axis == 0 ? a.valid_rows : a.valid_columns;
  uint64_t pitch = uint64_t(axis == 0 ? a.columns : 1) * a.size;
  int64_t base = v(0, 0);
  EACH(rows, columns, 2 * count)
    uint64_t at = element(d, i, j), from = element(a, i, j);
    if (f == ARGMAX || f == ARGMIN) {
      if (count == 0) fault(2, i, j);
      else set_int(at, d.dtype, best_of(f, a, from, pitch, count) + base);
    } else if (HAS_DTYPE(F32) && a.dtype == F32) {
      set_float(at, fold_floats(f, from, pitch, count));
    } else {
      set_int(at, d.dtype, fold_ints(f, a.dtype, d.dtype, from, pitch, count));
    }
  END_EACH
  set_valid(d, rows, columns);
}

void run_product(bool init) {
  Tile d = operand(0), a = operand(1), b = operand(2);
  uint rows = init ? a.valid_rows : min(d.valid_rows, a.valid_rows);
  uint columns = init ? b.valid_columns : min(d.valid_columns, b.valid_columns);
  uint count = min(a.valid_columns, b.valid_rows);
  EACH(rows, columns, count)
    uint64_t at = element(d, i, j), x = element(a, i, 0), y = element(b, 0, j);
    if (HAS_DTYPE(F32) && d.dtype == F32) {
      precise float sum = init ? 0.0 : float_at(at);
      for (uint k = 0; k < count; ++k)
        sum += float_at(x + k * 4) * float_at(y + uint64_t(k) * b.columns * 4);
      set_float(at, sum);
    } else {
      int64_t sum = init ? int64_t(0) : int_at(at, d.dtype);
      for (uint k = 0; k < count; ++k)
        sum += int_at(x + k * a.size, a.dtype) *
               int_at(y + uint64_t(k) * b.columns * b.size, b.dtype);
      set_int(at, d.dtype, sum);
    }
  END_EACH
  set_valid(d, rows, columns);
}

void run_transpose() {
  Tile d = operand(0), a = operand(1);
  EACH(a.valid_columns, a.valid_rows, 0)
    set_bits(element(d, i, j), d.size, bits_at(element(a, j, i), d.size));
  END_EACH
  set_valid(d, a.valid_columns, a.valid_rows);
}

uint clamped(int64_t x, uint most) { return x < 0 ? 0 : x > most ? most : uint(x); }

void run_fill() {
  Tile d = operand(0);
  uint rows = clamped(v(0, d.rows), d.rows), columns = clamped(v(1, d.columns), d.columns);
  EACH(rows, columns, 0)
    set_bits(element(d, i, j), d.size, extra_bits());
  END_EACH
  set_valid(d, rows, columns);
}

void run_iota() {
  Tile d = operand(0);
  int64_t base = v(0, 0), row = v(1, 0), column = v(2, 0);
  EACH(d.rows, d.columns, 0)
    set_int(element(d, i, j), d.dtype, base + row * i + column * j);
  END_EACH
  set_valid(d, d.rows, d.columns);
}
