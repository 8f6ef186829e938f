// A port of a runtime on the host: library, error numbers, devices that `start` offers.
#include "kit_runtime.h"
#include "kit_fixture.h"

typedef struct chip {
  int number;
} chip;

static double (*cosine)(double);
static const char *names[3];  // Of the devices that the runtime lists.
static int dropped;

static int32_t start(void) {
  for (int i = 0; i < 3 && names[i] != NULL; ++i) {
    chip made = {.number = 10 + i};
    if (!kit_option_picks("device", "TEST_KIT_DEVICE", names[i], (uint32_t)i)) {
      continue;
    }
    if (strcmp(names[i], "broken") == 0) {
      kit_fail(HAL_ERROR_UNSUPPORTED, "it has no memory");
      kit_device_refuse(names[i]);
    } else {
      EQUAL(kit_device_offer(names[i], &made, sizeof(made)), HAL_OK);
    }
  }
  return HAL_OK;
}

static int32_t describe(void *data, kit_device_facts *facts) {
  if (strcmp(facts->name, "silent") == 0) {
    return kit_fail(HAL_ERROR_UNSUPPORTED, "it says nothing");
  }
  facts->hcd_ref = "test/chip";
  facts->memory_bytes = TOTAL_BYTES;
  facts->alignment_bytes = 64;
  kit_facts_number(facts, "memory.{execution.buffers}.capacity_bytes", TOTAL_BYTES);
  kit_facts_number(facts, "units.core.count", (uint64_t)((chip *)data)->number);
  kit_facts_number(facts, "clocks.core.hz", 0);
  kit_facts_number(facts, "no.such.path", 7);
  kit_facts_number(facts, "memory.{no.such.path}.capacity_bytes", 7);
  kit_facts_dtype(facts, "f64", 0);
  kit_facts_dtype(facts, "f32", 1);
  return HAL_OK;
}

static void drop(void *data) {
  dropped += ((chip *)data)->number;
}

static const kit_port port = {
    PLAIN_TEXTS,
    .hcd_default =
        "clocks.core.hz\t5\ndtypes.f64.compute\tnative\nexecution.buffers\thbm\n"
        "kernels.vil.ops.UN.dtypes\t[\"f32\",\"f64\",\"i32\"]\n"
        "kernels.vil.ops.MOV.dtypes\t[\"f32\"]\n"
        "memory.hbm.capacity_bytes\t1\nunits.core.count\t1\n",
    .hooks = {.start = start, .device_describe = describe, .device_drop = drop}};

static void expect_error(int32_t status, int32_t wanted, const char *text) {
  EQUAL(status, wanted);
  CONTAINS(last_error().text, text);
}

static void a_library_is_opened_or_its_lack_explained(void) {
  static const kit_symbol symbols[] = {{"cos", &cosine}, {NULL, NULL}};
  static const kit_symbol more[] = {{"cos", &cosine}, {"no_such_function", &cosine}, {NULL, NULL}};
  kit_library library = {.what = "mathematics",
                         .option = "m",
                         .environment = "TEST_KIT_LIBRARY",
                         .files = {"no_such.so.1", "libm.so.6"},
                         .symbols = symbols,
                         .advice = "Install one.",
                         .missing = "it is too old"};
  EQUAL(kit_library_open(&library), HAL_OK);
  TRUE(cosine(0) == 1);
  library.symbols = more;
  expect_error(kit_library_open(&library), HAL_ERROR_VERSION,
               "the mathematics has no no_such_function: it is too old");
  setenv("TEST_KIT_LIBRARY", "/no/such/file.so", 1);
  expect_error(kit_library_open(&library), HAL_ERROR_NOT_FOUND, "no mathematics: /no/such/file.so");
  CONTAINS(last_error().text, "Install one.");
}

static const char *word_of(int32_t code) {
  return code == -5 ? "FIVE" : NULL;
}

static void error_numbers_have_a_status_and_words(void) {
  static const kit_codes_row rows[] = {{HAL_ERROR_DEVICE_LOST, "it is gone", {-5, -6}},
                                       {HAL_ERROR_OUT_OF_MEMORY, NULL, {-7}}};
  static const kit_codes codes = {"Test", word_of, rows, 2};
  EQUAL(kit_check(&codes, 0, "call"), HAL_OK);
  expect_error(kit_check(&codes, -5, "call"), HAL_ERROR_DEVICE_LOST,
               "call: Test error -5, FIVE, it is gone");
  expect_error(kit_check(&codes, -7, "call"), HAL_ERROR_OUT_OF_MEMORY, "call: Test error -7");
  expect_error(kit_check(&codes, -8, "call"), HAL_ERROR_EXECUTION_FAILED, "call: Test error -8");
}

static void a_number_that_is_none_is_not_taken(void) {
  setenv("TEST_KIT_NUMBER", "12", 1);
  EQUAL(kit_option_number("n", "TEST_KIT_NUMBER", 3), 12);
  setenv("TEST_KIT_NUMBER", "12x", 1);
  EQUAL(kit_option_number("n", "TEST_KIT_NUMBER", 3), 3);
  EQUAL(kit_option_number("n", NULL, 4), 4);
}

static int32_t init(void) {
  hal_host host = {.size = sizeof(host), .abi_major = HAL_ABI_MAJOR};
  return kit_port_init(&host);
}

static uint32_t count(void) {
  uint32_t found = 0;
  EQUAL(kit_port_device_count(&found), HAL_OK);
  return found;
}

static void without_a_device_the_reasons_are_told(void) {
  names[0] = "broken";
  expect_error(init(), HAL_ERROR_NOT_FOUND, "no test device: broken: it has no memory");
  names[0] = "silent";
  expect_error(init(), HAL_ERROR_NOT_FOUND, "silent: it says nothing");
  EQUAL(dropped, 10);
  dropped = 0;
  names[0] = NULL;
  expect_error(init(), HAL_ERROR_NOT_FOUND, "the runtime lists none");
}

static void devices_are_offered_described_and_dropped(void) {
  names[0] = "first", names[1] = "broken", names[2] = "last";
  EQUAL(init(), HAL_OK);
  EQUAL(count(), 2);
  EQUAL(((chip *)kit_device_data_at(1))->number, 12);
  TRUE(kit_device_data_at(2) == NULL);
  hal_device device = 0;
  EQUAL(kit_device_open(1, &device), HAL_OK);
  char text[400];
  uint64_t bytes = 0;
  EQUAL(kit_device_get_str(device, "device.name", sizeof(text), text, &bytes), HAL_OK);
  CONTAINS(text, "last");
  EQUAL(kit_device_get_str(device, "hcd.overlay", sizeof(text), text, &bytes), HAL_OK);
  TRUE(strcmp(text,
              "memory.hbm.capacity_bytes\t16777216\nunits.core.count\t12\n"
              "dtypes.f64.compute\tnone\nkernels.vil.ops.UN.dtypes\t[\"f32\",\"i32\"]\n") == 0);
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
  EQUAL(dropped, 22);
}

static void an_option_picks_by_name_or_number(void) {
  names[1] = "second";
  setenv("TEST_KIT_DEVICE", "st", 1);
  EQUAL(init(), HAL_OK);
  EQUAL(count(), 2);  // first, last
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
  setenv("TEST_KIT_DEVICE", "1", 1);
  EQUAL(init(), HAL_OK);
  EQUAL(((chip *)kit_device_data_at(0))->number, 11);
  EQUAL(kit_port_shutdown(SECOND), HAL_OK);
}

int main(void) {
  const hal_port_root *out = NULL;
  EQUAL(kit_entry(&port, &plain_root, HAL_ABI_MAJOR, 0, &out), HAL_OK);
  a_library_is_opened_or_its_lack_explained();
  error_numbers_have_a_status_and_words();
  a_number_that_is_none_is_not_taken();
  without_a_device_the_reasons_are_told();
  devices_are_offered_described_and_dropped();
  an_option_picks_by_name_or_number();
  return 0;
}
