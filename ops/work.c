/* Building blocks of the work formulas (ops/work.h), and measure_work, which applies them. */
#include "ops/work.h"

#include <math.h>

#include "ops/epilogue.h"

static const tensor *tensor_of(const work_node *node, uint32_t tid) {
  return &node->node->tensors[tid].tensor;
}

/* ---------------------------------------------------------------- elements */

double work_elements(const work_node *node, uint32_t tid) {
  return tid == IR_NONE ? 0 : (double)tensor_numel(tensor_of(node, tid));
}

double work_dim(const work_node *node, uint32_t tid, int axis) {
  const tensor *tensor = tensor_of(node, tid);
  const int at = axis_of(axis, tensor->rank);
  return at >= 0 && at < tensor->rank ? (double)tensor->dims[at] : 1;
}

double work_dims(const work_node *node, uint32_t tid, int from) {
  double n = 1;
  for (int i = from; i < tensor_of(node, tid)->rank; i++)
    n *= (double)tensor_of(node, tid)->dims[i];
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

double work_has(const work_node *node, uint32_t tid) {
  (void)node;
  return tid != IR_NONE;
}

double work_log2(const work_node *node, double n) {
  (void)node;
  return n > 1 ? log2(n) : 0;
}

/* ---------------------------------------------------------------- bytes */

/* Returns the number of distinct elements: elements that a stride of 0 repeats count once, and the
 * number is at most the span from the first to the last. */
static double distinct_elements(const tensor *tensor) {
  double n = 1, span = 1;
  for (int i = 0; i < tensor->rank; i++) {
    const double stride = fabs((double)tensor->strides[i]);
    if (tensor->dims[i] == 0) return 0;
    if (tensor->strides[i] != 0) n *= (double)tensor->dims[i];
    span += (double)(tensor->dims[i] - 1) * stride;
  }
  return fmin(n, span);
}

double work_bytes(const work_node *node, uint32_t tid) {
  size_t bytes = 0;
  if (tid == IR_NONE) return 0;
  const tensor *tensor = tensor_of(node, tid);
  if (tensor->encoding.kind) return tensor_bytes(tensor, &bytes) ? (double)bytes : 0;
  return distinct_elements(tensor) * (double)dtype_size(tensor->type);
}

double work_bytes_all(const work_node *node, const ir_u32s *tids) {
  double bytes = 0;
  for (uint32_t i = 0; i < tids->count; i++) bytes += work_bytes(node, tids->items[i]);
  return bytes;
}

double work_part(const work_node *node, uint32_t tid, double n) {
  const double all = work_elements(node, tid);
  return all > 0 ? work_bytes(node, tid) * fmin(1, n / all) : 0;
}

/* ---------------------------------------------------------------- groups of rows */

static const work_counts *find_counts(const work_node *node, uint32_t tid) {
  for (int i = 0; i < node->n_counts; i++)
    if (node->counts[i].tid == tid && node->counts[i].n > 0) return &node->counts[i];
  return NULL;
}

static int64_t count_at(const work_counts *counts, int64_t i) {
  return counts->type == DTYPE_I32 ? ((const int32_t *)counts->items)[i]
                                   : ((const int64_t *)counts->items)[i];
}

double work_grouped_rows(const work_node *node) {
  const ir_grouped_matmul *op = node->node->instruction->op;
  const work_counts *ends = find_counts(node, op->ends);
  const double all = work_dim(node, op->a, 0);
  return ends ? fmin(all, fmax(0, (double)count_at(ends, ends->n - 1))) : all;
}

double work_groups(const work_node *node, uint32_t tid) {
  const ir_grouped_matmul *op = node->node->instruction->op;
  const work_counts *ends = find_counts(node, op->ends);
  const double groups = work_dim(node, tid, 0);
  double used = fmin(groups, work_dim(node, op->a, 0));
  if (ends) {
    used = 0;
    for (int64_t i = 0; i < ends->n; i++)
      used += count_at(ends, i) > (i ? count_at(ends, i - 1) : 0);
  }
  return groups > 0 ? work_bytes(node, tid) * used / groups : 0;
}

/* ---------------------------------------------------------------- attention */

/* Returns the number of keys that a query at position p sees, if there are `rows` keys. */
static double keys_seen(double p, const ir_opt_i64 *window, double rows) {
  const double most = window->present ? fmin((double)window->value, rows) : rows;
  return fmax(0, fmin(p + 1, most));
}

/* Returns the number of pairs of a query and a key if query i sees keys 0 to i. */
static double causal_pairs(double n_queries, double n_keys) {
  const double below = fmin(n_queries, n_keys);
  return below * (below + 1) / 2 + (n_queries - below) * n_keys;
}

static double plain_pairs(const work_node *node, const ir_attention *op) {
  const double n_queries = work_dim(node, op->q, -2), n_keys = work_dim(node, op->k, -2);
  const double heads = work_elements(node, op->q) / fmax(1, n_queries * work_dim(node, op->q, -1));
  return heads * (op->causal ? causal_pairs(n_queries, n_keys) : n_queries * n_keys);
}

static double first_position(const work_node *node, const ir_attention_cached *op) {
  const work_counts *position = find_counts(node, op->position);
  return position ? (double)count_at(position, 0)
                  : work_dim(node, op->key_cache, 2) - work_dim(node, op->q, 2);
}

static double cached_pairs(const work_node *node, const ir_attention_cached *op) {
  const double rows = work_dim(node, op->key_cache, 2), n = work_dim(node, op->q, 2),
               first = first_position(node, op);
  double keys = 0;
  for (double i = 0; i < n; i++) keys += keys_seen(first + i, &op->window, rows);
  return work_dim(node, op->q, 0) * work_dim(node, op->q, 1) * keys;
}

/* Returns the position of token i. If positions are unknown, the tokens are the last ones of a
 * sequence that fills its pages. */
static double paged_position(const work_node *node, const ir_attention_paged *op, int64_t i) {
  const work_counts *position = find_counts(node, op->position);
  return position ? (double)count_at(position, i)
                  : work_dim(node, op->page_table, 1) * work_dim(node, op->key_cache, 2) -
                        work_dim(node, op->q, 2) + (double)i;
}

static double paged_pairs(const work_node *node, const ir_attention_paged *op) {
  const int64_t n = (int64_t)work_dim(node, op->q, 2);
  double keys = 0;
  for (int64_t i = 0; i < n; i++)
    keys += keys_seen(paged_position(node, op, i), &op->window, INFINITY);
  return work_dim(node, op->q, 1) * keys;
}

double work_pairs(const work_node *node) {
  const ir_instruction *ins = node->node->instruction;
  return ins->op_type == IR_OP_ATTENTION          ? plain_pairs(node, ins->op)
         : ins->op_type == IR_OP_ATTENTION_CACHED ? cached_pairs(node, ins->op)
                                                  : paged_pairs(node, ins->op);
}

/* Returns the number of distinct keys that queries from position `first` to `last` see. */
static double rows_seen(double first, double last, const ir_opt_i64 *window, double rows) {
  const double all = last + 1, reach = window->present ? (double)window->value + last - first : all;
  return fmax(0, fmin(fmin(all, reach), rows));
}

/* Returns the number of rows of one page pool that are read and written. Tokens of one sequence are
 * consecutive. */
static double paged_rows(const work_node *node, const ir_attention_paged *op) {
  const work_counts *sequence = find_counts(node, op->sequence);
  const int64_t n = (int64_t)work_dim(node, op->q, 2);
  double rows = 0;
  for (int64_t i = 0, first = 0; i < n; i++) {
    if (i + 1 < n && (!sequence || count_at(sequence, i + 1) == count_at(sequence, i))) continue;
    rows += rows_seen(paged_position(node, op, first), paged_position(node, op, i), &op->window,
                      INFINITY);
    first = i + 1;
  }
  return rows + (double)n;
}

static double cached_rows(const work_node *node, const ir_attention_cached *op) {
  const double n = work_dim(node, op->q, 2), first = first_position(node, op);
  return rows_seen(first, first + n - 1, &op->window, work_dim(node, op->key_cache, 2)) + n;
}

double work_rows(const work_node *node, uint32_t tid) {
  const ir_instruction *ins = node->node->instruction;
  if (tid == IR_NONE) return 0;
  const bool is_paged = ins->op_type == IR_OP_ATTENTION_PAGED;
  const double all = work_dim(node, tid, 2) * (is_paged ? work_dim(node, tid, 0) : 1);
  const double rows = is_paged ? paged_rows(node, ins->op) : cached_rows(node, ins->op);
  return all > 0 ? work_bytes(node, tid) * rows / all : 0;
}

/* ---------------------------------------------------------------- other ops */

double work_reduced(const work_node *node, ir_reduce_kind kind) {
  (void)node;
  switch (kind) {
    case IR_REDUCE_KIND_VAR: /* mean (1), difference (1), square and sum (2) */
    case IR_REDUCE_KIND_STD:
      return 4;
    case IR_REDUCE_KIND_NORM1:
    case IR_REDUCE_KIND_NORM2:
      return 2;
    default:
      return 1;
  }
}

/* Returns the number of elements of x along a dimension that determine one element of out. */
static double upsampled(const ir_upsample *op, double in, double out) {
  const double n = op->mode == IR_UPSAMPLE_MODE_CUBIC ? 4 : 2;
  return in == out ? 1 : op->antialias ? n * fmax(1, in / fmax(1, out)) : n;
}

static double upsample_taps(const work_node *node, const ir_upsample *op) {
  const int rank = tensor_of(node, op->x)->rank;
  double taps = 1;
  if (op->mode != IR_UPSAMPLE_MODE_LINEAR && op->mode != IR_UPSAMPLE_MODE_CUBIC) return 0;
  for (int i = 2; i < rank; i++)
    taps *= upsampled(op, work_dim(node, op->x, i), work_dim(node, op->out, i));
  return taps;
}

static double grid_taps(const work_node *node, const ir_grid_sample *op) {
  if (op->mode == IR_GRID_SAMPLE_MODE_NEAREST) return 0;
  return pow(op->mode == IR_GRID_SAMPLE_MODE_BICUBIC ? 4 : 2, tensor_of(node, op->x)->rank - 2);
}

double work_taps(const work_node *node) {
  const ir_instruction *ins = node->node->instruction;
  return ins->op_type == IR_OP_UPSAMPLE ? upsample_taps(node, ins->op) : grid_taps(node, ins->op);
}

double work_fft(const work_node *node) {
  const ir_fft *op = node->node->instruction->op;
  const bool is_complex = op->kind == IR_FFT_KIND_COMPLEX;
  const uint32_t whole = op->kind == IR_FFT_KIND_TO_REAL ? op->out : op->x;
  const int axis = axis_of(op->axis, tensor_of(node, whole)->rank - is_complex);
  return 2.5 * work_elements(node, whole) * work_log2(node, work_dim(node, whole, axis));
}

double work_linalg(const work_node *node) {
  const ir_linalg *op = node->node->instruction->op;
  const double rows = work_dim(node, op->x, -2), columns = work_dim(node, op->x, -1);
  const double m = fmax(rows, columns), n = fmin(rows, columns);
  const double matrices = work_elements(node, op->x) / fmax(1, m * n), cube = n * n * n;
  switch (op->kind) {
    case IR_LINALG_KIND_LU:
      return matrices * (m * n * n - cube / 3);
    case IR_LINALG_KIND_CHOLESKY:
      return matrices * cube / 3;
    case IR_LINALG_KIND_QR: /* Householder: R, then Q */
      return matrices * 4 * (m * n * n - cube / 3);
    case IR_LINALG_KIND_EIGH:
      return matrices * 9 * cube;
    case IR_LINALG_KIND_SVD:
      return matrices * (14 * m * n * n + 8 * cube);
    default: /* exp: 13 matrix products */
      return matrices * 26 * cube;
  }
}

/* ---------------------------------------------------------------- a node */

static double operand_bytes(const work_node *node) {
  double bytes = 0;
  for (operand_iter i = operands_of(node->node->instruction); next_operand(&i);)
    bytes += work_bytes(node, i.operand.tid);
  return bytes;
}

op_work measure_work(const work_node *node) {
  const ir_instruction *ins = node->node->instruction;
  const work_formula *formula = &work_table[ins->op_type];
  const ir_steps *epilogue = epilogue_of(ins);
  op_work out = {.bytes = formula->bytes ? formula->bytes(node) : operand_bytes(node)};
  out.flops = formula->flops ? formula->flops(node) : formula->is_known ? 0 : -1;
  if (epilogue) out.flops += work_steps(epilogue) * work_elements(node, first_slot(ins, true));
  return out;
}
