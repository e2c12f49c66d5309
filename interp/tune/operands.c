/* Memory and data for a node that is measured alone. Floats are noise around 0, integers 0,
 * booleans true. Operands that determine the amount of work get typical values: a position halfway
 * through a text, groups of equal size. */
#include "interp/tune/operands.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- data */

static float noise(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static void tune_operands_store_float(dtype t, void *to, int64_t i, float x) {
  if (t == DTYPE_F32) ((float *)to)[i] = x;
  if (t == DTYPE_F64) ((double *)to)[i] = (double)x;
  if (t == DTYPE_F16) ((uint16_t *)to)[i] = f32_to_f16(x);
  if (t == DTYPE_BF16) ((uint16_t *)to)[i] = f32_to_bf16(x);
}

static void store_int(dtype t, void *to, int64_t i, int64_t x) {
  if (t == DTYPE_I64) ((int64_t *)to)[i] = x;
  if (t == DTYPE_I32) ((int32_t *)to)[i] = (int32_t)x;
}

/* Returns element i of n of an integer operand; nonzero if it determines the amount of work. */
static int64_t meaningful_int(const tune_job *job, const char *field, int64_t i, int64_t n) {
  ir_op op = job->instruction->op_type;
  const tensor *first = &job->operands[0].tensor;
  bool cached = op == IR_OP_ATTENTION_CACHED, paged = op == IR_OP_ATTENTION_PAGED;
  if (op == IR_OP_GROUPED_MATMUL && strcmp(field, "ends") == 0) return first->dims[0] * (i + 1) / n;
  if ((cached || paged) && strcmp(field, "position") == 0) {
    int64_t rows = 0;
    uint32_t at = 0;
    for (operand_iter o = operands_of(job->instruction); next_operand(&o); at++)
      if (strcmp(o.operand.field, "key_cache") == 0) rows = job->operands[at].tensor.dims[2];
    int64_t new = first->dims[2];
    return paged ? i % rows : rows > 2 * new ? rows / 2 : rows > new ? rows - new : 0;
  }
  return 0;
}

static void write_data(const tune_job *job, const char *field, const tensor *tensor,
                       int64_t elements, void *to) {
  uint64_t state = 0x9e3779b97f4a7c15u ^ (uint64_t)elements;
  int64_t n = tensor_numel(tensor);
  memset(to, tensor->type == DTYPE_BOOL ? 1 : 0, (size_t)elements * dtype_size(tensor->type));
  if (dtype_is_float(tensor->type))
    for (int64_t i = 0; i < elements; i++)
      tune_operands_store_float(tensor->type, to, i, noise(&state));
  if (tensor->type == DTYPE_I64 || tensor->type == DTYPE_I32)
    for (int64_t i = 0; i < n && i < elements; i++)
      store_int(tensor->type, to, i, meaningful_int(job, field, i, n));
}

/* ---------------------------------------------------------------- memory */

int64_t tune_span(const tensor *tensor) {
  int64_t last = tensor->offset;
  if (tensor_numel(tensor) == 0) return 0;
  for (int i = 0; i < tensor->rank; i++)
    if (tensor->strides[i] > 0) last += (tensor->dims[i] - 1) * tensor->strides[i];
  return last + 1;
}

static clave_status bind_made(tuner *tuner, const tune_job *job, tune_node *node,
                              const operand *operand, bound_tensor *tensor) {
  backend *be = tuner->session->devices.backends[job->backend];
  const bound_tensor *reused = operand->reuses == IR_NONE ? NULL : &node->tensors[operand->reuses];
  if (reused && !reused->is_constant && tensor_same_view(&reused->tensor, &tensor->tensor)) {
    tensor->buf = reused->buf;
    return NULL;
  }
  size_t bytes = (size_t)tune_span(&tensor->tensor) * dtype_size(tensor->tensor.type);
  TRY(be->vt->buffer_create(be, bytes, &tensor->buf));
  node->made[node->n_made++] = tensor->buf;
  return NULL;
}

static clave_status tune_operands_bind_all(tuner *tuner, const tune_job *job, tune_node *node) {
  uint32_t at = 0;
  for (operand_iter i = operands_of(job->instruction); next_operand(&i); at++) {
    bound_tensor *tensor = &node->tensors[i.operand.tid];
    if (tensor->buf) continue; /* already made: the slot occurs twice among the operands */
    *tensor = job->operands[at];
    if (tensor->is_constant)
      TRY(constant_store_get(tuner->session->stores[job->backend], tensor->constant, &tensor->buf));
    else
      TRY(bind_made(tuner, job, node, &i.operand, tensor));
  }
  return NULL;
}

clave_status tune_node_create(tuner *tuner, const tune_job *job, tune_node *tuned) {
  const size_t slots = (size_t)slot_count(tuner->session->prog) + 2;
  *tuned = (tune_node){0};
  tuned->tensors = calloc(slots, sizeof *tuned->tensors);
  tuned->bound = calloc(slots, sizeof *tuned->bound);
  tuned->made = calloc((size_t)job->n + 1, sizeof(buffer *));
  if (!tuned->tensors || !tuned->bound || !tuned->made) return status_no_memory();
  tuned->nd = (node){.instruction = job->instruction,
                     .tensors = tuned->tensors,
                     .values = job->values,
                     .cache = &tuned->cache};
  TRY(tune_operands_bind_all(tuner, job, tuned));
  memcpy(tuned->bound, tuned->tensors, slots * sizeof *tuned->bound);
  for (size_t i = 0; i < slots; i++) tuned->bound[i].is_constant = false;
  return tune_node_fill(tuner, job, tuned);
}

static bool is_made(const tune_node *node, const buffer *buffer) {
  for (uint32_t i = 0; i < node->n_made; i++)
    if (node->made[i] == buffer) return true;
  return false;
}

clave_status tune_node_fill(tuner *tuner, const tune_job *job, const tune_node *node) {
  const backend_vtable *vt = tuner->session->devices.backends[job->backend]->vt;
  for (operand_iter i = operands_of(job->instruction); next_operand(&i);) {
    const bound_tensor *tensor = &node->tensors[i.operand.tid];
    bool reads = !(i.operand.flags & IR_OUT) || i.operand.reuses != IR_NONE;
    int64_t elements = tune_span(&tensor->tensor);
    size_t bytes = (size_t)elements * dtype_size(tensor->tensor.type);
    if (!is_made(node, tensor->buf) || elements == 0) continue;
    void *data = malloc(bytes);
    if (!data) return status_no_memory();
    if (reads)
      write_data(job, i.operand.field, &tensor->tensor, elements, data);
    else
      memset(data, 0xa5, bytes); /* erases previous results */
    clave_status st = vt->write(tuner->session->streams[job->backend], tensor->buf, 0, data, bytes);
    free(data);
    TRY(st);
  }
  return NULL;
}

void tune_node_destroy(tuner *tuner, const tune_job *job, tune_node *node) {
  backend *be = tuner->session->devices.backends[job->backend];
  for (uint32_t i = 0; i < node->n_made; i++) be->vt->buffer_destroy(be, node->made[i]);
  if (node->cache && be->vt->building) be->vt->building->cache_destroy(be, node->cache);
  free(node->made);
  free(node->bound);
  free(node->tensors);
}
