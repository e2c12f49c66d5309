/* Matmul: brings operands into the form of gemm.h (batches collapsed, broadcast rows folded into m)
 * and chooses the implementation that runs it. */
#include <string.h>

#include "backend/opencl/gemm.h"
#include "opencl_ops.h"

/* The leading dimensions of t, broadcast to those of out. */
static tensor batch_of(const tensor *t, const tensor *out) {
  tensor lead = *t, r;
  lead.rank = t->rank > 2 ? t->rank - 2 : 0;
  tensor_broadcast(&lead, out->rank - 2, out->dims, &r);
  return r;
}

static bool strides_zero(const tensor *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->strides[i] != 0 && t->dims[i] != 1) return false;
  return true;
}

/* A product with one b for all batches is one with more rows, where a and bias step evenly. */
static void fold_batches(gemm *g) {
  if (g->batches == 1 || g->batch_a.rank != 1 || !strides_zero(&g->batch_b)) return;
  bool even = g->m == 1 || g->batch_a.strides[0] == g->m * g->a_m;
  bool even_bias = g->m == 1 || g->batch_bias.strides[0] == g->m * g->bias_m;
  if (!even || !even_bias) return;
  if (g->m == 1) {
    g->a_m = g->batch_a.strides[0];
    g->bias_m = g->batch_bias.strides[0];
  }
  g->m *= g->batches;
  g->batches = 1;
  g->batch_a.rank = g->batch_b.rank = g->batch_bias.rank = 0;
}

/* A column for b: the same product with a and b in each other's place has one row, and out lies the
 * same. */
static void transpose_operands(gemm *g) {
  if (g->n != 1 || g->m == 1) return;
  gemm t = *g;
  g->a = t.b;
  g->b = t.a;
  g->batch_a = t.batch_b;
  g->batch_b = t.batch_a;
  g->m = 1;
  g->n = t.m;
  g->a_m = t.b_n;
  g->a_k = t.b_k;
  g->b_k = t.a_k;
  g->b_n = t.a_m;
  g->bias_m = t.bias_n;
  g->bias_n = t.bias_m;
}

static void set_bias(gemm *g, const tensor *out) {
  if (!g->bias) {
    g->batch_bias = g->batch_b;
    memset(g->batch_bias.strides, 0, sizeof g->batch_bias.strides);
    return;
  }
  tensor t;
  tensor_broadcast(&g->bias->t, out->rank, out->dims, &t);
  g->bias_m = t.strides[t.rank - 2];
  g->bias_n = t.strides[t.rank - 1];
  t.rank -= 2;
  g->batch_bias = t;
}

void gemm_describe(gemm *g, cl_recorder *s, const node *n) {
  const ir_matmul *op = n->instruction->op;
  *g = (gemm){.s = s,
              .node = n,
              .a = &n->tensors[op->a],
              .b = &n->tensors[op->b],
              .out = &n->tensors[op->out]};
  if (op->bias != IR_NONE && op->beta != 0) g->bias = &n->tensors[op->bias];
  const tensor *a = &g->a->t, *b = &g->b->t, *out = &g->out->t;
  g->alpha = op->alpha;
  g->beta = op->beta;
  g->m = a->dims[a->rank - 2];
  g->k = a->dims[a->rank - 1];
  g->n = b->dims[b->rank - 1];
  g->a_m = a->strides[a->rank - 2];
  g->a_k = a->strides[a->rank - 1];
  g->b_k = b->strides[b->rank - 2];
  g->b_n = b->strides[b->rank - 1];
  tensor batch[3] = {batch_of(a, out), batch_of(b, out)};
  g->batch_b = batch[1];
  set_bias(g, out);
  batch[2] = g->batch_bias;
  tensors_collapse(batch, 3);
  g->batch_a = batch[0];
  g->batch_b = batch[1];
  g->batch_bias = batch[2];
  g->batches = tensor_numel(&batch[0]);
  fold_batches(g);
  transpose_operands(g);
}

/* ---------------------------------------------------------------- choice */

static bool is_small_float(dtype t) { return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16; }

/* Rows of a up to which reading b once in place beats packing it. */
enum { FEW_ROWS = 8 };
/* From this size on CLBlast is faster than our tiles on GPUs, less than its set-up costs below
 * (multiply-adds). On CPUs it is never: 15-22 GFLOP/s on 2 Zen 4 cores, and 6 s of compiling, where
 * our packed kernel makes 200. */
static const double clblast_from = 1 << 21;
enum { CLBLAST_SIDE = 64, CLBLAST_GROUP = 256 }; /* of its largest work-groups */

static bool clblast_is_better(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  if (!t->is_gpu || t->max_local < CLBLAST_GROUP) return false;
  if (g->m < CLBLAST_SIDE || g->n < CLBLAST_SIDE) return false;
  return (double)g->m * (double)g->n * (double)g->k >= clblast_from && gemm_clblast_usable(g);
}

/* The one choice, from dtype, sizes, strides and the kind of device. */
static gemm_kind choose(const gemm *g) {
  if (!is_small_float(g->out->t.type) || g->k == 0) return GEMM_TILE;
  if (g->m <= FEW_ROWS && g->b_k == 1 && (g->a_k == 1 || g->k == 1)) return GEMM_ROWS;
  if (g->m <= FEW_ROWS && (g->b_n == 1 || g->n == 1)) return GEMM_COLUMNS;
  if (clblast_is_better(g)) return GEMM_CLBLAST;
  return gemm_packed_usable(g) ? GEMM_PACKED : GEMM_TILE;
}

clave_status gemm_record(const gemm *g) {
  static clave_status (*const implementations[])(const gemm *) = {[GEMM_TILE] = gemm_tile,
                                                                  [GEMM_PACKED] = gemm_packed,
                                                                  [GEMM_ROWS] = gemm_rows,
                                                                  [GEMM_COLUMNS] = gemm_columns,
                                                                  [GEMM_CLBLAST] = gemm_clblast};
  return implementations[choose(g)](g);
}

clave_status opencl_matmul(cl_recorder *s, const node *n) {
  gemm g;
  gemm_describe(&g, s, n);
  return gemm_record(&g);
}
