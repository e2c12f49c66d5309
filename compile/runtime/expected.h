#ifndef COMPILE_RUNTIME_EXPECTED_H
#define COMPILE_RUNTIME_EXPECTED_H
/* Expected results of methods on random inputs, stored at compile time. Uses no other types,
 * because emitted files include only this header. */
#include <stdbool.h>
#include <stddef.h>

typedef struct model_bytes {
  const void *data;
  size_t size;
} model_bytes;

/* Results of the first run of one method, on the random inputs of verify.h, on the CPU backend in
 * strict precision. */
typedef struct model_test {
  const char *const *digests; /* (n_outputs): SHA-256 of their elements (base/drawn.h) */
  const model_bytes *outputs; /* (n_outputs); elements if rounding may differ; or NULL */
} model_test;

/* Sets *is_close if n elements of a dtype equal the kept ones up to rounding. Returns false if out
 * of memory. */
typedef bool (*model_close_fn)(int type, size_t n, const void *got, const void *kept,
                               bool *is_close);

typedef struct model_tests {
  const model_test *methods; /* (n_methods); NULL: no results are stored */
  const char *processor;     /* processor that computed the digests */
  model_close_fn is_close;   /* if outputs are stored */
} model_tests;

#endif
