/* MatmulInteger. */
#include "backend/cpu/kernels/matmul_integer.h"

#include "backend/cpu/elementwise.h"
#include "backend/cpu/requantise.h"
#include "cpu_ops.h"
#include "ops/epilogue.h"
#include "ops/matmul.h"

/* Steps in place, where sums and results are of one size; else in scratch memory. */
static clave_status record_steps(cpu_recorder *r, const elementwise_form *e,
                                 const matmul_integer_args *p) {
  matmul_integer_steps_args a = {.product = *p};
  if (dtype_size(e->out->t.type) == sizeof(int32_t)) return cpu_launch(r, matmul_integer, p);
  cpu_takes_epilogue(r);
  a.product.out = NULL;
  a.steps = elementwise_arguments(r, e);
  a.steps.inputs[0].data = NULL;
  return cpu_launch(r, matmul_integer_steps, &a);
}

clave_status cpu_matmul_integer(cpu_recorder *r, const node *n) {
  integer_matmul_form f;
  elementwise_form e;
  describe_matmul_integer(n, &f);
  matmul_integer_args p = {.a = cpu_operand(r, f.a).data,
                           .b = cpu_operand(r, f.b).data,
                           .bias = cpu_operand(r, f.bias).data,
                           .out = cpu_operand(r, f.out).data,
                           .type = f.a->t.type,
                           .m = f.m,
                           .n = f.n,
                           .k = f.k};
  if (!describe_epilogue(n, &e)) return cpu_launch(r, matmul_integer, &p);
  if (!take_rows(r, &e, &p.formula, &p.steps)) return record_steps(r, &e, &p);
  p.makes = p.formula.type == DTYPE_F32 ? INTEGER_FLOATS : INTEGER_CODES;
  cpu_takes_epilogue(r);
  return cpu_launch(r, matmul_integer, &p);
}
