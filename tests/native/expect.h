// What the C tests need: a check that prints both values and ends the program.
#ifndef HAL_TESTS_EXPECT_H_
#define HAL_TESTS_EXPECT_H_

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void expect_fail(const char *file, int line, const char *text) {
  fprintf(stderr, "%s:%d: %s\n", file, line, text);
  exit(1);
}

static inline void expect_equal(const char *file, int line, const char *text, int64_t actual,
                                int64_t expected) {
  if (actual == expected) return;
  fprintf(stderr, "%s:%d: %s is %" PRId64 ", expected %" PRId64 "\n", file, line, text, actual,
          expected);
  exit(1);
}

static inline void expect_text(const char *file, int line, const char *actual,
                               const char *expected) {
  if (strstr(actual, expected) != NULL) return;
  fprintf(stderr, "%s:%d: '%s' does not contain '%s'\n", file, line, actual, expected);
  exit(1);
}

// `actual == expected`, for integers.
#define EQUAL(actual, expected) \
  expect_equal(__FILE__, __LINE__, #actual, (int64_t)(actual), (int64_t)(expected))
// A condition that is true.
#define TRUE(condition) \
  ((condition) ? (void)0 : expect_fail(__FILE__, __LINE__, #condition " is false"))
// A text that contains another.
#define CONTAINS(actual, expected) expect_text(__FILE__, __LINE__, (actual), (expected))

#endif  // HAL_TESTS_EXPECT_H_
