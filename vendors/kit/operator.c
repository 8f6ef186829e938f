// Interface 9: operators of the port's own library, in stream order. The port's hooks name them and
// run them; the kit checks tensors against their buffers and keeps what a use needs until it runs.
#include <string.h>

#include "kit_state.h"

enum { MOST_TENSORS = 64, MOST_ATTRIBUTES = 64, MOST_DIMENSIONS = 5 };

static uint32_t dtype_bytes(uint32_t dtype) {
  static const uint8_t bytes[] = {0, 4, 2, 2, 8, 1, 1, 4, 8, 1, 1, 1};
  return dtype < sizeof(bytes) ? bytes[dtype] : 0;
}

int32_t kit_operator_enumerate(hal_device handle, uint32_t index, hal_operator_info *out_info) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = kit_the_port()->hooks.operator_info(device, index, out_info);
  kit_release(device);
  return status;
}

static int32_t check_desc(const hal_operator_desc *desc) {
  if (desc->input_count > MOST_TENSORS || desc->output_count > MOST_TENSORS ||
      desc->attribute_count > MOST_ATTRIBUTES) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "operator %s: more than %d tensors or attributes",
                    desc->name, MOST_TENSORS);
  }
  for (uint32_t i = 0; i < desc->input_count + desc->output_count; ++i) {
    bool is_input = i < desc->input_count;
    const hal_tensor *tensor = is_input ? &desc->inputs[i] : &desc->outputs[i - desc->input_count];
    if (tensor->rank > MOST_DIMENSIONS || dtype_bytes(tensor->dtype) == 0) {
      return kit_fail(HAL_ERROR_INVALID_VALUE, "operator %s: tensor %u has rank %u and dtype %u",
                      desc->name, i, tensor->rank, tensor->dtype);
    }
  }
  return HAL_OK;
}

static int32_t supports(kit_device *device, const hal_operator_desc *desc, uint64_t *out_bytes) {
  int32_t status = check_desc(desc);
  return status == HAL_OK ? kit_the_port()->hooks.operator_supports(device, desc, out_bytes)
                          : status;
}

int32_t kit_operator_supports(hal_device handle, const hal_operator_desc *desc,
                              uint64_t *out_workspace_bytes) {
  kit_device *device = kit_acquire(handle, KIT_KIND_DEVICE);
  if (device == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = supports(device, desc, out_workspace_bytes);
  kit_release(device);
  return status;
}

// The elements of a tensor lie in its range.
static int32_t check_extent(const char *name, uint32_t index, const hal_tensor *tensor) {
  __int128 least = 0, most = 0;
  for (uint32_t k = 0; k < tensor->rank; ++k) {
    if (tensor->shape[k] == 0) {
      return HAL_OK;  // No element.
    }
    __int128 reach = (__int128)(tensor->shape[k] - 1) * tensor->strides[k];
    *(reach < 0 ? &least : &most) += reach;
  }
  if (least < 0 || (most + 1) * dtype_bytes(tensor->dtype) > (__int128)tensor->ref.bytes) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE,
                    "operator %s: tensor %u reaches beyond its range of %llu bytes", name, index,
                    (unsigned long long)tensor->ref.bytes);
  }
  return HAL_OK;
}

static int32_t take_tensor(const kit_device *device, const hal_operator_desc *desc, uint32_t index,
                           kit_operation *operation, kit_range *uses, kit_operator *use) {
  bool is_input = index < desc->input_count;
  hal_tensor *tensor = &use->tensors[index];
  *tensor = is_input ? desc->inputs[index] : desc->outputs[index - desc->input_count];
  int32_t status = check_extent(desc->name, index, tensor);
  if (status != HAL_OK) {
    return status;
  }
  kit_range *range = &uses[operation->use_count];
  status = kit_range_take(&tensor->ref, device, "operator tensor", range);
  if (status != HAL_OK) {
    return status;
  }
  ++operation->use_count;
  use->data[index] = kit_range_pointer(range);
  if ((uintptr_t)use->data[index] % dtype_bytes(tensor->dtype) != 0) {
    return kit_fail(HAL_ERROR_INVALID_VALUE,
                    "operator %s: the offset of tensor %u is no multiple of its elements",
                    desc->name, index);
  }
  return HAL_OK;
}

static char *keep_text(char **room, const char *text) {
  char *kept = *room;
  size_t bytes = strlen(text) + 1;
  memcpy(kept, text, bytes);
  *room += bytes;
  return kept;
}

// Copies the use into the place: tensors, attributes, texts.
static int32_t fill_place(kit_place *place, const kit_device *device, const hal_operator_desc *desc,
                          const hal_memory_ref *workspace) {
  uint32_t count = desc->input_count + desc->output_count;
  uint64_t texts = strlen(desc->name) + 1;
  for (uint32_t i = 0; i < desc->attribute_count; ++i) {
    texts += strlen(desc->attributes[i].name) + 1;
  }
  uint64_t bytes = sizeof(kit_operator) + (count + 1) * sizeof(kit_range) +
                   count * (sizeof(hal_tensor) + sizeof(void *)) +
                   desc->attribute_count * sizeof(hal_attribute) + texts;
  kit_operator *use = kit_place_block(place, bytes);
  if (use == NULL) {
    return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for an operator");
  }
  kit_operation *operation = &place->operation;
  kit_range *uses = (kit_range *)(use + 1);
  *use = (kit_operator){.input_count = desc->input_count,
                        .output_count = desc->output_count,
                        .attribute_count = desc->attribute_count};
  use->tensors = (hal_tensor *)(uses + count + 1);
  use->data = (void **)(use->tensors + count);
  use->attributes = (hal_attribute *)(use->data + count);
  char *room = (char *)(use->attributes + desc->attribute_count);
  use->name = keep_text(&room, desc->name);
  for (uint32_t i = 0; i < desc->attribute_count; ++i) {
    use->attributes[i] = desc->attributes[i];
    use->attributes[i].name = keep_text(&room, desc->attributes[i].name);
  }
  operation->kind = KIT_OPERATOR;
  operation->launch = use;
  operation->uses = uses;
  for (uint32_t i = 0; i < count; ++i) {
    int32_t status = take_tensor(device, desc, i, operation, uses, use);
    if (status != HAL_OK) {
      return status;
    }
  }
  if (workspace == NULL) {
    return HAL_OK;
  }
  kit_range *range = &uses[operation->use_count];
  int32_t status = kit_range_take(workspace, device, "operator workspace", range);
  if (status == HAL_OK) {
    ++operation->use_count;
    use->workspace = kit_range_pointer(range);
  }
  return status;
}

static int32_t run(kit_stream *stream, const hal_operator_desc *desc,
                   const hal_memory_ref *workspace) {
  kit_device *device = stream->object.device;
  uint64_t needed = 0;
  int32_t status = supports(device, desc, &needed);
  if (status != HAL_OK) {
    return status;
  }
  if (needed > (workspace == NULL ? 0 : workspace->bytes)) {
    return kit_fail(HAL_ERROR_OUT_OF_RANGE,
                    "operator %s needs %llu bytes of workspace, %llu are given", desc->name,
                    (unsigned long long)needed,
                    (unsigned long long)(workspace == NULL ? 0 : workspace->bytes));
  }
  kit_place *place = NULL;
  status = kit_enqueue_begin(stream, false, &place);
  if (status != HAL_OK) {
    return status;
  }
  status = fill_place(place, device, desc, needed == 0 ? NULL : workspace);
  if (status != HAL_OK) {
    kit_enqueue_cancel(stream, place);
    return status;
  }
  return kit_enqueue_end(stream, place);
}

int32_t kit_operator_run(hal_stream handle, const hal_operator_desc *desc,
                         const hal_memory_ref *workspace) {
  kit_stream *stream = kit_acquire(handle, KIT_KIND_STREAM);
  if (stream == NULL) {
    return HAL_ERROR_INVALID_HANDLE;
  }
  int32_t status = run(stream, desc, workspace);
  kit_release(stream);
  return status;
}
