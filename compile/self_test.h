#ifndef COMPILE_SELF_TEST_H
#define COMPILE_SELF_TEST_H
/* What a compiled program computes of drawn inputs, as the interpreter does. */
#include "base/drawn.h"
#include "compile/plan.h"

typedef struct digest {
  char hex[SHA256_TEXT];
} digest;

/* Runs the plan's method once on the CPU backend. out: (n_outputs), owned by the caller. */
clave_status self_test_run(const compile_plan *k, digest **out) STATUS_CHECK;
/* Bytes of all inputs. */
size_t self_test_bytes(const compile_plan *k);

#endif
