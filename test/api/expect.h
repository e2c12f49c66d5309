#ifndef TEST_API_EXPECT_H
#define TEST_API_EXPECT_H
/* Assertions about the statuses that the public functions return. */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "clave.h"

static inline void good(clave_status st) {
  if (st) print_error("%s\n", clave_status_message(st));
  assert_null(st);
}

/* Expects CLAVE_INVALID and a message that contains these words. */
static inline void expect_invalid(clave_status st, const char *part) {
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  if (!strstr(clave_status_message(st), part))
    fail_msg("%s: no '%s'", clave_status_message(st), part);
  clave_status_free(st);
}

/* Expects the error of a `type` whose size is not set or below that of the first version. */
static inline void expect_too_small(clave_status st, const char *type, size_t got) {
  char expected[160], ending[48];
  (void)snprintf(expected, sizeof expected, "%s: size: expected sizeof(%s), ", type, type);
  (void)snprintf(ending, sizeof ending, " or more, got %zu", got);
  if (!strstr(clave_status_message(st), ending))
    fail_msg("%s: no '%s'", clave_status_message(st), ending);
  expect_invalid(st, expected);
}

#endif
