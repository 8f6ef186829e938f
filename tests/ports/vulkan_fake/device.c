// What is wrong; instance, device and shaders.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

char fake_thing;

const char *wrong(const char *what) {
  const char *said = getenv("FAKE_VULKAN");
  size_t length = strlen(what);
  return said != NULL && strncmp(said, what, length) == 0 ? said + length : NULL;
}

bool is_wrong(const char *what) {
  const char *rest = wrong(what);
  return rest != NULL && *rest == '\0';
}

// Without a lock, which would order threads that the port must order itself.
VkResult answer(const char *call) {
  static _Atomic bool is_lost;
  const char *rest = wrong("lost:");
  if (rest != NULL && strcmp(rest, call) == 0) {
    is_lost = true;
  }
  rest = wrong("at:");
  size_t length = strlen(call);
  if (rest != NULL && strncmp(rest, call, length) == 0 && rest[length] == ':') {
    return (VkResult)atoi(rest + length + 1);
  }
  return is_lost ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

void check(bool holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "vulkan_fake: %s\n", what);
    abort();
  }
}

void *make(size_t bytes) {
  void *made = calloc(1, bytes);
  check(made != NULL, "no memory");
  return made;
}

// ---- Instance and device ----

VkResult vkCreateInstance(const VkInstanceCreateInfo *info, ALLOCATOR, VkInstance *out) {
  (void)info, NO_ALLOCATOR;
  *out = HANDLE(VkInstance);
  return is_wrong("drivers") ? VK_ERROR_INCOMPATIBLE_DRIVER
         : is_wrong("init")  ? VK_ERROR_INITIALIZATION_FAILED
                             : VK_SUCCESS;
}

void vkDestroyInstance(VkInstance instance, ALLOCATOR) {
  NO_ALLOCATOR;
  check(instance == HANDLE(VkInstance), "an instance that is none is destroyed");
}

VkResult vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *count, VkPhysicalDevice *out) {
  (void)instance;
  if (is_wrong("enumerate")) {
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  *count = is_wrong("devices") ? 0 : 1;
  out[0] = HANDLE(VkPhysicalDevice);
  return VK_SUCCESS;
}

void vkGetPhysicalDeviceProperties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out) {
  (void)device;
  VkPhysicalDeviceProperties *own = &out->properties;
  own->apiVersion = is_wrong("old") ? VK_API_VERSION_1_1 : VK_API_VERSION_1_2;
  own->deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
  snprintf(own->deviceName, sizeof(own->deviceName), "Fake Device");
  for (VkBaseOutStructure *more = out->pNext; more != NULL; more = more->pNext) {
    if (more->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
      ((VkPhysicalDeviceMaintenance3Properties *)more)->maxMemoryAllocationSize = 32 << 20;
    } else if (more->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
      ((VkPhysicalDeviceSubgroupProperties *)more)->subgroupSize = 8;
    }
  }
}

static VkBool32 has(const char *feature) {
  const char *lacks = wrong("lacks:");
  return lacks == NULL || strcmp(lacks, feature) != 0;
}

void vkGetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out) {
  (void)device;
  VkPhysicalDeviceVulkan12Features *newer = out->pNext;
  check(newer != NULL && newer->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        "the features of Vulkan 1.2 are not asked for");
  out->features.shaderInt64 = has("shaderInt64");
  out->features.shaderFloat64 = has("shaderFloat64");
  newer->bufferDeviceAddress = has("bufferDeviceAddress");
  newer->timelineSemaphore = has("timelineSemaphore");
  newer->storageBuffer8BitAccess = has("storageBuffer8BitAccess");
  newer->shaderInt8 = has("shaderInt8");
}

void vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice device,
                                         VkPhysicalDeviceMemoryProperties *out) {
  (void)device;
  *out = (VkPhysicalDeviceMemoryProperties){
      .memoryTypeCount = 2,
      .memoryTypes = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
                      {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                       0}},
      .memoryHeapCount = 1,
      .memoryHeaps = {{64 << 20, 0}}};
}

void vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t *count,
                                              VkQueueFamilyProperties *out) {
  (void)device;
  *count = 1;
  out[0] = (VkQueueFamilyProperties){
      .queueFlags = is_wrong("queue") ? VK_QUEUE_TRANSFER_BIT : VK_QUEUE_COMPUTE_BIT,
      .queueCount = 1};
}

VkResult vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info, ALLOCATOR,
                        VkDevice *out) {
  (void)physical, (void)info, NO_ALLOCATOR;
  ANSWER("vkCreateDevice");
  *out = HANDLE(VkDevice);
  return VK_SUCCESS;
}

void vkDestroyDevice(VkDevice device, ALLOCATOR) {
  NO_ALLOCATOR;
  check(device == HANDLE(VkDevice), "a device that is none is destroyed");
}

void vkGetDeviceQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out) {
  (void)device, (void)family, (void)index;
  *out = HANDLE(VkQueue);
}

// ---- Shaders ----

VkResult vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info, ALLOCATOR,
                              VkShaderModule *out) {
  (void)device, NO_ALLOCATOR;
  ANSWER("vkCreateShaderModule");
  check(info->codeSize >= 4 && info->pCode[0] == 0x07230203, "a shader that is no SPIR-V");
  *out = TO(VkShaderModule, info->codeSize);
  return VK_SUCCESS;
}

VkResult vkCreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                  const VkComputePipelineCreateInfo *info, ALLOCATOR,
                                  VkPipeline *out) {
  (void)device, (void)cache, (void)count, NO_ALLOCATOR;
  ANSWER("vkCreateComputePipelines");
  if (is_wrong("shader")) {
    return VK_ERROR_INVALID_SHADER_NV;
  }
  bool *fills = make(sizeof(*fills));
  *fills = (uintptr_t)info->stage.module < 8192;  // Bytes; the interpreter has a hundred thousand.
  *out = TO(VkPipeline, fills);
  return VK_SUCCESS;
}

void vkDestroyPipeline(VkDevice device, VkPipeline handle, ALLOCATOR) {
  (void)device, NO_ALLOCATOR;
  free(OF(bool, handle));
}

VkResult vkCreatePipelineLayout(VkDevice device, const VkPipelineLayoutCreateInfo *info, ALLOCATOR,
                                VkPipelineLayout *out) {
  (void)device, (void)info, NO_ALLOCATOR;
  ANSWER("vkCreatePipelineLayout");
  *out = HANDLE(VkPipelineLayout);
  return VK_SUCCESS;
}

#define NOTHING(name, kind)                            \
  void name(VkDevice device, kind handle, ALLOCATOR) { \
    (void)device, (void)handle, NO_ALLOCATOR;          \
  }
NOTHING(vkDestroyShaderModule, VkShaderModule)
NOTHING(vkDestroyPipelineLayout, VkPipelineLayout)
