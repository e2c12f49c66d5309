#ifndef TEST_FUZZ_TARGET_H
#define TEST_FUZZ_TARGET_H
/* The functions that each fuzz target defines; main.c or libFuzzer calls them. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(int good) {
  if (!good) abort();
}

/* Returns true if there is no error. Else checks that it has one line and frees it. */
static inline int is_good(clave_status st) {
  const char *message = clave_status_message(st);
  if (st) require(message[0] && !strchr(message, '\n'));
  if (st && getenv("FUZZ_MESSAGES")) (void)puts(message); /* for ci/messages */
  clave_status_free(st);
  return !st;
}

#endif
