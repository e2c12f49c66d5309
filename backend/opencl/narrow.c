#include "backend/opencl/narrow.h"

#include "backend/opencl/device.h"
#include "ops/elementwise.h"
#include "ops/epilogue.h"
#include "ops/pool.h"
#include "ops/reduce.h"

/* Values are read and written by their dtypes in all these kernels. */
static bool elementwise_takes_narrow(cl_recorder *s, const node *n, uint32_t slot) {
  elementwise_form f;
  describe_elementwise(n, &f);
  (void)s;
  return elementwise_may_narrow(&f, slot);
}

/* Parts are copied as BF16, or rounded or widened on the way. */
static bool cat_takes_narrow(cl_recorder *s, const node *n, uint32_t slot) {
  elementwise_form epilogue;
  (void)s, (void)slot;
  return !describe_epilogue(n, &epilogue);
}

static bool pool_takes_narrow(cl_recorder *s, const node *n, uint32_t slot) {
  pool_form f;
  describe_pool(n, &f);
  (void)s;
  return !f.average && !f.indices && (slot == f.x->slot || slot == f.out->slot);
}

/* Sums of means stay floats. */
static bool adaptive_pool_takes_narrow(cl_recorder *s, const node *n, uint32_t slot) {
  pool_form f;
  describe_adaptive_pool(n, &f);
  (void)s;
  return pool_is_mean(&f) && slot == f.x->slot;
}

static bool reduce_takes_narrow(cl_recorder *s, const node *n, uint32_t slot) {
  reduce_form f;
  describe_reduce(n, &f);
  (void)s;
  return slot == f.x->slot && reduce_may_narrow(n, &f);
}

bool opencl_takes_narrow(backend *b, const node *n, uint32_t slot) {
  static const struct {
    ir_op op;
    bool (*takes)(cl_recorder *s, const node *n, uint32_t slot);
  } rows[] = {{IR_OP_ADAPTIVE_POOL, adaptive_pool_takes_narrow},
              {IR_OP_CAT, cat_takes_narrow},
              {IR_OP_CONV, opencl_conv_takes_narrow},
              {IR_OP_CONV_TRANSPOSE, opencl_conv_transpose_takes_narrow},
              {IR_OP_ELEMENTWISE, elementwise_takes_narrow},
              {IR_OP_LAYER_NORM, opencl_layer_norm_takes_narrow},
              {IR_OP_MATMUL, opencl_matmul_takes_narrow},
              {IR_OP_POOL, pool_takes_narrow},
              {IR_OP_REDUCE, reduce_takes_narrow},
              {IR_OP_RMS_NORM, opencl_rms_norm_takes_narrow}};
  cl_recording none = {0};
  cl_recorder s = {.device = (cl_device *)b, .fast = true, .out = &none};
  bool has_pairs = false;
  status_free(recorder_has_pairs(&s, &has_pairs));
  for (size_t i = 0; i < sizeof rows / sizeof *rows && has_pairs; i++)
    if (rows[i].op == n->instruction->op_type) return rows[i].takes(&s, n, slot);
  return false;
}
