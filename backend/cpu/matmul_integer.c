/* MatmulInteger. */
#include "backend/cpu/kernels/gemm/matmul_integer.h"

#include "backend/cpu/elementwise.h"
#include "backend/cpu/kernels/gemm/matmul_integer_tiles.h"
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

/* The step, if there is one, alone, on its own result. False: it is too long. */
static bool take_step(cpu_recorder *r, const elementwise_form *f, const elementwise_step *step,
                      short_elementwise_args *out) {
  elementwise_form one = {.n_inputs = 1, .n_steps = 1, .inputs = {f->out}, .out = f->out};
  if (!step) return true;
  one.shapes[0] = one.shapes[1] = f->out->t;
  one.steps[0] = *step;
  one.steps[0].operands[0] =
      (elementwise_operand){.source = IR_OPERAND_SOURCE_INPUT, .compute = DTYPE_F32};
  if (!short_steps(r, &one, out)) return false;
  out->head.out = out->inputs[0].data = NULL;
  return true;
}

/* b as tiles alone, if it is constant. */
static clave_status pack_b(cpu_recorder *r, const integer_matmul_form *f, matmul_integer_args *p) {
  if (!matmul_integer_likes_tiles(p) || p->n == 0 || !cpu_may_pack(r, f->b)) return NULL;
  TRY(cpu_packed(r,
                 &(cpu_packed_request){.kind = CPU_PACKED_MATMUL_TILES,
                                       .x = f->b,
                                       .size = {f->n, f->k, 0},
                                       .k = &kernel_matmul_integer_pack,
                                       .args = p},
                 &p->tiles));
  p->in_tiles = true;
  p->b = NULL; /* nothing reads it */
  return NULL;
}

clave_status cpu_matmul_integer(cpu_recorder *r, const node *n) {
  integer_matmul_form f;
  elementwise_form e;
  const elementwise_step *step;
  describe_matmul_integer(n, &f);
  matmul_integer_args p = {.a = cpu_operand(r, f.a).data,
                           .b = cpu_operand(r, f.b).data,
                           .bias = cpu_operand(r, f.bias).data,
                           .out = cpu_operand(r, f.out).data,
                           .type = f.a->t.type,
                           .m = f.m,
                           .n = f.n,
                           .k = f.k};
  TRY(pack_b(r, &f, &p));
  if (!describe_epilogue(n, &e)) return cpu_launch(r, matmul_integer, &p);
  if (!take_rows(r, &e, &p.formula, &step) || !take_step(r, &e, step, &p.steps))
    return record_steps(r, &e, &p);
  p.makes = p.formula.type == DTYPE_F32 ? INTEGER_FLOATS : INTEGER_CODES;
  cpu_takes_epilogue(r);
  return cpu_launch(r, matmul_integer, &p);
}
