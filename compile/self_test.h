#ifndef COMPILE_SELF_TEST_H
#define COMPILE_SELF_TEST_H
/* Computes the expected results of a compiled program on random inputs (compile/runtime/verify.h)
 * by the interpreter on the CPU backend. */
#include "base/drawn.h"
#include "compile/plan.h"

typedef struct test_output {
  char digest[SHA256_TEXT];
  size_t offset, bytes; /* position in the kept elements */
} test_output;

/* The CPU backend on which carried programs are tested. */
typedef struct test_bench {
  backend *cpu;           /* owned */
  executable *executable; /* owned */
  constant_store *store;  /* owned */
} test_bench;
clave_status test_bench_create(const program *program, test_bench *out) STATUS_CHECK;
void test_bench_destroy(test_bench *bench); /* accepts a partly made bench */

/* Runs method `number` once in a new session. out: (n_outputs). elements: receives the outputs'
 * elements, aligned, one after the other; or NULL. */
clave_status self_test_run(const program *program, const compile_options *options,
                           executable *executable, constant_store *store, uint32_t number,
                           test_output *out, text *elements) STATUS_CHECK;
/* Returns the bytes of all inputs of a plan. */
size_t self_test_bytes(const compile_plan *plan);
/* Write definitions for model_tests: digests_NUMBER of a method's n outputs, and the processor. */
void write_digests(const test_output *kept, uint32_t n, uint32_t number, text *to);
void write_processor(const backend *cpu, text *to);

#endif
