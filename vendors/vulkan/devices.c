// The runtime: its library, an instance, and the devices that can run the interpreter.
#include <stdlib.h>

#include "vk.h"

vulkan_api vk;
static VkInstance instance;

#define SYMBOL(name) {#name, &vk.name},
static const kit_symbol symbols[] = {VULKAN_FUNCTIONS(SYMBOL){NULL, NULL}};
static const kit_library library = {
    .what = "Vulkan loader",
    .files = {"libvulkan.so.1"},
    .symbols = symbols,
    .advice = "Install it (Debian: apt-get install libvulkan1)",
    .missing = "Vulkan 1.2 is needed",
};

static const kit_codes_row rows[] = {
    {HAL_ERROR_OUT_OF_MEMORY,
     "the driver has no memory left",
     {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_TOO_MANY_OBJECTS,
      VK_ERROR_FRAGMENTATION, VK_ERROR_FRAGMENTED_POOL}},
    {HAL_ERROR_DEVICE_LOST, "the device is lost", {VK_ERROR_DEVICE_LOST}},
    {HAL_ERROR_NOT_FOUND, "the driver cannot start here", {VK_ERROR_INITIALIZATION_FAILED}},
    {HAL_ERROR_UNSUPPORTED,
     "the driver refuses the port's shader: a newer driver or another device (device=) may take it",
     {VK_ERROR_INVALID_SHADER_NV}},
    {HAL_ERROR_INTERNAL, "the device does not answer", {VK_TIMEOUT}},
    {HAL_ERROR_INTERNAL,
     "the driver does not take it",
     {VK_ERROR_UNKNOWN, VK_ERROR_FEATURE_NOT_PRESENT, VK_ERROR_MEMORY_MAP_FAILED}},
};
static const kit_codes codes = {
    .runtime = "Vulkan", .rows = rows, .count = sizeof(rows) / sizeof(*rows)};

int32_t vulkan_check(VkResult result, const char *call) {
  return kit_check(&codes, result, call);
}

vulkan_device *vulkan_device_of(const kit_device *device) {
  return *(vulkan_device **)kit_device_data(device);
}

// ---- One device ----

static const char *first_lack(VkPhysicalDevice physical, uint32_t version) {
  VkPhysicalDeviceVulkan12Features newer = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                   .pNext = &newer};
  if (version < VK_API_VERSION_1_2) return "Vulkan 1.2";
  vk.vkGetPhysicalDeviceFeatures2(physical, &has);
  if (!newer.bufferDeviceAddress) return "bufferDeviceAddress";
  if (!newer.timelineSemaphore) return "timelineSemaphore";
  if (!newer.storageBuffer8BitAccess) return "storageBuffer8BitAccess";
  if (!newer.shaderInt8) return "shaderInt8";
  if (!has.features.shaderInt64) return "shaderInt64";
  if (!has.features.shaderFloat64) return "shaderFloat64";
  return NULL;
}

// The first family with compute; false when there is none.
static bool find_family(vulkan_device *on) {
  VkQueueFamilyProperties families[16];
  uint32_t count = 16;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(on->physical, &count, families);
  for (on->family = 0; on->family < count; ++on->family) {
    if (families[on->family].queueFlags & VK_QUEUE_COMPUTE_BIT) {
      return true;
    }
  }
  return false;
}

// The first memory type with all flags; the count of types when there is none.
static uint32_t find_type(const VkPhysicalDeviceMemoryProperties *memory,
                          VkMemoryPropertyFlags flags) {
  uint32_t n = 0;
  while (n < memory->memoryTypeCount && (memory->memoryTypes[n].propertyFlags & flags) != flags) {
    ++n;
  }
  return n;
}

static void read_memory(vulkan_device *on, uint64_t allocation_most) {
  VkPhysicalDeviceMemoryProperties memory;
  vk.vkGetPhysicalDeviceMemoryProperties(on->physical, &memory);
  VkMemoryPropertyFlags host =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  on->device_type = find_type(&memory, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  on->host_type = find_type(&memory, host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  if (on->host_type == memory.memoryTypeCount) {
    on->host_type = find_type(&memory, host);  // Every device has one.
  }
  if (on->device_type == memory.memoryTypeCount) {
    on->device_type = on->host_type;
  }
  on->memory_bytes = memory.memoryHeaps[memory.memoryTypes[on->device_type].heapIndex].size;
  on->allocation_bytes = allocation_most < on->memory_bytes ? allocation_most : on->memory_bytes;
}

static int32_t create_device(vulkan_device *on) {
  float priority = 1;
  VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                   .queueFamilyIndex = on->family,
                                   .queueCount = 1,
                                   .pQueuePriorities = &priority};
  VkPhysicalDeviceVulkan12Features newer = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
      .bufferDeviceAddress = VK_TRUE,
      .timelineSemaphore = VK_TRUE,
      .storageBuffer8BitAccess = VK_TRUE,
      .shaderInt8 = VK_TRUE};
  VkPhysicalDeviceFeatures older = {.shaderInt64 = VK_TRUE, .shaderFloat64 = VK_TRUE};
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                             .pNext = &newer,
                             .queueCreateInfoCount = 1,
                             .pQueueCreateInfos = &queue,
                             .pEnabledFeatures = &older};
  VULKAN_TRY(vkCreateDevice, on->physical, &info, NULL, &on->device);
  vk.vkGetDeviceQueue(on->device, on->family, 0, &on->queue);
  return vulkan_pipelines_create(on);
}

static int32_t open_device(vulkan_device *on, const VkPhysicalDeviceProperties *facts,
                           uint32_t lanes, uint64_t allocation_most) {
  const char *lack = first_lack(on->physical, facts->apiVersion);
  if (lack == NULL && !find_family(on)) {
    lack = "a queue for compute";
  }
  if (lack != NULL) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "it lacks %s", lack);
  }
  // Lanes of a processor are what its instructions do at once; those of a GPU hide its latency.
  bool is_cpu = facts->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  on->shape = is_cpu ? (vil_flat_shape){lanes, 16} : (vil_flat_shape){128, 256};
  read_memory(on, allocation_most);
  return create_device(on);
}

void vulkan_drop(void *data) {
  vulkan_device *on = *(vulkan_device **)data;
  if (on->device != NULL) {
    vk.vkDeviceWaitIdle(on->device);
    vulkan_pipelines_free(on);
    vk.vkDestroyDevice(on->device, NULL);
  }
  pthread_mutex_destroy(&on->lock);
  free(on);
}

int32_t vulkan_describe(void *data, kit_device_facts *facts) {
  const vulkan_device *on = *(vulkan_device **)data;
  facts->hcd_ref = "hal/vulkan";
  facts->memory_bytes = on->memory_bytes;
  facts->alignment_bytes = 64;
  kit_facts_number(facts, "execution.limits.allocation_bytes_max", on->allocation_bytes);
  kit_facts_number(facts, "memory.{execution.buffers}.capacity_bytes", on->memory_bytes);
  return HAL_OK;
}

// ---- Start and stop ----

static void look_at(VkPhysicalDevice physical, uint32_t number) {
  VkPhysicalDeviceSubgroupProperties subgroup = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties sizes = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &subgroup};
  VkPhysicalDeviceProperties2 facts = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &sizes};
  vk.vkGetPhysicalDeviceProperties2(physical, &facts);
  const char *name = facts.properties.deviceName;
  int32_t status = HAL_ERROR_NOT_FOUND;
  vulkan_device *on = NULL;
  if (!kit_option_picks("device", "HAL_VULKAN_DEVICE", name, number)) {
    kit_fail(status, "the option device= names another");
  } else if ((on = calloc(1, sizeof(*on))) == NULL) {
    kit_fail(status, "no host memory for the device");
  } else {
    on->physical = physical;
    pthread_mutex_init(&on->lock, NULL);
    status =
        open_device(on, &facts.properties, subgroup.subgroupSize, sizes.maxMemoryAllocationSize);
    status = status == HAL_OK ? kit_device_offer(name, &on, sizeof(on)) : status;
  }
  if (status != HAL_OK) {
    kit_device_refuse(name);
    if (on != NULL) vulkan_drop(&on);
  }
}

int32_t vulkan_start(void) {
  int32_t status = kit_library_open(&library);
  if (status != HAL_OK) {
    return status;
  }
  VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "hal",
                                   .apiVersion = VK_API_VERSION_1_2};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pApplicationInfo = &application};
  VkResult result = vk.vkCreateInstance(&info, NULL, &instance);
  if (result != VK_SUCCESS) {
    return kit_fail(
        HAL_ERROR_NOT_FOUND,
        "no Vulkan driver starts here: vkCreateInstance answers %d. Install one (Debian: "
        "mesa-vulkan-drivers), or see what VK_ICD_FILENAMES names",
        result);
  }
  VkPhysicalDevice found[32];
  uint32_t count = 32;
  result = vk.vkEnumeratePhysicalDevices(instance, &count, found);
  if (result != VK_INCOMPLETE && vulkan_check(result, "vkEnumeratePhysicalDevices") != HAL_OK) {
    kit_device_refuse("drivers");
    count = 0;
  }
  for (uint32_t i = 0; i < count; ++i) {
    look_at(found[i], i);
  }
  return HAL_OK;
}

void vulkan_stop(void) {
  vk.vkDestroyInstance(instance, NULL);  // The library stays loaded: drivers start threads.
}
