/* A language model whose state is caches of attention becomes one that takes tokens of any
 * sequences:
 *
 *   method(tokens (*, L), position ()) -> logits of the last token
 *   method(tokens (*, L), position (L), sequence (L), page_table (S, P), rows (M)) -> of tokens
 * `rows`
 *
 * The caches, (1, n_kv, C, size), become pools of pages, ("pages", n_kv, PAGE_ROWS, size), whose
 * number sessions choose. Tokens know of each other only through attention, as a prompt may come in
 * any pieces; where a token stands is told by position + arange(L), which becomes the input. Where
 * logits are of all tokens there are no rows to choose. A program that does anything else with a
 * position or the last token stays as it is. */
#include <string.h>

#include "interp/passes/passes.h"

enum {
  PAGE_ROWS = 32,
  MOST_PAGES = 1 << 16,     /* of a pool, and of a sequence */
  MOST_SEQUENCES = 1 << 16, /* in a run */
  MOST_ROWS = 1 << 16
};
#define PAGES "pages"

/* The sizes that are added, and of the method that is looked at what stands for its last token:
 * chosen[t] is the axis of slot t that has a row for each token whose logits are wanted, plus 1. */
typedef struct paging {
  draft *d;
  ir_method *m;
  uint32_t pages, sequences, width, rows; /* values */
  uint8_t *chosen;
} paging;

static uint32_t input_of(const paging *p, uint32_t i) { return p->m->inputs.items[i].tensor; }

/* L of tokens (*, L). */
static uint32_t length_of(const paging *p) { return draft_dim(p->d, input_of(p, 0), -1)->vid; }

static bool has_length(const paging *p, uint32_t tid) {
  for (int i = 0; i < draft_rank(p->d, tid); i++)
    if (draft_dim(p->d, tid, i)->vid == length_of(p)) return true;
  return false;
}

/* ---------------------------------------------------------------- positions */

static bool is_counter(const draft *d, uint32_t tid, uint32_t length) {
  const ir_arange *o = draft_op(d, tid, IR_OP_ARANGE);
  return o && draft_type(d, tid) == DTYPE_I64 && draft_rank(d, tid) == 1 &&
         draft_dim(d, tid, 0)->vid == length && o->start.vid == IR_NONE && o->start.literal == 0 &&
         o->step.vid == IR_NONE && o->step.literal == 1;
}

/* position + arange(L), where each token stands. */
static bool is_places(const paging *p, const draft_node *n) {
  const ir_elementwise *e = n->ins.op;
  uint32_t position = input_of(p, 1);
  if (n->ins.op_type != IR_OP_ELEMENTWISE || e->inputs.count != 2 || e->steps.count != 1)
    return false;
  const ir_step *s = &e->steps.items[0];
  if (s->kind != IR_STEP_KIND_ADD || s->dtype != DTYPE_I64 || s->operands.count != 2) return false;
  const ir_operand *a = &s->operands.items[0], *b = &s->operands.items[1];
  bool both = a->source == IR_OPERAND_SOURCE_INPUT && b->source == IR_OPERAND_SOURCE_INPUT &&
              a->index != b->index;
  if (e->inputs.items[0] != position && e->inputs.items[1] != position) return false;
  uint32_t other = e->inputs.items[e->inputs.items[0] == position];
  return both && is_counter(p->d, other, length_of(p)) && draft_rank(p->d, e->out) == 1;
}

static bool has_places(const paging *p) {
  const draft_slot *s = &p->d->slots[input_of(p, 1)];
  for (uint32_t i = 0; i < s->n_readers; i++) {
    const draft_node *n = s->readers[i];
    if (n->ins.op_type != IR_OP_ATTENTION_CACHED && !is_places(p, n)) return false;
  }
  return s->n_readers > 0 && !s->kept;
}

/* A counter of the tokens tells where they stand in a run, unless it is added to the position. */
static bool counts_otherwise(const paging *p, const draft_node *n) {
  if (n->ins.op_type != IR_OP_ARANGE || !has_length(p, result_of(n))) return false;
  const draft_slot *s = &p->d->slots[result_of(n)];
  for (uint32_t i = 0; i < s->n_readers; i++)
    if (!is_places(p, s->readers[i])) return true;
  return s->kept;
}

static bool has_other_counters(const paging *p) {
  for (const draft_node *n = p->d->chains[p->m->chain].first; n; n = n->next)
    if (counts_otherwise(p, n)) return true;
  return false;
}

/* ---------------------------------------------------------------- the last token */

static bool is_one(const draft *d, uint32_t tid, int axis) {
  const ir_int_or_vid *n = draft_dim(d, tid, axis);
  return n->vid == IR_NONE && n->literal == 1;
}

/* Where a node takes the last token alone, of axis *from of x: the axis of its result that has one
 * row for it; -1: it takes something else. */
static int last_token(const paging *p, const draft_node *n, uint32_t *x, int *from) {
  const draft *d = p->d;
  const ir_slice *slice = n->ins.op;
  const ir_select *select = n->ins.op;
  bool is_slice = n->ins.op_type == IR_OP_SLICE;
  if (!is_slice && n->ins.op_type != IR_OP_SELECT) return -1;
  const ir_int_or_vid *at = is_slice ? &slice->start : &select->index;
  *x = is_slice ? slice->x : select->x;
  *from = is_slice ? slice->axis : select->axis;
  if (*from < 0) *from += draft_rank(d, *x);
  if (draft_dim(d, *x, *from)->vid != length_of(p) || at->vid != IR_NONE || at->literal != -1)
    return -1;
  int axis = is_slice ? *from : *from - 1;
  return axis >= 0 && is_one(d, result_of(n), axis) ? axis : -1;
}

static bool is_last_token(const paging *p, const draft_node *n) {
  uint32_t x;
  int from;
  return last_token(p, n, &x, &from) >= 0;
}

/* The axis of rows in a reshaped tensor: the last of those of size 1 in front; -1: it has none. */
static int reshaped_axis(const paging *p, const ir_reshape *o) {
  int axis = 0, rank = draft_rank(p->d, o->out);
  for (int i = 0; i + 1 < p->chosen[o->x]; i++)
    if (!is_one(p->d, o->x, i)) return -1;
  while (axis < rank && is_one(p->d, o->out, axis)) axis++;
  return axis - 1;
}

/* The axis of rows in what n makes of them; -1: it would not treat each by itself. */
static int axis_after(const paging *p, const draft_node *n, uint32_t x) {
  const draft *d = p->d;
  int axis = p->chosen[x] - 1;
  const ir_matmul *matmul = n->ins.op;
  switch (n->ins.op_type) {
    case IR_OP_ELEMENTWISE:
      return axis + draft_rank(d, result_of(n)) - draft_rank(d, x);
    case IR_OP_COPY:
      return axis;
    case IR_OP_RMS_NORM:
      return ((const ir_rms_norm *)n->ins.op)->n_axes < draft_rank(d, x) - axis ? axis : -1;
    case IR_OP_LAYER_NORM:
      return ((const ir_layer_norm *)n->ins.op)->n_axes < draft_rank(d, x) - axis ? axis : -1;
    case IR_OP_MATMUL:
      return matmul->a == x && matmul->b != x && draft_rank(d, matmul->b) == 2 &&
                     axis < draft_rank(d, x) - 1
                 ? axis
                 : -1;
    case IR_OP_RESHAPE:
      return reshaped_axis(p, n->ins.op);
    default:
      return -1;
  }
}

/* Marks what follows from the last token. False: something else is done with it. */
static bool follow_node(const paging *p, const draft_node *n) {
  uint32_t x;
  int axis = -1, from, last = last_token(p, n, &x, &from);
  if (last >= 0) {
    p->chosen[result_of(n)] = (uint8_t)(last + 1);
    return !p->chosen[x];
  }
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    if ((i.o.flags & IR_OUT) || !p->chosen[i.o.tid]) continue;
    int one = axis_after(p, n, i.o.tid);
    if (one < 0 || (axis >= 0 && one != axis)) return false;
    axis = one;
  }
  if (axis >= 0) p->chosen[result_of(n)] = (uint8_t)(axis + 1);
  return true;
}

static bool follow_last(const paging *p) {
  const ir_arguments *outputs = &p->m->outputs;
  for (const draft_node *n = p->d->chains[p->m->chain].first; n; n = n->next)
    if (!follow_node(p, n)) return false;
  uint32_t logits = outputs->count == 1 ? outputs->items[0].tensor : IR_NONE;
  return logits != IR_NONE && (p->chosen[logits] || has_length(p, logits));
}

static bool gives_last(const paging *p) { return p->chosen[p->m->outputs.items[0].tensor] > 0; }

/* ---------------------------------------------------------------- what can be paged */

static bool can_page_method(const paging *p) {
  const ir_arguments *inputs = &p->m->inputs;
  if (inputs->count != 2 || input_of(p, 0) == IR_NONE || input_of(p, 1) == IR_NONE) return false;
  if (draft_rank(p->d, input_of(p, 0)) < 1 || length_of(p) == IR_NONE) return false;
  if (draft_type(p->d, input_of(p, 1)) != DTYPE_I64 || draft_rank(p->d, input_of(p, 1)) != 0)
    return false;
  return has_places(p) && !has_other_counters(p) && follow_last(p);
}

/* All state is caches of one sequence, which are equally long: of one of each layer. */
static bool can_page_state(const draft *d) {
  extent rows = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->n_slots; i++) {
    if (d->slots[i].kind != SLOT_STATE) continue;
    if (!is_cache(d, i) || !is_one(d, i, 0)) return false;
    if (n++ && !same_size(rows, draft_size(d, i, 2))) return false;
    rows = draft_size(d, i, 2);
  }
  return n > 0;
}

static bool can_page(paging *p) {
  draft *d = p->d;
  for (uint32_t i = 0; i < d->ir.values.count; i++)
    if (strcmp(d->ir.values.items[i].name, PAGES) == 0) return false;
  if (!can_page_state(d)) return false;
  p->chosen = draft_alloc(d, d->n_slots, sizeof *p->chosen);
  for (uint32_t i = 0; p->chosen && i < d->ir.methods.count; i++) {
    p->m = &d->ir.methods.items[i];
    if (!can_page_method(p)) return false;
  }
  return p->chosen != NULL;
}

/* ---------------------------------------------------------------- paging */

static void page_state(const paging *p) {
  draft *d = p->d;
  for (uint32_t i = 0; i < d->n_slots && !d->no_memory; i++) {
    if (d->slots[i].kind != SLOT_STATE) continue;
    ir_int_or_vid shape[MAX_RANK];
    int rank = draft_rank(d, i);
    for (int k = 0; k < rank; k++) shape[k] = *draft_dim(d, i, k);
    shape[0] = value_size(p->pages);
    shape[2] = literal_size(PAGE_ROWS);
    draft_set_shape(d, i, shape, rank);
  }
}

static uint32_t cache_like(draft *d, uint32_t cache, const char *name) {
  return cache == IR_NONE ? IR_NONE : draft_slot_like(d, cache, name);
}

static void page_attention(draft *d, draft_node *n, uint32_t sequence, uint32_t table) {
  const ir_attention_cached *o = n->ins.op;
  const char *name = n->ins.name;
  const uint32_t caches[] = {o->key_cache, o->value_cache, o->key_scale, o->value_scale};
  const uint32_t before[] = {o->out, o->key_cache_out, o->value_cache_out, o->key_scale_out,
                             o->value_scale_out};
  uint32_t made[5] = {draft_slot_like(d, o->out, name)};
  for (int i = 0; i < 4; i++) made[i + 1] = cache_like(d, caches[i], name);
  ir_attention_paged *paged = draft_add(d, n, IR_OP_ATTENTION_PAGED);
  *paged = (ir_attention_paged){.q = o->q,
                                .k = o->k,
                                .v = o->v,
                                .position = o->position,
                                .sequence = sequence,
                                .page_table = table,
                                .key_cache = o->key_cache,
                                .value_cache = o->value_cache,
                                .key_scale = o->key_scale,
                                .value_scale = o->value_scale,
                                .scale = o->scale,
                                .softcap = o->softcap,
                                .out = made[0],
                                .key_cache_out = made[1],
                                .value_cache_out = made[2],
                                .key_scale_out = made[3],
                                .value_scale_out = made[4]};
  draft_note(d, n);
  for (int i = 0; i < 5 && !d->no_memory; i++)
    if (before[i] != IR_NONE) draft_replace(d, before[i], made[i]);
}

/* The rows of tokens in place of the last one. */
static void choose_rows(const paging *p, draft_node *n, uint32_t rows) {
  draft *d = p->d;
  uint32_t x, out = result_of(n);
  int from, axis = last_token(p, n, &x, &from);
  uint32_t chosen = draft_slot_like(d, x, n->ins.name);
  if (chosen == IR_NONE) return;
  draft_set_size(d, chosen, from, p->rows);
  ir_index_select *select = draft_add(d, n, IR_OP_INDEX_SELECT);
  *select = (ir_index_select){.x = x, .axis = from, .index = rows, .out = chosen};
  draft_note(d, n);
  draft_set_size(d, out, axis, p->rows);
  if (n->ins.op_type == IR_OP_SELECT && !d->no_memory) {
    const ir_int_or_vids *shape = &d->slots[out].t.shape;
    chosen = draft_reshape(d, n, chosen, shape->items, (int)shape->count);
  }
  if (!d->no_memory) draft_replace(d, out, chosen);
}

/* A result of theirs has a row for each. */
static void widen_result(const paging *p, draft_node *n) {
  uint32_t out = result_of(n);
  int axis = p->chosen[out] - 1;
  draft_set_size(p->d, out, axis, p->rows);
  if (n->ins.op_type != IR_OP_RESHAPE || p->d->no_memory) return;
  ir_reshape *o = n->ins.op;
  o->shape = p->d->slots[out].t.shape;
}

static void page_nodes(const paging *p, uint32_t sequence, uint32_t table, uint32_t rows) {
  draft *d = p->d;
  uint32_t position = input_of(p, 1), known = d->n_slots;
  for (draft_node *n = d->chains[p->m->chain].first, *next; n && !d->no_memory; n = next) {
    next = n->next;
    uint32_t out = first_slot(&n->ins, true);
    if (is_places(p, n)) {
      draft_replace(d, out, position);
    } else if (n->ins.op_type == IR_OP_ATTENTION_CACHED) {
      page_attention(d, n, sequence, table);
    } else if (is_last_token(p, n)) {
      choose_rows(p, n, rows);
    } else if (out < known && p->chosen[out]) {
      widen_result(p, n);
    }
  }
}

static void page_method(const paging *p) {
  draft *d = p->d;
  const ir_int_or_vid length = value_size(length_of(p)), rows = value_size(p->rows),
                      table[] = {value_size(p->sequences), value_size(p->width)};
  bool last = gives_last(p);
  uint32_t sequence = draft_input(d, p->m, DTYPE_I32, &length, 1, "sequence");
  uint32_t pages = draft_input(d, p->m, DTYPE_I32, table, 2, "page_table");
  uint32_t chosen = last ? draft_input(d, p->m, DTYPE_I64, &rows, 1, "rows") : IR_NONE;
  if (d->no_memory) return;
  page_nodes(p, sequence, pages, chosen);
  draft_set_shape(d, input_of(p, 1), &length, 1);
  p->m->metadata = ""; /* it tells Python of the inputs there were */
}

uint32_t page_caches(draft *d, const pass_env *env) {
  (void)env;
  paging p = {.d = d};
  if (!can_page(&p)) return 0;
  p.pages = draft_value(d, PAGES, 1, MOST_PAGES);
  p.sequences = draft_value(d, "sequences", 1, MOST_SEQUENCES);
  p.width = draft_value(d, "page_table_width", 1, MOST_PAGES);
  p.rows = draft_value(d, "rows", 1, MOST_ROWS);
  if (!d->no_memory) page_state(&p);
  for (uint32_t i = 0; i < d->ir.methods.count && !d->no_memory; i++) {
    p.m = &d->ir.methods.items[i];
    page_method(&p);
  }
  return 1;
}
