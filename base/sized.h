#ifndef BASE_SIZED_H
#define BASE_SIZED_H
/* Structs that pass between the caller and the library (options, info) begin with `size_t size`,
 * which the caller sets to its sizeof. They can thus grow at their end: with an older or newer
 * header, both sides exchange the fields that both know. */
#include <stddef.h>

#include "base/status.h"

/* A new field must be added at the end, not in padding. */
typedef struct sized_type {
  const char *name;
  size_t size;  /* sizeof the struct in this build */
  size_t first; /* bytes up to the end of the last field in the struct's first version */
} sized_type;
#define SIZED(type, last) \
  (&(const sized_type){#type, sizeof(type), offsetof(type, last) + sizeof((type *)0)->last})

/* Zeroes *own and copies the fields that the caller's struct has; none if given is NULL. Fails with
 * INVALID if given is smaller than the first version, as when the caller forgot to set its size. */
clave_status sized_read(const void *given, void *own, const sized_type *type) STATUS_CHECK;
/* Copies *own to the caller's struct up to the smaller size, except the field `size`. Fails with
 * INVALID as sized_read does, and then writes nothing. */
clave_status sized_write(const void *own, void *given, const sized_type *type) STATUS_CHECK;

#endif
