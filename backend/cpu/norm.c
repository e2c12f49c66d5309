/* LayerNorm, RmsNorm, GroupNorm, BatchNorm. */
#include "backend/cpu/kernels/norm.h"

#include "backend/cpu/kernels/walk.h"
#include "cpu_ops.h"

/* An optional operand; NULL when absent. */
static const ktensor *optional_tensor(const node *n, uint32_t tid, ktensor *storage) {
  if (tid == IR_NONE) return NULL;
  *storage = cpu_tensor(n, tid);
  return storage;
}

clave_status cpu_layer_norm(cpu_stream *s, const node *n) {
  const ir_layer_norm *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out), weight, bias;
  int split = x.rank - op->n_axes;
  kernel_layer_norm(&s->kernel, &(row_norm){.x = &x,
                                            .out = &out,
                                            .weight = optional_tensor(n, op->weight, &weight),
                                            .bias = optional_tensor(n, op->bias, &bias),
                                            .n_rows = product_of(x.dims, split),
                                            .row = product_of(x.dims + split, op->n_axes),
                                            .eps = op->eps});
  return NULL;
}

clave_status cpu_rms_norm(cpu_stream *s, const node *n) {
  const ir_rms_norm *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out), weight;
  int split = x.rank - op->n_axes;
  kernel_rms_norm(&s->kernel, &(row_norm){.x = &x,
                                          .out = &out,
                                          .weight = optional_tensor(n, op->weight, &weight),
                                          .n_rows = product_of(x.dims, split),
                                          .row = product_of(x.dims + split, op->n_axes),
                                          .eps = op->eps});
  return NULL;
}

clave_status cpu_group_norm(cpu_stream *s, const node *n) {
  const ir_group_norm *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out), weight, bias;
  kernel_group_norm(&s->kernel, &(channel_norm){.x = &x,
                                                .out = &out,
                                                .weight = optional_tensor(n, op->weight, &weight),
                                                .bias = optional_tensor(n, op->bias, &bias),
                                                .batch = x.dims[0],
                                                .channels = x.dims[1],
                                                .plane = product_of(x.dims + 2, x.rank - 2),
                                                .groups = op->groups,
                                                .eps = op->eps});
  return NULL;
}

clave_status cpu_batch_norm(cpu_stream *s, const node *n) {
  const ir_batch_norm *op = n->instruction->op;
  ktensor x = cpu_tensor(n, op->x), out = cpu_tensor(n, op->out), weight, bias;
  ktensor mean = cpu_tensor(n, op->mean), var = cpu_tensor(n, op->var);
  kernel_batch_norm(&s->kernel, &(channel_norm){.x = &x,
                                                .out = &out,
                                                .weight = optional_tensor(n, op->weight, &weight),
                                                .bias = optional_tensor(n, op->bias, &bias),
                                                .mean = &mean,
                                                .var = &var,
                                                .batch = x.dims[0],
                                                .channels = x.dims[1],
                                                .plane = product_of(x.dims + 2, x.rank - 2),
                                                .groups = 1,
                                                .eps = op->eps});
  return NULL;
}
