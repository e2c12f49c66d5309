#ifndef TEST_API_EXPECT_H
#define TEST_API_EXPECT_H
/* What the public functions' statuses are to be. */
#include <cmocka.h>
#include <string.h>

#include "clave.h"

static inline void good(clave_status st) {
  if (st) print_error("%s\n", clave_status_message(st));
  assert_null(st);
}

/* CLAVE_INVALID, with these words. */
static inline void expect_invalid(clave_status st, const char *part) {
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  if (!strstr(clave_status_message(st), part))
    fail_msg("%s: no '%s'", clave_status_message(st), part);
  clave_status_free(st);
}

#endif
