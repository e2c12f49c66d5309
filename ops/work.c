/* What the formulas of ops/work.h are made of, but for attention's. */
#include "ops/work.h"

#include <math.h>

#include "ops/epilogue.h"

static const tensor *tensor_of(const work_node *w, uint32_t tid) {
  return &w->node->tensors[tid].t;
}

/* ---------------------------------------------------------------- elements */

double work_elements(const work_node *w, uint32_t tid) {
  return tid == IR_NONE ? 0 : (double)tensor_numel(tensor_of(w, tid));
}

double work_dim(const work_node *w, uint32_t tid, int axis) {
  const tensor *t = tensor_of(w, tid);
  const int at = axis_of(axis, t->rank);
  return at >= 0 && at < t->rank ? (double)t->dims[at] : 1;
}

double work_dims(const work_node *w, uint32_t tid, int from) {
  double n = 1;
  for (int i = from; i < tensor_of(w, tid)->rank; i++) n *= (double)tensor_of(w, tid)->dims[i];
  return n;
}

double work_product(const ir_i32s *list) {
  double n = 1;
  for (uint32_t i = 0; i < list->count; i++) n *= (double)list->items[i];
  return n;
}

double work_steps(const ir_steps *steps) {
  double n = 0;
  for (uint32_t i = 0; i < steps->count; i++) {
    const ir_step_kind kind = steps->items[i].kind;
    n += kind != IR_STEP_KIND_COPY && step_table[kind].result != STEP_CAST;
  }
  return n;
}

double work_has(const work_node *w, uint32_t tid) {
  (void)w;
  return tid != IR_NONE;
}

double work_log2(const work_node *w, double n) {
  (void)w;
  return n > 1 ? log2(n) : 0;
}

/* ---------------------------------------------------------------- bytes */

/* Those at different places: neither what stride 0 repeats, nor more than lie between the first and
 * the last. */
static double distinct_elements(const tensor *t) {
  double n = 1, span = 1;
  for (int i = 0; i < t->rank; i++) {
    const double stride = fabs((double)t->strides[i]);
    if (t->dims[i] == 0) return 0;
    if (t->strides[i] != 0) n *= (double)t->dims[i];
    span += (double)(t->dims[i] - 1) * stride;
  }
  return fmin(n, span);
}

double work_bytes(const work_node *w, uint32_t tid) {
  size_t bytes = 0;
  if (tid == IR_NONE) return 0;
  const tensor *t = tensor_of(w, tid);
  if (t->encoding.kind) return tensor_bytes(t, &bytes) ? (double)bytes : 0;
  return distinct_elements(t) * (double)dtype_size(t->type);
}

double work_bytes_all(const work_node *w, const ir_u32s *tids) {
  double bytes = 0;
  for (uint32_t i = 0; i < tids->count; i++) bytes += work_bytes(w, tids->items[i]);
  return bytes;
}

double work_part(const work_node *w, uint32_t tid, double n) {
  const double all = work_elements(w, tid);
  return all > 0 ? work_bytes(w, tid) * fmin(1, n / all) : 0;
}

/* ---------------------------------------------------------------- groups of rows */

static const work_counts *find_counts(const work_node *w, uint32_t tid) {
  for (int i = 0; i < w->n_counts; i++)
    if (w->counts[i].tid == tid && w->counts[i].n > 0) return &w->counts[i];
  return NULL;
}

static int64_t count_at(const work_counts *c, int64_t i) {
  return c->type == DTYPE_I32 ? ((const int32_t *)c->items)[i] : ((const int64_t *)c->items)[i];
}

double work_grouped_rows(const work_node *w) {
  const ir_grouped_matmul *o = w->node->instruction->op;
  const work_counts *ends = find_counts(w, o->ends);
  const double all = work_dim(w, o->a, 0);
  return ends ? fmin(all, fmax(0, (double)count_at(ends, ends->n - 1))) : all;
}

double work_groups(const work_node *w, uint32_t tid) {
  const ir_grouped_matmul *o = w->node->instruction->op;
  const work_counts *ends = find_counts(w, o->ends);
  const double groups = work_dim(w, tid, 0);
  double used = fmin(groups, work_dim(w, o->a, 0));
  if (ends) {
    used = 0;
    for (int64_t i = 0; i < ends->n; i++)
      used += count_at(ends, i) > (i ? count_at(ends, i - 1) : 0);
  }
  return groups > 0 ? work_bytes(w, tid) * used / groups : 0;
}

/* ---------------------------------------------------------------- attention */

/* A query at position p sees so many keys, of the rows that there are. */
static double keys_seen(double p, const ir_opt_i64 *window, double rows) {
  const double most = window->present ? fmin((double)window->value, rows) : rows;
  return fmax(0, fmin(p + 1, most));
}

/* Query i sees the keys up to i. */
static double causal_pairs(double n_queries, double n_keys) {
  const double below = fmin(n_queries, n_keys);
  return below * (below + 1) / 2 + (n_queries - below) * n_keys;
}

static double plain_pairs(const work_node *w, const ir_attention *o) {
  const double n_queries = work_dim(w, o->q, -2), n_keys = work_dim(w, o->k, -2);
  const double heads = work_elements(w, o->q) / fmax(1, n_queries * work_dim(w, o->q, -1));
  return heads * (o->causal ? causal_pairs(n_queries, n_keys) : n_queries * n_keys);
}

static double first_position(const work_node *w, const ir_attention_cached *o) {
  const work_counts *position = find_counts(w, o->position);
  return position ? (double)count_at(position, 0)
                  : work_dim(w, o->key_cache, 2) - work_dim(w, o->q, 2);
}

static double cached_pairs(const work_node *w, const ir_attention_cached *o) {
  const double rows = work_dim(w, o->key_cache, 2), n = work_dim(w, o->q, 2),
               first = first_position(w, o);
  double keys = 0;
  for (double i = 0; i < n; i++) keys += keys_seen(first + i, &o->window, rows);
  return work_dim(w, o->q, 0) * work_dim(w, o->q, 1) * keys;
}

/* Token i; without positions the last ones of a sequence that fills its pages. */
static double paged_position(const work_node *w, const ir_attention_paged *o, int64_t i) {
  const work_counts *position = find_counts(w, o->position);
  return position ? (double)count_at(position, i)
                  : work_dim(w, o->page_table, 1) * work_dim(w, o->key_cache, 2) -
                        work_dim(w, o->q, 2) + (double)i;
}

static double paged_pairs(const work_node *w, const ir_attention_paged *o) {
  const int64_t n = (int64_t)work_dim(w, o->q, 2);
  double keys = 0;
  for (int64_t i = 0; i < n; i++) keys += keys_seen(paged_position(w, o, i), &o->window, INFINITY);
  return work_dim(w, o->q, 1) * keys;
}

double work_pairs(const work_node *w) {
  const ir_instruction *ins = w->node->instruction;
  return ins->op_type == IR_OP_ATTENTION          ? plain_pairs(w, ins->op)
         : ins->op_type == IR_OP_ATTENTION_CACHED ? cached_pairs(w, ins->op)
                                                  : paged_pairs(w, ins->op);
}

/* Keys that queries from one position to another see, together. */
static double rows_seen(double first, double last, const ir_opt_i64 *window, double rows) {
  const double all = last + 1, reach = window->present ? (double)window->value + last - first : all;
  return fmax(0, fmin(fmin(all, reach), rows));
}

/* Tokens of a sequence stand behind each other. */
static double paged_rows(const work_node *w, const ir_attention_paged *o) {
  const work_counts *sequence = find_counts(w, o->sequence);
  const int64_t n = (int64_t)work_dim(w, o->q, 2);
  double rows = 0;
  for (int64_t i = 0, first = 0; i < n; i++) {
    if (i + 1 < n && (!sequence || count_at(sequence, i + 1) == count_at(sequence, i))) continue;
    rows += rows_seen(paged_position(w, o, first), paged_position(w, o, i), &o->window, INFINITY);
    first = i + 1;
  }
  return rows + (double)n;
}

static double cached_rows(const work_node *w, const ir_attention_cached *o) {
  const double n = work_dim(w, o->q, 2), first = first_position(w, o);
  return rows_seen(first, first + n - 1, &o->window, work_dim(w, o->key_cache, 2)) + n;
}

double work_rows(const work_node *w, uint32_t tid) {
  const ir_instruction *ins = w->node->instruction;
  if (tid == IR_NONE) return 0;
  const bool is_paged = ins->op_type == IR_OP_ATTENTION_PAGED;
  const double all = work_dim(w, tid, 2) * (is_paged ? work_dim(w, tid, 0) : 1);
  const double rows = is_paged ? paged_rows(w, ins->op) : cached_rows(w, ins->op);
  return all > 0 ? work_bytes(w, tid) * rows / all : 0;
}

/* ---------------------------------------------------------------- others */

double work_reduced(const work_node *w, ir_reduce_kind kind) {
  (void)w;
  switch (kind) {
    case IR_REDUCE_KIND_VAR: /* of the mean, a difference, its square */
    case IR_REDUCE_KIND_STD:
      return 4;
    case IR_REDUCE_KIND_NORM1:
    case IR_REDUCE_KIND_NORM2:
      return 2;
    default:
      return 1;
  }
}

/* Of the n elements of x that decide one of out along a dimension. */
static double upsampled(const ir_upsample *o, double in, double out) {
  const double n = o->mode == IR_UPSAMPLE_MODE_CUBIC ? 4 : 2;
  return in == out ? 1 : o->antialias ? n * fmax(1, in / fmax(1, out)) : n;
}

static double upsample_taps(const work_node *w, const ir_upsample *o) {
  const int rank = tensor_of(w, o->x)->rank;
  double taps = 1;
  if (o->mode != IR_UPSAMPLE_MODE_LINEAR && o->mode != IR_UPSAMPLE_MODE_CUBIC) return 0;
  for (int i = 2; i < rank; i++) taps *= upsampled(o, work_dim(w, o->x, i), work_dim(w, o->out, i));
  return taps;
}

static double grid_taps(const work_node *w, const ir_grid_sample *o) {
  if (o->mode == IR_GRID_SAMPLE_MODE_NEAREST) return 0;
  return pow(o->mode == IR_GRID_SAMPLE_MODE_BICUBIC ? 4 : 2, tensor_of(w, o->x)->rank - 2);
}

double work_taps(const work_node *w) {
  const ir_instruction *ins = w->node->instruction;
  return ins->op_type == IR_OP_UPSAMPLE ? upsample_taps(w, ins->op) : grid_taps(w, ins->op);
}

double work_fft(const work_node *w) {
  const ir_fft *o = w->node->instruction->op;
  const bool is_complex = o->kind == IR_FFT_KIND_COMPLEX;
  const uint32_t whole = o->kind == IR_FFT_KIND_TO_REAL ? o->out : o->x;
  const int axis = axis_of(o->axis, tensor_of(w, whole)->rank - is_complex);
  return 2.5 * work_elements(w, whole) * work_log2(w, work_dim(w, whole, axis));
}

double work_linalg(const work_node *w) {
  const ir_linalg *o = w->node->instruction->op;
  const double rows = work_dim(w, o->x, -2), columns = work_dim(w, o->x, -1);
  const double m = fmax(rows, columns), n = fmin(rows, columns);
  const double matrices = work_elements(w, o->x) / fmax(1, m * n), cube = n * n * n;
  switch (o->kind) {
    case IR_LINALG_KIND_LU:
      return matrices * (m * n * n - cube / 3);
    case IR_LINALG_KIND_CHOLESKY:
      return matrices * cube / 3;
    case IR_LINALG_KIND_QR: /* Householder's, R and then Q */
      return matrices * 4 * (m * n * n - cube / 3);
    case IR_LINALG_KIND_EIGH:
      return matrices * 9 * cube;
    case IR_LINALG_KIND_SVD:
      return matrices * (14 * m * n * n + 8 * cube);
    default: /* exp: 13 products of matrices */
      return matrices * 26 * cube;
  }
}

/* ---------------------------------------------------------------- a node */

static double operand_bytes(const work_node *w) {
  double bytes = 0;
  for (operand_iter i = operands_of(w->node->instruction); next_operand(&i);)
    bytes += work_bytes(w, i.o.tid);
  return bytes;
}

op_work measure_work(const work_node *w) {
  const ir_instruction *ins = w->node->instruction;
  const work_formula *f = &work_table[ins->op_type];
  const ir_steps *epilogue = epilogue_of(ins);
  op_work out = {.bytes = f->bytes ? f->bytes(w) : operand_bytes(w)};
  out.flops = f->flops ? f->flops(w) : f->is_known ? 0 : -1;
  if (epilogue) out.flops += work_steps(epilogue) * work_elements(w, first_slot(ins, true));
  return out;
}
