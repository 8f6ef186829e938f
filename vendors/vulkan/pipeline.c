// Shaders, compiled to SPIR-V when the port was built, and their pipelines.
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

#define BIT(n) (UINT32_C(1) << (n))

// What plain elementwise programs need, and the elementary functions.
static const uint32_t plain = BIT(VIL_LOAD) | BIT(VIL_STORE) | BIT(VIL_FILL) | BIT(VIL_IOTA) |
                              BIT(VIL_UN) | BIT(VIL_BIN) | BIT(VIL_SEL) | BIT(VIL_LOOP) |
                              BIT(VIL_END) | BIT(VIL_IF) | BIT(VIL_SREG);
static const uint32_t elementary = (BIT(VIL_ERF + 1) - BIT(VIL_EXP)) | BIT(VIL_POW) | BIT(VIL_FMOD);

// Constant 0 is the work-group's size, 1 … 4 the masks of operations, functions (two) and types.
static int32_t create_pipeline(vulkan_device *on, uint32_t number, VkPipeline *out) {
  uint32_t values[5] = {on->shape.lanes, (number & VULKAN_MORE) != 0 ? UINT32_MAX : plain,
                        (number & VULKAN_ELEMENTARY) != 0 ? UINT32_MAX : ~elementary, UINT32_MAX,
                        UINT32_MAX};
  VkSpecializationMapEntry entries[5];
  for (uint32_t i = 0; i < 5; ++i) {
    entries[i] = (VkSpecializationMapEntry){i, i * 4, 4};
  }
  VkSpecializationInfo constants = {5, entries, sizeof(values), values};
  VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = number == VULKAN_FILL ? on->fill : on->interpret,
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
  for (uint32_t i = 0; i < VULKAN_PIPELINES; ++i) {
    vk.vkDestroyPipeline(on->device, on->pipelines[i], NULL);
  }
  vk.vkDestroyPipelineLayout(on->device, on->layout, NULL);
  vk.vkDestroyShaderModule(on->device, on->interpret, NULL);
  vk.vkDestroyShaderModule(on->device, on->fill, NULL);
}

// A driver needs seconds for an interpreter, so there are four, made when they are first needed.
int32_t vulkan_pipeline_get(vulkan_device *on, const uint32_t uses[4], VkPipeline *out_pipeline) {
  uint32_t number = VULKAN_FILL;
  if (uses != NULL) {
    number = ((uses[1] & elementary) != 0 ? VULKAN_ELEMENTARY : 0) |
             ((uses[0] & ~plain) != 0 ? VULKAN_MORE : 0);
  }
  int32_t status = HAL_OK;
  pthread_mutex_lock(&on->lock);
  if (on->pipelines[number] == VK_NULL_HANDLE) {
    status = create_pipeline(on, number, &on->pipelines[number]);
  }
  *out_pipeline = on->pipelines[number];
  pthread_mutex_unlock(&on->lock);
  return status;
}
