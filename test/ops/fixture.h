#ifndef TEST_OPS_FIXTURE_H
#define TEST_OPS_FIXTURE_H
/* Makes a program of a few tensors and values, and checks the result of an op's rule. Each test
 * starts with fixture_reset(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"

enum { FIXTURE_SLOTS = 64 };

typedef struct fixture {
  ir_program program;
  ir_tensor declared[FIXTURE_SLOTS];
  ir_value value_types[FIXTURE_SLOTS];
  tensor tensors[FIXTURE_SLOTS];
  scalar_value values[FIXTURE_SLOTS];
} fixture;

static fixture fix;

static inline void fixture_reset(void) {
  memset(&fix, 0, sizeof fix);
  fix.program.tensors.items = fix.declared;
  fix.program.values.items = fix.value_types;
}

static inline rule_context fixture_context(void) {
  return (rule_context){&fix.program, fix.tensors, fix.values};
}

/* Returns a tensor slot with `rank` dimensions, which are passed as int. */
static inline uint32_t slot(dtype type, int rank, ...) {
  uint32_t tid = fix.program.tensors.count++;
  tensor *tensor = &fix.tensors[tid];
  va_list dims;
  va_start(dims, rank);
  tensor->type = type;
  tensor->rank = rank;
  for (int i = 0; i < rank; i++) tensor->dims[i] = va_arg(dims, int);
  va_end(dims);
  tensor_set_contiguous(tensor);
  return tid;
}

static inline uint32_t int_value(bool known, int64_t i) {
  uint32_t vid = fix.program.values.count++;
  fix.value_types[vid].type = IR_VALUE_TYPE_INT;
  fix.values[vid] = (scalar_value){known, IR_VALUE_TYPE_INT, i, 0};
  return vid;
}

static inline uint32_t other_value(ir_value_type type) {
  uint32_t vid = fix.program.values.count++;
  fix.value_types[vid].type = type;
  fix.values[vid] = (scalar_value){false, type, 0, 0};
  return vid;
}

static inline ir_int_or_vid lit(int64_t v) { return (ir_int_or_vid){v, IR_NONE, true}; }
static inline ir_int_or_vid val(uint32_t vid) { return (ir_int_or_vid){0, vid, true}; }
static inline ir_float_or_vid flit(double v) { return (ir_float_or_vid){v, IR_NONE, true}; }

#define I32S(...) \
  { (int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t) }
#define TIDS(...) \
  { (uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t) }
#define INTS(...) \
  { (ir_int_or_vid[]){__VA_ARGS__}, sizeof((ir_int_or_vid[]){__VA_ARGS__}) / sizeof(ir_int_or_vid) }

static inline void expect_good(ir_op op_type, void *op) {
  rule_context context = fixture_context();
  ir_instruction ins = {op_type, op, "node"};
  clave_status st = rule_instruction(&context, &ins);
  if (st) print_error("%s\n", status_message(st));
  assert_null(st);
}

/* Expects that the rule refuses the op with a message that contains `text`. */
static inline void expect_bad(ir_op op_type, void *op, const char *text) {
  rule_context context = fixture_context();
  ir_instruction ins = {op_type, op, "node"};
  clave_status st = rule_instruction(&context, &ins);
  assert_non_null(st);
  if (!strstr(status_message(st), text)) {
    print_error("message \"%s\", expected \"%s\"\n", status_message(st), text);
    fail();
  }
  status_free(st);
}

#endif
