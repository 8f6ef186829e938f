// The valid region of a result, from those of its operands (docs/vil.md).
#include "vil_launch.h"

static void elementwise_valid(vil_operation *o) {
  const vil_tile_view *operands[3] = {&o->a, &o->b, &o->c};
  uint32_t rows = o->d.rows, columns = o->d.columns;
  for (int k = 0; k < 3; k++) {
    if (!operands[k]->data) continue;
    rows = vil_broadcast_valid(o->d.rows, rows, operands[k]->rows, operands[k]->valid_rows);
    columns = vil_broadcast_valid(o->d.columns, columns, operands[k]->columns,
                                  operands[k]->valid_columns);
  }
  o->d.valid_rows = rows;
  o->d.valid_columns = columns;
}

// Sets the valid region of the result.
void vil_result_valid(const vil_run *run, const vil_instruction *at, vil_operation *o) {
  vil_tile_view *d = &o->d;
  uint32_t rows = d->valid_rows, columns = d->valid_columns;
  switch (at->op) {
    case VIL_FILL:
      d->valid_rows = at->values[0] == VIL_NONE ? d->rows : vil_clamp(o->values[0], d->rows);
      d->valid_columns =
          at->values[1] == VIL_NONE ? d->columns : vil_clamp(o->values[1], d->columns);
      break;
    case VIL_IOTA:
    case VIL_RNG:
      d->valid_rows = d->rows;
      d->valid_columns = d->columns;
      break;
    case VIL_RED:
      d->valid_rows = at->axis == 0 ? 1 : o->a.valid_rows;
      d->valid_columns = at->axis == 0 ? o->a.valid_columns : 1;
      break;
    case VIL_MMA:
      d->valid_rows =
          at->flags & VIL_FLAG_INIT ? o->a.valid_rows : vil_smaller(rows, o->a.valid_rows);
      d->valid_columns =
          at->flags & VIL_FLAG_INIT ? o->b.valid_columns : vil_smaller(columns, o->b.valid_columns);
      break;
    case VIL_TRN:
      d->valid_rows = o->a.valid_columns;
      d->valid_columns = o->a.valid_rows;
      break;
    case VIL_COPY:
    case VIL_SCAN:
      d->valid_rows = o->a.valid_rows;
      d->valid_columns = o->a.valid_columns;
      break;
    default:
      elementwise_valid(o);
      break;
  }
  vil_set_valid(run, at, VIL_D, d->valid_rows, d->valid_columns);
}
