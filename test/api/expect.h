#ifndef TEST_API_EXPECT_H
#define TEST_API_EXPECT_H
/* What a call over the public API gives: no error, or one that says why. */
#include <cmocka.h>
#include <string.h>

#include "clave.h"

static inline void good(clave_status st) {
  if (st) print_error("%s\n", clave_status_message(st));
  assert_null(st);
}

/* The caller is wrong: `part` stands in the message. */
static inline void expect_error(clave_status st, const char *part) {
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  if (!strstr(clave_status_message(st), part))
    fail_msg("%s: no '%s'", clave_status_message(st), part);
  clave_status_free(st);
}

#endif
