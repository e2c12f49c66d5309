#ifndef BASE_SIZED_H
#define BASE_SIZED_H
/* Structs that pass between the caller and the library (options, info) begin with `size_t size`,
 * set by the caller to its sizeof, so that they can grow at their end: a caller built with an older
 * or a newer header gives and gets the fields that both know. */
#include <stddef.h>

#include "base/status.h"

/* A new field goes to the end, and not into what was padding there. */
typedef struct sized_type {
  const char *name;
  size_t size;  /* of the struct, here */
  size_t first; /* bytes up to the last field of its first version */
} sized_type;
#define SIZED(type, last) \
  (&(const sized_type){#type, sizeof(type), offsetof(type, last) + sizeof((type *)0)->last})

/* *own is zeroed, then gets what the caller's struct has; given NULL: nothing. INVALID: given is
 * smaller than the first version, as it is where the caller forgot to set its size. */
clave_status sized_read(const void *given, void *own, const sized_type *type) STATUS_CHECK;
/* Writes as much of *own as the caller's struct has, all but its size. INVALID as above, with
 * nothing written. */
clave_status sized_write(const void *own, void *given, const sized_type *type) STATUS_CHECK;

#endif
