#ifndef COMPILE_SELF_TEST_H
#define COMPILE_SELF_TEST_H
/* What a compiled program computes of drawn inputs (compile/runtime/verify.h), as the interpreter
 * does on the CPU backend. */
#include "base/drawn.h"
#include "compile/plan.h"

typedef struct test_output {
  char digest[SHA256_TEXT];
  size_t offset, bytes; /* in the elements that are kept */
} test_output;

/* Where programs run that are carried: the CPU backend as it is. */
typedef struct test_bench {
  backend *cpu;           /* owned */
  executable *executable; /* owned */
  constant_store *store;  /* owned */
} test_bench;
clave_status test_bench_create(const program *program, test_bench *out) STATUS_CHECK;
void test_bench_destroy(test_bench *bench); /* takes half-built ones */

/* Runs method `number` once, in a session of its own. out: (n_outputs). elements: gets those of the
 * outputs, one behind the other, aligned; or NULL. */
clave_status self_test_run(const program *program, const compile_options *options,
                           executable *executable, constant_store *store, uint32_t number,
                           test_output *out, text *elements) STATUS_CHECK;
/* Bytes of all inputs of a plan. */
size_t self_test_bytes(const compile_plan *plan);
/* Definitions for model_tests: digests_NUMBER, of a method's n outputs; processor. */
void write_digests(const test_output *kept, uint32_t n, uint32_t number, text *to);
void write_processor(const backend *cpu, text *to);

#endif
