/* Memory and data for a node that is measured on its own. Floats are noise around 0, integers 0,
 * truths true; what decides how much work there is stands as it would half way through a text, or
 * in groups of equal size. */
#include "interp/tune/operands.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- data */

static float noise(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static void store_float(dtype t, void *to, int64_t i, float x) {
  if (t == DTYPE_F32) ((float *)to)[i] = x;
  if (t == DTYPE_F64) ((double *)to)[i] = (double)x;
  if (t == DTYPE_F16) ((uint16_t *)to)[i] = f32_to_f16(x);
  if (t == DTYPE_BF16) ((uint16_t *)to)[i] = f32_to_bf16(x);
}

static void store_int(dtype t, void *to, int64_t i, int64_t x) {
  if (t == DTYPE_I64) ((int64_t *)to)[i] = x;
  if (t == DTYPE_I32) ((int32_t *)to)[i] = (int32_t)x;
}

/* The value of integers that are not 0: element i of n. */
static int64_t meaningful_int(const tune_job *j, const char *field, int64_t i, int64_t n) {
  ir_op op = j->instruction->op_type;
  const tensor *first = &j->operands[0].t;
  bool cached = op == IR_OP_ATTENTION_CACHED, paged = op == IR_OP_ATTENTION_PAGED;
  if (op == IR_OP_GROUPED_MATMUL && strcmp(field, "ends") == 0) return first->dims[0] * (i + 1) / n;
  if ((cached || paged) && strcmp(field, "position") == 0) {
    int64_t rows = 0;
    uint32_t at = 0;
    for (operand_iter o = operands_of(j->instruction); next_operand(&o); at++)
      if (strcmp(o.o.field, "key_cache") == 0) rows = j->operands[at].t.dims[2];
    int64_t new = first->dims[2];
    return paged ? i % rows : rows > 2 * new ? rows / 2 : rows > new ? rows - new : 0;
  }
  return 0;
}

static void write_data(const tune_job *j, const char *field, const tensor *t, int64_t elements,
                       void *to) {
  uint64_t state = 0x9e3779b97f4a7c15u ^ (uint64_t)elements;
  int64_t n = tensor_numel(t);
  memset(to, t->type == DTYPE_BOOL ? 1 : 0, (size_t)elements * dtype_size(t->type));
  if (dtype_is_float(t->type))
    for (int64_t i = 0; i < elements; i++) store_float(t->type, to, i, noise(&state));
  if (t->type == DTYPE_I64 || t->type == DTYPE_I32)
    for (int64_t i = 0; i < n && i < elements; i++)
      store_int(t->type, to, i, meaningful_int(j, field, i, n));
}

/* ---------------------------------------------------------------- memory */

int64_t tune_reach(const tensor *t) {
  int64_t last = t->offset;
  if (tensor_numel(t) == 0) return 0;
  for (int i = 0; i < t->rank; i++)
    if (t->strides[i] > 0) last += (t->dims[i] - 1) * t->strides[i];
  return last + 1;
}

static clave_status bind_made(tuner *t, const tune_job *j, tune_node *n, const operand *o,
                              bound_tensor *b) {
  backend *be = t->s->devices.backends[j->backend];
  const bound_tensor *reused = o->reuses == IR_NONE ? NULL : &n->tensors[o->reuses];
  if (reused && !reused->is_constant && tensor_same_view(&reused->t, &b->t)) {
    b->buf = reused->buf;
    return NULL;
  }
  size_t bytes = (size_t)tune_reach(&b->t) * dtype_size(b->t.type);
  TRY(be->vt->buffer_create(be, bytes, &b->buf));
  n->made[n->n_made++] = b->buf;
  return NULL;
}

static clave_status bind_all(tuner *t, const tune_job *j, tune_node *n) {
  uint32_t at = 0;
  for (operand_iter i = operands_of(j->instruction); next_operand(&i); at++) {
    bound_tensor *b = &n->tensors[i.o.tid];
    if (b->buf) continue; /* twice among the operands */
    *b = j->operands[at];
    if (b->is_constant)
      TRY(constant_store_get(t->s->stores[j->backend], b->constant, &b->buf));
    else
      TRY(bind_made(t, j, n, &i.o, b));
  }
  return NULL;
}

clave_status tune_node_create(tuner *t, const tune_job *j, tune_node *n) {
  const size_t slots = (size_t)slot_count(t->s->prog) + 2;
  *n = (tune_node){0};
  n->tensors = calloc(slots, sizeof *n->tensors);
  n->bound = calloc(slots, sizeof *n->bound);
  n->made = calloc((size_t)j->n + 1, sizeof(buffer *));
  if (!n->tensors || !n->bound || !n->made) return status_no_memory();
  n->nd = (node){.instruction = j->instruction,
                 .tensors = n->tensors,
                 .values = j->values,
                 .cache = &n->cache};
  TRY(bind_all(t, j, n));
  memcpy(n->bound, n->tensors, slots * sizeof *n->bound);
  for (size_t i = 0; i < slots; i++) n->bound[i].is_constant = false;
  return tune_node_fill(t, j, n);
}

static bool is_made(const tune_node *n, const buffer *b) {
  for (uint32_t i = 0; i < n->n_made; i++)
    if (n->made[i] == b) return true;
  return false;
}

clave_status tune_node_fill(tuner *t, const tune_job *j, const tune_node *n) {
  const backend_vtable *vt = t->s->devices.backends[j->backend]->vt;
  for (operand_iter i = operands_of(j->instruction); next_operand(&i);) {
    const bound_tensor *b = &n->tensors[i.o.tid];
    bool reads = !(i.o.flags & IR_OUT) || i.o.reuses != IR_NONE;
    int64_t elements = tune_reach(&b->t);
    size_t bytes = (size_t)elements * dtype_size(b->t.type);
    if (!is_made(n, b->buf) || elements == 0) continue;
    void *data = malloc(bytes);
    if (!data) return status_no_memory();
    if (reads)
      write_data(j, i.o.field, &b->t, elements, data);
    else
      memset(data, 0xa5, bytes); /* nothing is left of the last results */
    clave_status st = vt->write(t->s->streams[j->backend], b->buf, 0, data, bytes);
    free(data);
    TRY(st);
  }
  return NULL;
}

void tune_node_destroy(tuner *t, const tune_job *j, tune_node *n) {
  backend *be = t->s->devices.backends[j->backend];
  for (uint32_t i = 0; i < n->n_made; i++) be->vt->buffer_destroy(be, n->made[i]);
  if (n->cache && be->vt->building) be->vt->building->cache_destroy(be, n->cache);
  free(n->made);
  free(n->bound);
  free(n->tensors);
}
