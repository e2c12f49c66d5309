/* Products of matrices. */
#include "ops/matmul.h"

#include "backend/cpu/cut.h"
#include "backend/cpu/kernels/gemm/matmul.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/tail.h"
#include "cpu_ops.h"

/* Where fewer digits will do: rows that meet codes, so that results are the same on all processors;
 * floats where that is faster. */
static rounding choose_rounding(const cpu_recorder *r, const matmul_form *f, const matmul_args *p) {
  if (!cpu_is_fast(r) || !matmul_rounds(p)) return ROUNDS_NOTHING;
  if (p->encoding.kind) return ROUNDS_ROWS;
  return pairs_are_fast() && matmul_may_round(f) ? ROUNDS_TO_BF16 : ROUNDS_NOTHING;
}

/* b in panels alone, if it is constant. The strides tell a matrix from its transpose. */
static clave_status pack_b(cpu_recorder *r, const matmul_form *f, matmul_args *p) {
  if (!matmul_packs(p) || !cpu_may_pack(r, f->b)) return NULL;
  rounding how = choose_rounding(r, f, p);
  p->is_packed = true;
  p->rounds = how != ROUNDS_NOTHING;
  cpu_rounds(r, how);
  TRY(cpu_packed(
      r,
      &(cpu_packed_request){.kind = how == ROUNDS_TO_BF16 ? CPU_PACKED_PAIRS : CPU_PACKED_MATMUL,
                            .x = f->b,
                            .size = {f->n, f->k, f->b_n},
                            .k = &kernel_matmul_pack,
                            .args = p},
      &p->panels));
  p->b = NULL; /* nothing reads it */
  return NULL;
}

static gemm_cut cut_product(cpu_recorder *r, const matmul_args *p) {
  return matmul_is_cut(p) ? choose_cut(r, &(cut_sizes){.op = "matmul",
                                                       .batches = p->batches,
                                                       .m = p->m,
                                                       .n = p->n,
                                                       .k = p->k,
                                                       .type = p->type,
                                                       .b_type = p->b_type,
                                                       .b_is_packed = p->is_packed,
                                                       .encoding = p->encoding})
                          : (gemm_cut){0};
}

static matmul_args arguments(cpu_recorder *r, const matmul_form *f) {
  return (matmul_args){.a = cpu_operand(r, f->a).data,
                       .b = cpu_operand(r, f->b).data,
                       .bias = cpu_operand(r, f->bias).data,
                       .out = cpu_operand(r, f->out).data,
                       .type = f->type,
                       .a_type = f->a->t.type,
                       .out_type = f->out->t.type,
                       .b_type = f->b->t.type,
                       .encoding = f->b->t.encoding,
                       .m = f->m,
                       .n = f->n,
                       .k = f->k,
                       .batches = f->batches,
                       .a_m = f->a_m,
                       .a_k = f->a_k,
                       .b_k = f->b_k,
                       .b_n = f->b_n,
                       .bias_m = f->bias_m,
                       .bias_n = f->bias_n,
                       .a_batch = cpu_layout(&f->batch_a),
                       .b_batch = cpu_layout(&f->batch_b),
                       .bias_batch = cpu_layout(&f->batch_bias),
                       .alpha = f->alpha,
                       .beta = f->bias ? f->beta : 0,
                       .tail = conv_tail_none};
}

clave_status cpu_matmul(cpu_recorder *r, const node *n) {
  matmul_form f;
  describe_matmul(n, &f);
  matmul_args p = arguments(r, &f);
  TRY(pack_b(r, &f, &p));
  if (matmul_takes_tail(&p)) take_tail(r, n, SHORT_INPUTS, &p.tail, &p.steps);
  p.cut = cut_product(r, &p);
  return cpu_launch(r, matmul, &p);
}

/* Steps with no other input run on sums before these are rounded. */
bool matmul_supports_bf16(cpu_recorder *r, const node *n, uint32_t slot) {
  matmul_form f;
  describe_matmul(n, &f);
  matmul_args p = arguments(r, &f);
  if (p.type != DTYPE_F32 || choose_rounding(r, &f, &p) != ROUNDS_TO_BF16 || !cpu_may_pack(r, f.b))
    return false;
  p.is_packed = p.rounds = true;
  if (!matmul_may_narrow(&p)) return false;
  take_tail(r, n, SHORT_INPUTS, &p.tail, &p.steps);
  if (slot == f.out->slot) return cpu_has_own_epilogue(r, n) && p.steps.head.n_inputs <= 1;
  return slot == f.a->slot && (!f.bias || slot != f.bias->slot) && !tail_reads(n, slot);
}

/* Codes in panels alone, if they are constant. */
static clave_status pack_groups(cpu_recorder *r, const grouped_matmul_form *f,
                                grouped_matmul_args *p) {
  if (!grouped_matmul_packs(p) || !cpu_may_pack(r, f->b)) return NULL;
  p->is_packed = true;
  p->rounds = cpu_is_fast(r) && grouped_matmul_rounds(p);
  cpu_rounds(r, p->rounds ? ROUNDS_ROWS : ROUNDS_NOTHING);
  TRY(cpu_packed(r,
                 &(cpu_packed_request){.kind = CPU_PACKED_MATMUL,
                                       .x = f->b,
                                       .size = {f->n, f->k, f->b_n},
                                       .k = &kernel_grouped_matmul_pack,
                                       .args = p},
                 &p->panels));
  p->b = NULL; /* nothing reads it */
  return NULL;
}

clave_status cpu_grouped_matmul(cpu_recorder *r, const node *n) {
  grouped_matmul_form f;
  describe_grouped_matmul(n, &f);
  grouped_matmul_args p = {.a = cpu_operand(r, f.a),
                           .b = cpu_operand(r, f.b).data,
                           .ends = cpu_operand(r, f.ends),
                           .out = cpu_operand(r, f.out),
                           .b_type = f.b->t.type,
                           .encoding = f.b->t.encoding,
                           .groups = f.groups,
                           .n = f.n,
                           .k = f.k,
                           .b_group = f.b->t.strides[0],
                           .b_n = f.b_n,
                           .b_k = f.b_k};
  TRY(pack_groups(r, &f, &p));
  return cpu_launch(r, grouped_matmul, &p);
}
