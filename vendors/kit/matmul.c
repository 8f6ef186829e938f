// See kit_matmul.h.
#include "kit_matmul.h"

#include <stdio.h>
#include <string.h>

#include "vil_image.h"

int32_t kit_matmul_info(uint32_t index, int is_there, uint64_t dtype_mask,
                        hal_operator_info *out_info) {
  if (index != 0 || !is_there) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE, "operator %u of %d", index, is_there);
  }
  snprintf(out_info->name, sizeof(out_info->name), "matmul");
  out_info->dtype_mask = dtype_mask;
  return HAL_OK;
}

static int find_matrix(const hal_tensor *tensor, kit_matrix *out) {
  uint32_t row = tensor->rank - 2, column = tensor->rank - 1;
  int64_t rows = (int64_t)tensor->shape[row], columns = (int64_t)tensor->shape[column],
          down = tensor->strides[row], right = tensor->strides[column];
  if ((right == 1 || columns <= 1) && (down >= columns || rows <= 1)) {
    *out = (kit_matrix){0, (int)(rows <= 1 ? columns : down), 0};
  } else if ((down == 1 || rows <= 1) && (right >= rows || columns <= 1)) {
    *out = (kit_matrix){1, (int)(columns <= 1 ? rows : right), 0};
  } else {
    return 0;
  }
  out->pitch = out->pitch < 1 ? 1 : out->pitch;
  out->step = tensor->rank == 3 ? tensor->strides[0] : 0;
  return down <= INT32_MAX && right <= INT32_MAX;
}

static int32_t refuse(const char *why) {
  return kit_fail(HAL_ERROR_UNSUPPORTED, "operator matmul: %s", why);
}

static int32_t check_types(const hal_operator_desc *desc, uint64_t dtype_mask) {
  uint32_t dtype = desc->outputs[0].dtype;
  if (dtype < 64 && dtype_mask >> dtype & 1 && desc->inputs[0].dtype == dtype &&
      desc->inputs[1].dtype == dtype) {
    return HAL_OK;
  }
  char taken[64] = "";
  for (uint32_t i = 1; i < 64; ++i) {
    if (dtype_mask >> i & 1) {
      size_t used = strlen(taken);
      snprintf(taken + used, sizeof(taken) - used, "%sall %s", used == 0 ? "" : ", or ",
               vil_dtype_name(i));
    }
  }
  return kit_fail(HAL_ERROR_UNSUPPORTED, "operator matmul: the types are not %s", taken);
}

static int32_t check_shapes(const hal_tensor *a, const hal_tensor *b, const hal_tensor *c) {
  uint32_t rank = a->rank;
  if (rank < 2 || rank > 3 || b->rank != rank || c->rank != rank) {
    return refuse("the tensors have not all two dimensions, or all three");
  }
  const uint64_t *x = a->shape + rank - 2, *y = b->shape + rank - 2, *z = c->shape + rank - 2;
  if (x[1] != y[0] || x[0] != z[0] || y[1] != z[1] ||
      (rank == 3 && (a->shape[0] != b->shape[0] || a->shape[0] != c->shape[0]))) {
    return refuse("the shapes do not fit each other");
  }
  if (x[0] > INT32_MAX || x[1] > INT32_MAX || y[1] > INT32_MAX) {
    return refuse("a dimension is 2^31 or longer");
  }
  kit_matrix ignored, target;
  if (!find_matrix(a, &ignored) || !find_matrix(b, &ignored) || !find_matrix(c, &target) ||
      target.is_transposed) {
    return refuse("strides that the library does not take");
  }
  return HAL_OK;
}

int32_t kit_matmul_supports(const hal_operator_desc *desc, const char *absent,
                            uint64_t dtype_mask) {
  if (strcmp(desc->name, "matmul") != 0) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "there is no operator %.64s", desc->name);
  }
  if (absent != NULL) {
    return refuse(absent);
  }
  if (desc->input_count != 2 || desc->output_count != 1) {
    return refuse("it has two inputs and one output");
  }
  int32_t status = check_types(desc, dtype_mask);
  if (status != HAL_OK) {
    return status;
  }
  for (uint32_t i = 0; i < desc->attribute_count; ++i) {
    const hal_attribute *at = &desc->attributes[i];
    if ((strcmp(at->name, "alpha") != 0 && strcmp(at->name, "beta") != 0) ||
        at->kind != HAL_ATTRIBUTE_F64) {
      return refuse("its attributes are alpha and beta, both f64");
    }
  }
  return check_shapes(&desc->inputs[0], &desc->inputs[1], &desc->outputs[0]);
}

static double number(const kit_operator *use, const char *name, double absent) {
  for (uint32_t i = 0; i < use->attribute_count; ++i) {
    if (strcmp(use->attributes[i].name, name) == 0) {
      memcpy(&absent, &use->attributes[i].bits, sizeof(absent));
    }
  }
  return absent;
}

void kit_matmul_read(const kit_operator *use, kit_matmul *out) {
  const hal_tensor *a = &use->tensors[0], *c = &use->tensors[2];
  uint32_t rank = c->rank;
  *out = (kit_matmul){
      .m = (int)c->shape[rank - 2],
      .n = (int)c->shape[rank - 1],
      .k = (int)a->shape[rank - 1],
      .count = rank == 3 ? c->shape[0] : 1,
      .dtype = c->dtype,
      .alpha = number(use, "alpha", 1.0),
      .beta = number(use, "beta", 0.0),
  };
  find_matrix(a, &out->a);
  find_matrix(&use->tensors[1], &out->b);
  find_matrix(c, &out->c);
}
