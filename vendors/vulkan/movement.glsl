// LOAD, STORE and GATHER: tiles through descriptors (docs/vil.md, sections 1.4, 5.2, 5.10).
const uint OUTSIDE = 0, INSIDE = 1, BROKEN = 2;

// The values of the descriptor: [0, 15) extent, stride and base of the dimensions; [16, 24) origin,
// limit and digits of the rows; [24, 32) those of the columns.
shared int64_t part[32];
shared int64_t coefficients[64], factors[64];
shared uint terms[64];  // Dimension, kind << 8, index << 16.

void prepare(uint64_t descriptor, uint term_count) {
  uint64_t first = push.block + header(H_TERMS) + uint64_t(Words(descriptor).v[2]) * 8;
  for (uint n = lane; n < 31; n += LANES) {
    uint slot = n < 15 ? n : n + 1;
    uint reference = half_at(descriptor + (n < 15 ? 24 + 2 * n : 26 + 2 * n));
    part[slot] = value_of(reference, NO_SIZE);
  }
  for (uint t = lane; t < term_count; t += LANES) {
    uint word = Words(first + t * 8).v[0];
    terms[t] = word;
    factors[t] = (word >> 8 & 0xFFu) == 0 ? sregs[word >> 16 & 63] : 0;
    coefficients[t] = value_of(half_at(first + t * 8 + 4), 0);
  }
  barrier();
}

int64_t origin_of(uint axis) {
  return part[16 + 8 * axis] == NO_SIZE ? int64_t(0) : part[16 + 8 * axis];
}

uint count_of(uint axis, uint whole) {
  int64_t origin = origin_of(axis);
  int64_t limit = part[17 + 8 * axis];
  if (limit == NO_SIZE) return whole;
  if (limit <= origin) return 0;
  uint64_t count = uint64_t(limit) - uint64_t(origin);
  return count < whole ? uint(count) : whole;
}

int64_t digit(uint axis, uint n, int64_t position) {
  int64_t size = part[18 + 8 * axis + 2 * n], divisor = part[19 + 8 * axis + 2 * n];
  if (divisor == 0 || size == 0) return 0;
  int64_t q = divisor == 1 ? position : floor_div(position, divisor);
  return size == NO_SIZE ? q : floor_mod(q, size);
}

// Where tile place (i, j) lies. `along` is the dimension that gets `index` too, or 5.
uint locate(uint rank, uint term_count, uint i, uint j, uint along, int64_t index, int64_t elements,
            out int64_t offset) {
  int64_t position[2], product;
  offset = 0;
  bool outside = false, broken = false;
  outside = add_overflows(origin_of(0), int64_t(i), position[0]) || outside;
  outside = add_overflows(origin_of(1), int64_t(j), position[1]) || outside;
  uint t = 0;
  for (uint k = 0; k < rank; ++k) {
    int64_t coordinate = part[3 * k + 2];
    for (; t < term_count && (terms[t] & 0xFFu) == k; ++t) {
      uint kind = terms[t] >> 8 & 0xFFu;
      uint axis = kind == 2 ? 1 : 0;
      int64_t factor = factors[t];
      if (kind != 0) factor = digit(axis, terms[t] >> 16, axis == 0 ? position[0] : position[1]);
      outside = multiply_overflows(factor, coefficients[t], product) || outside;
      outside = add_overflows(coordinate, product, coordinate) || outside;
    }
    if (k == along) outside = add_overflows(coordinate, index, coordinate) || outside;
    outside = outside || coordinate < 0 || coordinate >= part[3 * k];
    broken = multiply_overflows(coordinate, part[3 * k + 1], product) || broken;
    broken = add_overflows(offset, product, offset) || broken;
  }
  if (outside) return OUTSIDE;
  return broken || offset < 0 || offset >= elements ? BROKEN : INSIDE;
}

void move(uint op) {
  Tile tile = operand(op == STORE ? 1 : 0), picks = operand(1);
  uint64_t descriptor = push.block + header(H_DESCRIPTORS) +
                        uint64_t(Words(at_pc()).v[1] >> 16) * 88;
  uint shape = Words(descriptor).v[1], rank = shape >> 24, along = 5;
  uint term_count = Words(descriptor).v[3] & 0xFFFFu;
  prepare(descriptor, term_count);
  Longs param = Longs(push.block + header(H_PARAMS) + uint64_t(shape & 0xFFFFu) * 16);
  uint64_t data = uint64_t(param.v[0]), fill = uint64_t(Longs(descriptor).v[2]);
  int64_t elements = param.v[1];
  uint rows = count_of(0, tile.rows), columns = count_of(1, tile.columns);
  if (op == STORE) {
    rows = min(rows, tile.valid_rows);
    columns = min(columns, tile.valid_columns);
  } else if (HAS_OP(GATHER) && op == GATHER) {
    along = Words(at_pc()).v[0] >> 24;
    rows = min(rows, picks.valid_columns != 0 ? picks.valid_rows : 0);
  }
  spent += (rows * columns / LANES + 1) * (2 * rank + term_count + 4);
  for (uint e = lane; e < rows * columns; e += LANES) {
    uint i = e / columns, j = e % columns;
    int64_t offset, index = along < 5 ? int_at(element(picks, i, 0), picks.dtype) : int64_t(0);
    uint where = locate(rank, term_count, i, j, along, index, elements, offset);
    uint64_t at = data + uint64_t(offset) * tile.size, place = element(tile, i, j);
    if (where == BROKEN) fault(1, i, j);
    if (op == STORE) {
      if (where == INSIDE) set_bits(at, tile.size, bits_at(place, tile.size));
    } else {
      uint64_t bits = fill;
      if (where == INSIDE) bits = bits_at(at, tile.size);
      set_bits(place, tile.size, tile.dtype == BOOL && bits != 0 ? uint64_t(1) : bits);
    }
  }
  if (op != STORE) set_valid(tile, rows, columns);
}
