/* Attention: brings all operands to one rank and the mask to the scores' shape. */
#include "backend/cpu/kernels/attention.h"

#include <math.h>

#include "cpu_ops.h"

/* t with leading dimensions of 1 up to `rank`. */
static ktensor raise_rank(ktensor t, int rank) {
  int grow = rank - t.rank;
  for (int d = rank - 1; d >= 0; d--) {
    t.dims[d] = d >= grow ? t.dims[d - grow] : 1;
    t.strides[d] = d >= grow ? t.strides[d - grow] : 0;
  }
  t.rank = rank;
  return t;
}

clave_status cpu_attention(cpu_stream *s, const node *n) {
  const ir_attention *op = n->instruction->op;
  ktensor q = cpu_tensor(n, op->q), k = cpu_tensor(n, op->k), v = cpu_tensor(n, op->v),
          out = cpu_tensor(n, op->out), mask;
  int rank = q.rank > 3 ? q.rank : 3;
  q = raise_rank(q, rank);
  k = raise_rank(k, rank);
  v = raise_rank(v, rank);
  attention p = {.q = &q, .k = &k, .v = &v, .out = &out, .causal = op->causal};
  p.masked = op->masked.present ? op->masked.value : -INFINITY;
  p.empty = op->masked.present ? NAN : 0;
  p.scale = op->scale.present ? op->scale.value : 1 / sqrt((double)q.dims[rank - 1]);
  if (op->mask != IR_NONE) {
    const bound_tensor *b = &n->tensors[op->mask];
    tensor scores = {.rank = rank};
    for (int d = 0; d < rank; d++) scores.dims[d] = q.dims[d];
    scores.dims[rank - 1] = k.dims[rank - 2];
    tensor t = cpu_broadcast(b, &scores);
    mask = cpu_view(b, &t);
    p.mask = &mask;
  }
  return cpu_done(kernel_attention(&s->kernel, &p));
}
