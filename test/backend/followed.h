#ifndef TEST_BACKEND_FOLLOWED_H
#define TEST_BACKEND_FOLLOWED_H
/* Compares elementwise steps that kernels apply to the results that they just stored with the same
 * steps over the whole result. */
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/kernel_pool.h"

enum { FOLLOWED_ALONE = 2, FOLLOWED_LISTS = 4 }; /* the first lists have no other inputs */

#define STEP(k, n, ...)                                                                    \
  (kstep) {                                                                                \
    .kind = (k), .arity = (n), .operand_type = DTYPE_F32, .type = DTYPE_F32, .operands = { \
      __VA_ARGS__                                                                          \
    }                                                                                      \
  }

/* Returns list i of steps over n results in rows. others: n floats. */
static inline short_elementwise_args followed_list(int i, int64_t n, int64_t row, float *others) {
  const kstep_operand operand = {KSTEP_INPUT, 0}, kstep_operand = {KSTEP_INPUT, 1};
  short_elementwise_args args = {
      .head = {.n_inputs = i < FOLLOWED_ALONE ? 1 : 2, .n_steps = 1, .n = n}};
  args.inputs[0] = (ktensor){.type = DTYPE_F32, .rank = 1, .dims = {n}, .strides = {1}};
  args.inputs[1] = args.inputs[0];
  args.inputs[1].data = others;
  args.steps[0] = STEP(FLOAT_STEP_SILU, 1, operand);
  if (i == 1) { /* x max(x + 1.5, 0.25) */
    args.head.n_steps = 3, args.head.n_constants = 2;
    args.steps[0] = STEP(FLOAT_STEP_ADD, 2, operand, {KSTEP_CONSTANT, 0});
    args.steps[0].constants[1].f = 1.5;
    args.steps[1] = STEP(FLOAT_STEP_MAXIMUM, 2, {KSTEP_STEP, 0}, {KSTEP_CONSTANT, 1});
    args.steps[1].constants[1].f = 0.25;
    args.steps[2] = STEP(FLOAT_STEP_MUL, 2, operand, {KSTEP_STEP, 1});
  }
  if (i == 2) { /* silu(x) + y */
    args.head.n_steps = 2;
    args.steps[1] = STEP(FLOAT_STEP_ADD, 2, {KSTEP_STEP, 0}, kstep_operand);
  }
  if (i == 3) { /* x y, one for each row */
    args.inputs[1].rank = 2, args.inputs[1].dims[0] = n / row, args.inputs[1].dims[1] = row;
    args.inputs[1].strides[1] = 0;
    args.steps[0] = STEP(FLOAT_STEP_MUL, 2, operand, kstep_operand);
  }
  return args;
}

/* Applies the list to all of `values`, in place. */
static inline void follow(short_elementwise_args args, float *values) {
  kernel_fault fault = {0};
  test_pool pool = {.grants = MAX_GRANTS};
  kernel_context ctx = make_context(&pool, &fault);
  args.head.out = args.inputs[0].data = values;
  assert_true(kernel_short_elementwise.run(&ctx, &args));
  free_pool(&pool);
}

#endif
