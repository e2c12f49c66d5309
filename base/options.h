#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H
/* Options structs of the public API begin with their size, so that they can grow. */
#include <stddef.h>

/* A field of the caller's struct, if that has one: its version may be older, or it is NULL. */
#define OPTION(o, field, otherwise)                                                        \
  ((o) && (o)->size >= offsetof(__typeof__(*(o)), field) + sizeof((o)->field) ? (o)->field \
                                                                              : (otherwise))

#endif
