/* Products of one matrix with several constants, as those for queries, keys and values, become one
 * product with a joined constant, and slices of its result.
 *
 * Weights are joined where every product of them is: methods that share weights share the joined
 * one, and no weight is kept twice. A weight that something else reads (tied embeddings) is left,
 * as is a product that something reads which would copy a part of wider rows. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "interp/passes/passes.h"

enum { MAX_MEMBERS = 8, ENCODING_TEXT = 64 };

/* How a weight lies in its constant: (N, K) behind a Permute, (K, N), or (N, K) and encoded. */
typedef enum layout { TURNED, COLUMNS, ENCODED } layout;

typedef struct member {
  draft_node *node;
  uint32_t weight, bias; /* constants; bias: IR_NONE if absent */
  layout layout;
  int64_t n, k;
} member;

/* In the order of their weights. */
typedef struct group {
  member items[MAX_MEMBERS];
  int n;
} group;

typedef struct joined {
  uint32_t parts[MAX_MEMBERS];
  int n;
  uint32_t weight;
  struct joined *next;
} joined;

typedef struct joiner {
  draft *d;
  joined *made;
} joiner;

static const tensor *constant_type(const draft *d, uint32_t tid) { return &d->from->types[tid]; }

/* ---------------------------------------------------------------- who reads the result */

/* One row is contiguous as a part of another. */
static bool is_one_row(const draft *d, uint32_t tid) {
  bool one = !d->slots[tid].kept;
  for (int i = 0; i < draft_rank(d, tid) - 1 && one; i++) one = size_is(draft_size(d, tid, i), 1);
  for (uint32_t i = 0; i < d->slots[tid].n_readers && one; i++)
    one = !op_table[d->slots[tid].readers[i]->ins.op_type].is_control;
  return one;
}

/* ---------------------------------------------------------------- groups */

static bool is_constant(const draft *d, uint32_t tid, int rank) {
  return d->slots[tid].kind == SLOT_CONSTANT && tid < d->from->ir.tensors.count &&
         d->slots[tid].data && draft_rank(d, tid) == rank;
}

static bool take_weight(const draft *d, const ir_matmul *o, member *m) {
  const ir_permute *turned = draft_op(d, o->b, IR_OP_PERMUTE);
  m->layout = o->b_transposed ? ENCODED : turned ? TURNED : COLUMNS;
  m->weight = turned ? turned->x : o->b;
  if (!is_constant(d, m->weight, 2)) return false;
  if (turned && (turned->dims.items[0] == 0 || turned->dims.items[0] == -2)) return false;
  const tensor *t = constant_type(d, m->weight);
  m->n = t->dims[m->layout == COLUMNS];
  m->k = t->dims[m->layout != COLUMNS];
  return true;
}

static bool take_bias(const draft *d, const ir_matmul *o, member *m) {
  m->bias = o->bias == IR_NONE ? IR_NONE : draft_through(d, o->bias, 0);
  return m->bias == IR_NONE ||
         (o->beta == 1 && is_constant(d, m->bias, 1) && size_is(draft_size(d, m->bias, 0), m->n));
}

/* A product that can be part of another. */
static bool take_member(const draft *d, draft_node *n, member *m) {
  const ir_matmul *o = n->ins.op;
  if (n->ins.op_type != IR_OP_MATMUL || o->alpha != 1) return false;
  *m = (member){.node = n};
  return take_weight(d, o, m) && take_bias(d, o, m) &&
         (is_one_row(d, o->out) || draft_can_be_strided(d, o->out, true));
}

static bool same_encoding(const draft *d, uint32_t a, uint32_t b) {
  char x[ENCODING_TEXT], y[ENCODING_TEXT];
  const encoding *e = &constant_type(d, a)->encoding, *f = &constant_type(d, b)->encoding;
  if (e->kind != f->kind) return false;
  return !e->kind || strcmp(encoding_text(e, x, sizeof x), encoding_text(f, y, sizeof y)) == 0;
}

static bool same_kind(const draft *d, const member *a, const member *b) {
  return a->node->chain == b->node->chain && a->layout == b->layout && a->k == b->k &&
         draft_type(d, a->weight) == draft_type(d, b->weight) &&
         same_encoding(d, a->weight, b->weight);
}

/* Calls visit for each product that reads the weight, also behind a Permute; false: it did, or
 * something else reads the weight. */
typedef bool (*visit_member)(joiner *j, const member *m, const void *ctx);
static bool each_product(joiner *j, uint32_t tid, uint32_t weight, visit_member visit,
                         const void *ctx) {
  member m;
  const draft *d = j->d;
  bool good = !d->slots[tid].kept;
  for (uint32_t i = 0; i < d->slots[tid].n_readers && good; i++) {
    draft_node *n = d->slots[tid].readers[i];
    good = n->ins.op_type == IR_OP_PERMUTE
               ? each_product(j, result_of(n), weight, visit, ctx)
               : take_member(d, n, &m) && m.weight == weight && visit(j, &m, ctx);
  }
  return good;
}

static bool any_product(joiner *j, const member *m, const void *ctx) {
  (void)j;
  (void)m;
  (void)ctx;
  return true;
}

/* False: there is no room. */
static bool insert_member(group *g, const member *m) {
  int at = g->n;
  if (g->n == MAX_MEMBERS) return false;
  for (; at > 0 && g->items[at - 1].weight > m->weight; at--) g->items[at] = g->items[at - 1];
  g->items[at] = *m;
  g->n++;
  return true;
}

/* The products of m's left side that can be joined with it. False: too many. */
static bool find_group(joiner *j, const member *m, group *g) {
  member other;
  const draft *d = j->d;
  uint32_t a = ((const ir_matmul *)m->node->ins.op)->a;
  g->n = 0;
  for (uint32_t i = 0; i < d->slots[a].n_readers; i++) {
    if (!take_member(d, d->slots[a].readers[i], &other) || !same_kind(d, m, &other) ||
        ((const ir_matmul *)other.node->ins.op)->a != a ||
        !each_product(j, other.weight, other.weight, any_product, NULL))
      continue;
    if (!insert_member(g, &other)) return false;
  }
  return true;
}

static bool is_in_same_group(joiner *j, const member *m, const void *ctx) {
  group other;
  const group *g = ctx;
  bool same = find_group(j, m, &other) && other.n == g->n;
  for (int i = 0; i < g->n && same; i++) same = other.items[i].weight == g->items[i].weight;
  return same;
}

/* Are all products of these weights, in whatever method, joined in the same way? */
static bool is_whole(joiner *j, const group *g) {
  bool whole = g->n > 1;
  for (int i = 0; i < g->n && whole; i++) {
    uint32_t w = g->items[i].weight;
    whole = (i == 0 || w != g->items[i - 1].weight) && each_product(j, w, w, is_in_same_group, g);
  }
  return whole;
}

/* ---------------------------------------------------------------- constants */

static int64_t all_columns(const group *g) {
  int64_t n = 0;
  for (int i = 0; i < g->n; i++) n += g->items[i].n;
  return n;
}

static size_t constant_bytes(const draft *d, uint32_t tid) {
  size_t n = 0;
  (void)tensor_bytes(constant_type(d, tid), &n); /* known: the program holds it */
  return n;
}

/* Matrices of `rows` rows side by side; of one row: one behind the other. */
static void copy_parts(const draft *d, const group *g, int64_t rows, char *to) {
  for (int64_t r = 0; r < rows; r++) {
    for (int i = 0; i < g->n; i++) {
      size_t row = constant_bytes(d, g->items[i].weight) / (size_t)rows;
      memcpy(to, (const char *)d->slots[g->items[i].weight].data + (size_t)r * row, row);
      to += row;
    }
  }
}

/* Parts that lie one behind the other, as a file may have them, are the joined constant already. */
static const void *joined_in_place(const draft *d, const group *g) {
  const char *at = d->slots[g->items[0].weight].data, *first = at;
  for (int i = 0; i < g->n; i++) {
    if (d->slots[g->items[i].weight].data != at) return NULL;
    at += constant_bytes(d, g->items[i].weight);
  }
  return first;
}

static uint32_t add_weight(joiner *j, const group *g) {
  size_t bytes = 0;
  void *room;
  const member *first = &g->items[0];
  bool columns = first->layout == COLUMNS;
  const ir_int_or_vid n = literal_size(all_columns(g)), k = literal_size(first->k);
  ir_int_or_vid shape[] = {columns ? k : n, columns ? n : k};
  ir_tensor t = j->d->slots[first->weight].t;
  t.shape = (ir_int_or_vids){shape, 2};
  const void *there = columns ? NULL : joined_in_place(j->d, g);
  if (there) return draft_constant_over(j->d, &t, there);
  for (int i = 0; i < g->n; i++)
    if (!add_size(bytes, constant_bytes(j->d, g->items[i].weight), &bytes)) return IR_NONE;
  uint32_t tid = draft_constant_room(j->d, &t, bytes, &room);
  if (tid != IR_NONE) copy_parts(j->d, g, columns && first->k ? first->k : 1, room);
  return tid;
}

/* The joined weight: one that another method has, or a new one. */
static uint32_t joined_weight(joiner *j, const group *g) {
  for (const joined *o = j->made; o; o = o->next) {
    bool same = o->n == g->n;
    for (int i = 0; i < g->n && same; i++) same = o->parts[i] == g->items[i].weight;
    if (same) return o->weight;
  }
  joined *o = draft_alloc(j->d, 1, sizeof *o);
  uint32_t tid = o ? add_weight(j, g) : IR_NONE;
  if (tid == IR_NONE) return IR_NONE;
  *o = (joined){.n = g->n, .weight = tid, .next = j->made};
  for (int i = 0; i < g->n; i++) o->parts[i] = g->items[i].weight;
  j->made = o;
  return tid;
}

/* Products without a bias among others get zeros. *out: IR_NONE if none has one. */
static bool joined_bias(draft *d, const group *g, dtype type, uint32_t *out) {
  size_t size = dtype_size(type);
  const ir_int_or_vid n = literal_size(all_columns(g));
  bool any = false;
  *out = IR_NONE;
  for (int i = 0; i < g->n; i++) any = any || g->items[i].bias != IR_NONE;
  if (!any) return true;
  char *data = calloc((size_t)n.literal + 1, size), *to = data;
  if (!data) d->no_memory = true;
  for (int i = 0; i < g->n && data; i++) {
    size_t bytes = (size_t)g->items[i].n * size;
    if (g->items[i].bias != IR_NONE) memcpy(to, d->slots[g->items[i].bias].data, bytes);
    to += bytes;
  }
  if (data) *out = draft_constant(d, type, &n, 1, g->items[0].node->ins.name, data);
  free(data);
  return *out != IR_NONE;
}

/* ---------------------------------------------------------------- replacing */

static uint32_t add_product(draft *d, const group *g, draft_node *first, uint32_t b,
                            uint32_t bias) {
  const ir_matmul *from = first->ins.op;
  ir_int_or_vid shape[MAX_RANK];
  int rank = draft_rank(d, from->out);
  for (int i = 0; i < rank; i++) shape[i] = *draft_dim(d, from->out, i);
  shape[rank - 1] = literal_size(all_columns(g));
  uint32_t out = draft_slot_new(d, draft_type(d, from->out), shape, rank, first->ins.name);
  ir_matmul *o = draft_add(d, first, IR_OP_MATMUL);
  *o = (ir_matmul){.a = from->a,
                   .b = b,
                   .bias = bias,
                   .alpha = 1,
                   .beta = 1,
                   .out = out,
                   .b_transposed = from->b_transposed};
  draft_note(d, first);
  return out;
}

/* Columns [start, start + m->n) of the joined product. */
static void slice_member(draft *d, draft_node *before, const member *m, uint32_t x, int64_t start) {
  uint32_t from = result_of(m->node), out = draft_slot_like(d, from, m->node->ins.name);
  ir_slice *o = draft_insert(d, before->chain, before, m->node->ins.name, IR_OP_SLICE);
  o->x = x;
  o->axis = draft_rank(d, x) - 1;
  o->start = literal_size(start);
  o->stop = literal_size(start + m->n);
  o->out = out;
  draft_note(d, before);
}

static draft_node *first_of(const group *g) {
  draft_node *first = g->items[0].node;
  for (int i = 1; i < g->n; i++)
    if (g->items[i].node->order < first->order) first = g->items[i].node;
  return first;
}

/* The joined product; NULL: no memory. */
static draft_node *join_group(joiner *j, const group *g) {
  draft *d = j->d;
  uint32_t bias, outs[MAX_MEMBERS];
  int64_t start = 0;
  draft_node *first = first_of(g);
  if (!joined_bias(d, g, draft_type(d, result_of(first)), &bias)) return NULL;
  uint32_t b = joined_weight(j, g);
  if (b == IR_NONE) return NULL;
  if (g->items[0].layout == TURNED) b = draft_permute(d, first, b, (const int[]){1, 0});
  uint32_t x = add_product(d, g, first, b, bias);
  for (int i = 0; i < g->n && !d->no_memory; start += g->items[i++].n) {
    slice_member(d, first, &g->items[i], x, start);
    outs[i] = result_of(first->prev);
  }
  for (int i = 0; i < g->n && !d->no_memory; i++)
    draft_replace(d, result_of(g->items[i].node), outs[i]);
  return d->no_memory ? NULL : d->slots[x].writer;
}

uint32_t join_matmuls(draft *d, const pass_env *env) {
  member m;
  group g;
  joiner j = {.d = d};
  uint32_t order = 0, done = 0;
  (void)env;
  for (draft_node *n = draft_first(d, 0); n; n = draft_next(d, n)) n->order = order++;
  for (draft_node *n = draft_first(d, 0); n && !d->no_memory;) {
    draft_node *made = NULL;
    if (take_member(d, n, &m) && find_group(&j, &m, &g) && is_whole(&j, &g))
      made = join_group(&j, &g);
    done += made != NULL;
    n = draft_next(d, made ? made : n);
  }
  return done;
}
