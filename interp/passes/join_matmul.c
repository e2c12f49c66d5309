/* Joins products of one matrix with several constants, such as for queries, keys and values, into
 * one product with a joined constant and slices of its result.
 *
 * Weights are joined only if all products that read them are joined in the same way. So methods
 * that share weights share the joined weight, and no weight is stored twice. Weights with other
 * readers (tied embeddings) are not joined, nor are products with a reader that would have to copy
 * its slice of the joined rows. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "interp/passes/passes.h"

enum { MAX_MEMBERS = 8, ENCODING_TEXT = 64 };

/* Layout of a weight in its constant: (N, K) transposed by a Permute, (K, N), or encoded (N, K). */
typedef enum layout { TRANSPOSED, COLUMNS, ENCODED } layout;

typedef struct member {
  draft_node *node;
  uint32_t weight, bias; /* constants; bias: IR_NONE if absent */
  layout layout;
  int64_t n, k;
} member;

/* Products that are joined, ordered by weight. */
typedef struct product_set {
  member items[MAX_MEMBERS];
  int n;
} product_set;

typedef struct joined {
  uint32_t weights[MAX_MEMBERS];
  int n;
  uint32_t weight;
  struct joined *next;
} joined;

typedef struct joiner {
  draft *draft;
  joined *made;
} joiner;

static const tensor *constant_type(const draft *draft, uint32_t tid) {
  return &draft->from->types[tid];
}

/* ---------------------------------------------------------------- readers of the result */

/* True if the tensor is a single row: a slice of a wider row is then contiguous, too. */
static bool join_matmul_is_one_row(const draft *draft, uint32_t tid) {
  bool one = !draft->slots[tid].kept;
  for (int i = 0; i < draft_rank(draft, tid) - 1 && one; i++)
    one = size_is(draft_size(draft, tid, i), 1);
  for (uint32_t i = 0; i < draft->slots[tid].n_readers && one; i++)
    one = !op_table[draft->slots[tid].readers[i]->ins.op_type].is_control;
  return one;
}

/* ---------------------------------------------------------------- groups */

static bool join_matmul_is_constant(const draft *draft, uint32_t tid, int rank) {
  return draft->slots[tid].kind == SLOT_CONSTANT && tid < draft->from->ir.tensors.count &&
         draft->slots[tid].data && draft_rank(draft, tid) == rank;
}

static bool join_matmul_match_weight(const draft *draft, const ir_matmul *op, member *member) {
  const ir_permute *permute = draft_op(draft, op->b, IR_OP_PERMUTE);
  member->layout = op->b_transposed ? ENCODED : permute ? TRANSPOSED : COLUMNS;
  member->weight = permute ? permute->x : op->b;
  if (!join_matmul_is_constant(draft, member->weight, 2)) return false;
  if (permute && (permute->dims.items[0] == 0 || permute->dims.items[0] == -2)) return false;
  const tensor *tensor = constant_type(draft, member->weight);
  member->n = tensor->dims[member->layout == COLUMNS];
  member->k = tensor->dims[member->layout != COLUMNS];
  return true;
}

static bool match_bias(const draft *draft, const ir_matmul *op, member *member) {
  member->bias = op->bias == IR_NONE ? IR_NONE : draft_through(draft, op->bias, 0);
  return member->bias == IR_NONE ||
         (op->beta == 1 && join_matmul_is_constant(draft, member->bias, 1) &&
          size_is(draft_size(draft, member->bias, 0), member->n));
}

/* True if the node is a product that can be joined with others. */
static bool join_matmul_match_member(const draft *draft, draft_node *node, member *field) {
  const ir_matmul *op = node->ins.op;
  if (node->ins.op_type != IR_OP_MATMUL || op->alpha != 1) return false;
  *field = (member){.node = node};
  return join_matmul_match_weight(draft, op, field) && match_bias(draft, op, field) &&
         (join_matmul_is_one_row(draft, op->out) || draft_can_be_strided(draft, op->out, true));
}

static bool same_encoding(const draft *draft, uint32_t a, uint32_t b) {
  char x[ENCODING_TEXT], y[ENCODING_TEXT];
  const encoding *encoding = &constant_type(draft, a)->encoding,
                 *code = &constant_type(draft, b)->encoding;
  if (encoding->kind != code->kind) return false;
  return !encoding->kind ||
         strcmp(encoding_text(encoding, x, sizeof x), encoding_text(code, y, sizeof y)) == 0;
}

static bool same_kind(const draft *draft, const member *left, const member *right) {
  return left->node->chain == right->node->chain && left->layout == right->layout &&
         left->k == right->k &&
         draft_type(draft, left->weight) == draft_type(draft, right->weight) &&
         same_encoding(draft, left->weight, right->weight);
}

/* Calls visit for each product that reads the weight, also through a Permute. Returns false if a
 * call returns false, or if anything else reads the weight. */
typedef bool (*visit_member)(joiner *joiner, const member *member, const void *ctx);
static bool each_product(joiner *joiner, uint32_t tid, uint32_t weight, visit_member visit,
                         const void *ctx) {
  member m;
  const draft *draft = joiner->draft;
  bool good = !draft->slots[tid].kept;
  for (uint32_t i = 0; i < draft->slots[tid].n_readers && good; i++) {
    draft_node *node = draft->slots[tid].readers[i];
    good = node->ins.op_type == IR_OP_PERMUTE
               ? each_product(joiner, result_of(node), weight, visit, ctx)
               : join_matmul_match_member(draft, node, &m) && m.weight == weight &&
                     visit(joiner, &m, ctx);
  }
  return good;
}

static bool any_product(joiner *joiner, const member *member, const void *ctx) {
  (void)joiner;
  (void)member;
  (void)ctx;
  return true;
}

/* Returns false if the set is full. */
static bool insert_member(product_set *product_set, const member *member) {
  int at = product_set->n;
  if (product_set->n == MAX_MEMBERS) return false;
  for (; at > 0 && product_set->items[at - 1].weight > member->weight; at--)
    product_set->items[at] = product_set->items[at - 1];
  product_set->items[at] = *member;
  product_set->n++;
  return true;
}

/* Finds the products with field's left operand that can be joined with it. False: too many. */
static bool find_products(joiner *joiner, const member *field, product_set *product_set) {
  member other;
  const draft *draft = joiner->draft;
  uint32_t a = ((const ir_matmul *)field->node->ins.op)->a;
  product_set->n = 0;
  for (uint32_t i = 0; i < draft->slots[a].n_readers; i++) {
    if (!join_matmul_match_member(draft, draft->slots[a].readers[i], &other) ||
        !same_kind(draft, field, &other) || ((const ir_matmul *)other.node->ins.op)->a != a ||
        !each_product(joiner, other.weight, other.weight, any_product, NULL))
      continue;
    if (!insert_member(product_set, &other)) return false;
  }
  return true;
}

static bool is_in_same_set(joiner *joiner, const member *member, const void *ctx) {
  product_set other;
  const product_set *product_set = ctx;
  bool same = find_products(joiner, member, &other) && other.n == product_set->n;
  for (int i = 0; i < product_set->n && same; i++)
    same = other.items[i].weight == product_set->items[i].weight;
  return same;
}

/* True if all products of these weights, in all methods, are joined in the same way. */
static bool join_matmul_is_whole(joiner *joiner, const product_set *product_set) {
  bool whole = product_set->n > 1;
  for (int i = 0; i < product_set->n && whole; i++) {
    uint32_t w = product_set->items[i].weight;
    whole = (i == 0 || w != product_set->items[i - 1].weight) &&
            each_product(joiner, w, w, is_in_same_set, product_set);
  }
  return whole;
}

/* ---------------------------------------------------------------- constants */

static int64_t all_columns(const product_set *product_set) {
  int64_t n = 0;
  for (int i = 0; i < product_set->n; i++) n += product_set->items[i].n;
  return n;
}

static size_t constant_bytes(const draft *draft, uint32_t tid) {
  size_t n = 0;
  (void)tensor_bytes(constant_type(draft, tid), &n); /* cannot overflow: the program contains it */
  return n;
}

/* Copies matrices of `rows` rows side by side; with one row, one after the other. */
static void copy_weights(const draft *draft, const product_set *product_set, int64_t rows,
                         char *to) {
  for (int64_t r = 0; r < rows; r++) {
    for (int i = 0; i < product_set->n; i++) {
      size_t row = constant_bytes(draft, product_set->items[i].weight) / (size_t)rows;
      memcpy(to, (const char *)draft->slots[product_set->items[i].weight].data + (size_t)r * row,
             row);
      to += row;
    }
  }
}

/* Returns the first weight's bytes if all weights are adjacent, as in some files; else NULL. */
static const void *joined_in_place(const draft *draft, const product_set *product_set) {
  const char *at = draft->slots[product_set->items[0].weight].data, *first = at;
  for (int i = 0; i < product_set->n; i++) {
    if (draft->slots[product_set->items[i].weight].data != at) return NULL;
    at += constant_bytes(draft, product_set->items[i].weight);
  }
  return first;
}

static uint32_t join_matmul_add_weight(joiner *joiner, const product_set *product_set) {
  size_t bytes = 0;
  void *memory;
  const member *first = &product_set->items[0];
  bool columns = first->layout == COLUMNS;
  const ir_int_or_vid n = literal_size(all_columns(product_set)), k = literal_size(first->k);
  ir_int_or_vid shape[] = {columns ? k : n, columns ? n : k};
  ir_tensor t = joiner->draft->slots[first->weight].tensor;
  t.shape = (ir_int_or_vids){shape, 2};
  const void *there = columns ? NULL : joined_in_place(joiner->draft, product_set);
  if (there) return draft_constant_over(joiner->draft, &t, there);
  for (int i = 0; i < product_set->n; i++)
    if (!add_size(bytes, constant_bytes(joiner->draft, product_set->items[i].weight), &bytes))
      return IR_NONE;
  uint32_t tid = draft_constant_reserve(joiner->draft, &t, bytes, &memory);
  if (tid != IR_NONE)
    copy_weights(joiner->draft, product_set, columns && first->k ? first->k : 1, memory);
  return tid;
}

/* Returns the joined weight: an existing one that another method uses, or a new one. */
static uint32_t joined_weight(joiner *joiner, const product_set *product_set) {
  for (const joined *o = joiner->made; o; o = o->next) {
    bool same = o->n == product_set->n;
    for (int i = 0; i < product_set->n && same; i++)
      same = o->weights[i] == product_set->items[i].weight;
    if (same) return o->weight;
  }
  joined *sum = draft_alloc(joiner->draft, 1, sizeof *sum);
  uint32_t tid = sum ? join_matmul_add_weight(joiner, product_set) : IR_NONE;
  if (tid == IR_NONE) return IR_NONE;
  *sum = (joined){.n = product_set->n, .weight = tid, .next = joiner->made};
  for (int i = 0; i < product_set->n; i++) sum->weights[i] = product_set->items[i].weight;
  joiner->made = sum;
  return tid;
}

/* Joins the biases; products without one get zeros. *out is IR_NONE if no product has one. */
static bool joined_bias(draft *draft, const product_set *product_set, dtype type, uint32_t *out) {
  size_t size = dtype_size(type);
  const ir_int_or_vid n = literal_size(all_columns(product_set));
  bool any = false;
  *out = IR_NONE;
  for (int i = 0; i < product_set->n; i++) any = any || product_set->items[i].bias != IR_NONE;
  if (!any) return true;
  char *data = calloc((size_t)n.literal + 1, size), *to = data;
  if (!data) draft->no_memory = true;
  for (int i = 0; i < product_set->n && data; i++) {
    size_t bytes = (size_t)product_set->items[i].n * size;
    if (product_set->items[i].bias != IR_NONE)
      memcpy(to, draft->slots[product_set->items[i].bias].data, bytes);
    to += bytes;
  }
  if (data) *out = draft_constant(draft, type, &n, 1, product_set->items[0].node->ins.name, data);
  free(data);
  return *out != IR_NONE;
}

/* ---------------------------------------------------------------- replacing */

static uint32_t join_matmul_add_product(draft *draft, const product_set *product_set,
                                        draft_node *first, uint32_t b, uint32_t bias) {
  const ir_matmul *from = first->ins.op;
  ir_int_or_vid shape[MAX_RANK];
  int rank = draft_rank(draft, from->out);
  for (int i = 0; i < rank; i++) shape[i] = *draft_dim(draft, from->out, i);
  shape[rank - 1] = literal_size(all_columns(product_set));
  uint32_t out = draft_slot_new(draft, draft_type(draft, from->out), shape, rank, first->ins.name);
  ir_matmul *op = draft_add(draft, first, IR_OP_MATMUL);
  *op = (ir_matmul){.a = from->a,
                    .b = b,
                    .bias = bias,
                    .alpha = 1,
                    .beta = 1,
                    .out = out,
                    .b_transposed = from->b_transposed};
  draft_note(draft, first);
  return out;
}

/* Adds a slice of columns [start, start + member->n) of the joined product. */
static void slice_member(draft *draft, draft_node *before, const member *member, uint32_t x,
                         int64_t start) {
  uint32_t from = result_of(member->node),
           out = draft_slot_like(draft, from, member->node->ins.name);
  ir_slice *op = draft_insert(draft, before->chain, before, member->node->ins.name, IR_OP_SLICE);
  op->x = x;
  op->axis = draft_rank(draft, x) - 1;
  op->start = literal_size(start);
  op->stop = literal_size(start + member->n);
  op->out = out;
  draft_note(draft, before);
}

static draft_node *join_matmul_first_of(const product_set *product_set) {
  draft_node *first = product_set->items[0].node;
  for (int i = 1; i < product_set->n; i++)
    if (product_set->items[i].node->order < first->order) first = product_set->items[i].node;
  return first;
}

/* Adds the joined product. Returns NULL if memory runs out. */
static draft_node *join_products(joiner *joiner, const product_set *product_set) {
  draft *draft = joiner->draft;
  uint32_t bias, outs[MAX_MEMBERS];
  int64_t start = 0;
  draft_node *first = join_matmul_first_of(product_set);
  if (!joined_bias(draft, product_set, draft_type(draft, result_of(first)), &bias)) return NULL;
  uint32_t b = joined_weight(joiner, product_set);
  if (b == IR_NONE) return NULL;
  if (product_set->items[0].layout == TRANSPOSED)
    b = draft_permute(draft, first, b, (const int[]){1, 0});
  uint32_t x = join_matmul_add_product(draft, product_set, first, b, bias);
  for (int i = 0; i < product_set->n && !draft->no_memory; start += product_set->items[i++].n) {
    slice_member(draft, first, &product_set->items[i], x, start);
    outs[i] = result_of(first->prev);
  }
  for (int i = 0; i < product_set->n && !draft->no_memory; i++)
    draft_replace(draft, result_of(product_set->items[i].node), outs[i]);
  return draft->no_memory ? NULL : draft->slots[x].writer;
}

uint32_t join_matmuls(draft *draft, const pass_env *env) {
  member m;
  product_set product_set;
  joiner joiner = {.draft = draft};
  uint32_t order = 0, done = 0;
  (void)env;
  for (draft_node *n = draft_first(draft, 0); n; n = draft_next(draft, n)) n->order = order++;
  for (draft_node *n = draft_first(draft, 0); n && !draft->no_memory;) {
    draft_node *made = NULL;
    if (join_matmul_match_member(draft, n, &m) && find_products(&joiner, &m, &product_set) &&
        join_matmul_is_whole(&joiner, &product_set))
      made = join_products(&joiner, &product_set);
    done += made != NULL;
    n = draft_next(draft, made ? made : n);
  }
  return done;
}
