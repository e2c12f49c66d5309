#ifndef COMPILE_RUNTIME_EXPECTED_H
#define COMPILE_RUNTIME_EXPECTED_H
/* What methods compute of drawn inputs, as it was kept when a program was compiled. Free of other
 * types: emitted files include it alone. */
#include <stdbool.h>
#include <stddef.h>

typedef struct model_bytes {
  const void *data;
  size_t size;
} model_bytes;

/* Of one method in its first run, of inputs as verify.h draws them, on the CPU backend in strict
 * precision. */
typedef struct model_test {
  const char *const *digests; /* (n_outputs): SHA-256 of their elements (base/drawn.h) */
  const model_bytes *outputs; /* (n_outputs): the elements themselves, of a program that runs where
                                 results are rounded otherwise; NULL: of others */
} model_test;

/* *is_close: whether n elements of a dtype are those that were kept, but for rounding. False: no
 * memory. */
typedef bool (*model_close_fn)(int type, size_t n, const void *got, const void *kept,
                               bool *is_close);

typedef struct model_tests {
  const model_test *methods; /* (n_methods); NULL: nothing was kept */
  const char *processor;     /* on which they ran */
  model_close_fn is_close;   /* where outputs are kept */
} model_tests;

#endif
