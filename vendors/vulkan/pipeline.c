// Shaders, compiled to SPIR-V when the port was built, and their pipelines.
#include <stdlib.h>
#include <string.h>

#include "vil_image.h"
#include "vk.h"

static const uint32_t interpret_code[] = {
#include <interpret.spv.h>
};
static const uint32_t fill_code[] = {
#include <fill.spv.h>
};

static int32_t create_shader(vulkan_device *on, const uint32_t *code, size_t bytes,
                             VkShaderModule *out) {
  VkShaderModuleCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
  VULKAN_TRY(vkCreateShaderModule, on->device, &info, NULL, out);
  return HAL_OK;
}

// Constant 0 is the work-group's size, 1 … 4 the masks.
static int32_t create_pipeline(vulkan_device *on, VkShaderModule shader, const uint32_t masks[4],
                               VkPipeline *out) {
  uint32_t values[5] = {on->shape.lanes, masks[0], masks[1], masks[2], masks[3]};
  VkSpecializationMapEntry entries[5];
  for (uint32_t i = 0; i < 5; ++i) {
    entries[i] = (VkSpecializationMapEntry){i, i * 4, 4};
  }
  VkSpecializationInfo constants = {5, entries, sizeof(values), values};
  VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = shader,
                .pName = "main",
                .pSpecializationInfo = &constants},
      .layout = on->layout};
  VULKAN_TRY(vkCreateComputePipelines, on->device, VK_NULL_HANDLE, 1, &info, NULL, out);
  return HAL_OK;
}

int32_t vulkan_pipelines_create(vulkan_device *on) {
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(vulkan_push)};
  VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                     .pushConstantRangeCount = 1,
                                     .pPushConstantRanges = &range};
  VULKAN_TRY(vkCreatePipelineLayout, on->device, &info, NULL, &on->layout);
  int32_t status = create_shader(on, fill_code, sizeof(fill_code), &on->fill);
  return status != HAL_OK
             ? status
             : create_shader(on, interpret_code, sizeof(interpret_code), &on->interpret);
}

void vulkan_pipelines_free(vulkan_device *on) {
  while (on->pipelines != NULL) {
    vulkan_pipeline *next = on->pipelines->next;
    vk.vkDestroyPipeline(on->device, on->pipelines->pipeline, NULL);
    free(on->pipelines);
    on->pipelines = next;
  }
  vk.vkDestroyPipelineLayout(on->device, on->layout, NULL);
  vk.vkDestroyShaderModule(on->device, on->interpret, NULL);
  vk.vkDestroyShaderModule(on->device, on->fill, NULL);
}

#define BIT(n) (UINT32_C(1) << (n))

// A driver needs seconds for an interpreter, so there are four: with and without the elementary
// functions, and with and without what more than plain elementwise programs need.
static void widen(uint32_t masks[4]) {
  const uint32_t plain = BIT(VIL_LOAD) | BIT(VIL_STORE) | BIT(VIL_FILL) | BIT(VIL_IOTA) |
                         BIT(VIL_UN) | BIT(VIL_BIN) | BIT(VIL_SEL) | BIT(VIL_LOOP) | BIT(VIL_END) |
                         BIT(VIL_IF) | BIT(VIL_SREG);
  const uint32_t elementary = (BIT(VIL_ERF + 1) - BIT(VIL_EXP)) | BIT(VIL_POW) | BIT(VIL_FMOD);
  masks[0] = (masks[0] & ~plain) != 0 ? UINT32_MAX : plain;
  masks[1] = (masks[1] & elementary) != 0 ? UINT32_MAX : ~elementary;
  masks[2] = masks[3] = UINT32_MAX;
}

// With the device locked.
static int32_t find_or_create(vulkan_device *on, const uint32_t masks[4], VkPipeline *out) {
  vulkan_pipeline *at = on->pipelines;
  while (at != NULL && memcmp(at->masks, masks, sizeof(at->masks)) != 0) {
    at = at->next;
  }
  if (at == NULL) {
    at = calloc(1, sizeof(*at));
    if (at == NULL) {
      return kit_fail(HAL_ERROR_OUT_OF_MEMORY, "no host memory for a pipeline");
    }
    memcpy(at->masks, masks, sizeof(at->masks));
    int32_t status =
        create_pipeline(on, masks[0] == 0 ? on->fill : on->interpret, masks, &at->pipeline);
    if (status != HAL_OK) {
      free(at);
      return status;
    }
    at->next = on->pipelines;
    on->pipelines = at;
  }
  *out = at->pipeline;
  return HAL_OK;
}

int32_t vulkan_pipeline_get(vulkan_device *on, const uint32_t uses[4], VkPipeline *out_pipeline) {
  uint32_t masks[4] = {uses[0], uses[1], uses[2], uses[3]};
  if (masks[0] != 0) {
    widen(masks);
  }
  pthread_mutex_lock(&on->lock);
  int32_t status = find_or_create(on, masks, out_pipeline);
  pthread_mutex_unlock(&on->lock);
  return status;
}
