/* Rewrites a language model whose state is attention caches to process tokens of several sequences:
 *
 *   method(tokens (*, L), position ()) -> logits of the last token
 *   method(tokens (*, L), position (L), sequence (L), page_table (S, P), rows (M)) -> of `rows`
 *
 * The caches, (1, n_kv, C, size), are replaced by pools of pages, ("pages", n_kv, PAGE_ROWS, size).
 * Sessions choose the number of pages. Tokens interact only through attention, because a prompt may
 * be split anywhere. The input `position` replaces position + arange(L). The input `rows` is absent
 * if the method returns logits of all tokens. A program that uses a position or the last token
 * otherwise is not changed. */
#include <string.h>

#include "interp/passes/passes.h"

enum {
  PAGE_ROWS = 32,
  MAX_PAGES = 1 << 16,     /* per pool and per sequence */
  MAX_SEQUENCES = 1 << 16, /* per run */
  MAX_ROWS = 1 << 16
};
#define PAGES "pages"

/* The added sizes, and the tensors of the current method that depend on the last token: chosen[t]
 * is 1 plus the axis along which slot t gets one row per selected token, or 0. */
typedef struct paging {
  draft *draft;
  ir_method *method;
  uint32_t pages, sequences, width, rows; /* values */
  uint8_t *chosen;
} paging;

static uint32_t page_cache_input_of(const paging *paging, uint32_t i) {
  return paging->method->inputs.items[i].tensor;
}

/* Returns L, the length of tokens (*, L). */
static uint32_t length_of(const paging *paging) {
  return draft_dim(paging->draft, page_cache_input_of(paging, 0), -1)->vid;
}

static bool has_length(const paging *paging, uint32_t tid) {
  for (int i = 0; i < draft_rank(paging->draft, tid); i++)
    if (draft_dim(paging->draft, tid, i)->vid == length_of(paging)) return true;
  return false;
}

/* ---------------------------------------------------------------- positions */

static bool is_counter(const draft *draft, uint32_t tid, uint32_t length) {
  const ir_arange *op = draft_op(draft, tid, IR_OP_ARANGE);
  return op && draft_type(draft, tid) == DTYPE_I64 && draft_rank(draft, tid) == 1 &&
         draft_dim(draft, tid, 0)->vid == length && op->start.vid == IR_NONE &&
         op->start.literal == 0 && op->step.vid == IR_NONE && op->step.literal == 1;
}

/* True if the node is position + arange(L), the positions of the tokens. */
static bool is_positions(const paging *paging, const draft_node *node) {
  const ir_elementwise *elementwise = node->ins.op;
  uint32_t position = page_cache_input_of(paging, 1);
  if (node->ins.op_type != IR_OP_ELEMENTWISE || elementwise->inputs.count != 2 ||
      elementwise->steps.count != 1)
    return false;
  const ir_step *step = &elementwise->steps.items[0];
  if (step->kind != IR_STEP_KIND_ADD || step->dtype != DTYPE_I64 || step->operands.count != 2)
    return false;
  const ir_operand *a = &step->operands.items[0], *b = &step->operands.items[1];
  bool both = a->source == IR_OPERAND_SOURCE_INPUT && b->source == IR_OPERAND_SOURCE_INPUT &&
              a->index != b->index;
  if (elementwise->inputs.items[0] != position && elementwise->inputs.items[1] != position)
    return false;
  uint32_t other = elementwise->inputs.items[elementwise->inputs.items[0] == position];
  return both && is_counter(paging->draft, other, length_of(paging)) &&
         draft_rank(paging->draft, elementwise->out) == 1;
}

static bool has_places(const paging *paging) {
  const draft_slot *slot = &paging->draft->slots[page_cache_input_of(paging, 1)];
  for (uint32_t i = 0; i < slot->n_readers; i++) {
    const draft_node *node = slot->readers[i];
    if (node->ins.op_type != IR_OP_ATTENTION_CACHED && !is_positions(paging, node)) return false;
  }
  return slot->n_readers > 0 && !slot->kept;
}

/* True if arange(L), which restarts in each run, is used outside of position + arange(L). */
static bool counts_otherwise(const paging *paging, const draft_node *node) {
  if (node->ins.op_type != IR_OP_ARANGE || !has_length(paging, result_of(node))) return false;
  const draft_slot *slot = &paging->draft->slots[result_of(node)];
  for (uint32_t i = 0; i < slot->n_readers; i++)
    if (!is_positions(paging, slot->readers[i])) return true;
  return slot->kept;
}

static bool has_other_counters(const paging *paging) {
  for (const draft_node *n = paging->draft->chains[paging->method->chain].first; n; n = n->next)
    if (counts_otherwise(paging, n)) return true;
  return false;
}

/* ---------------------------------------------------------------- the last token */

static bool page_cache_is_one(const draft *draft, uint32_t tid, int axis) {
  const ir_int_or_vid *value = draft_dim(draft, tid, axis);
  return value->vid == IR_NONE && value->literal == 1;
}

/* If the node selects only the last token of *values along axis *from, returns the axis of its
 * result that `rows` replaces; else -1. */
static int last_token(const paging *paging, const draft_node *node, uint32_t *values, int *from) {
  const draft *draft = paging->draft;
  const ir_slice *slice = node->ins.op;
  const ir_select *select = node->ins.op;
  bool is_slice = node->ins.op_type == IR_OP_SLICE;
  if (!is_slice && node->ins.op_type != IR_OP_SELECT) return -1;
  const ir_int_or_vid *at = is_slice ? &slice->start : &select->index;
  *values = is_slice ? slice->x : select->x;
  *from = is_slice ? slice->axis : select->axis;
  if (*from < 0) *from += draft_rank(draft, *values);
  if (draft_dim(draft, *values, *from)->vid != length_of(paging) || at->vid != IR_NONE ||
      at->literal != -1)
    return -1;
  int axis = is_slice ? *from : *from - 1;
  return axis >= 0 && page_cache_is_one(draft, result_of(node), axis) ? axis : -1;
}

static bool is_last_token(const paging *paging, const draft_node *node) {
  uint32_t x;
  int from;
  return last_token(paging, node, &x, &from) >= 0;
}

/* Returns the axis of `rows` after a reshape: the last of the leading axes of size 1; or -1. */
static int reshaped_axis(const paging *paging, const ir_reshape *op) {
  int axis = 0, rank = draft_rank(paging->draft, op->out);
  for (int i = 0; i + 1 < paging->chosen[op->x]; i++)
    if (!page_cache_is_one(paging->draft, op->x, i)) return -1;
  while (axis < rank && page_cache_is_one(paging->draft, op->out, axis)) axis++;
  return axis - 1;
}

static bool cuts_axis(const draft *draft, const ir_slice *slice, int axis) {
  return (slice->axis < 0 ? slice->axis + draft_rank(draft, slice->x) : slice->axis) == axis;
}

/* Returns the axis of `rows` in the result; -1 if the node does not process rows separately. */
static int axis_after(const paging *paging, const draft_node *node, uint32_t x) {
  const draft *draft = paging->draft;
  int axis = paging->chosen[x] - 1;
  const ir_matmul *matmul = node->ins.op;
  switch (node->ins.op_type) {
    case IR_OP_ELEMENTWISE:
      return axis + draft_rank(draft, result_of(node)) - draft_rank(draft, x);
    case IR_OP_COPY:
      return axis;
    case IR_OP_RMS_NORM:
      return ((const ir_rms_norm *)node->ins.op)->n_axes < draft_rank(draft, x) - axis ? axis : -1;
    case IR_OP_LAYER_NORM:
      return ((const ir_layer_norm *)node->ins.op)->n_axes < draft_rank(draft, x) - axis ? axis
                                                                                         : -1;
    case IR_OP_MATMUL:
      return matmul->a == x && matmul->b != x && draft_rank(draft, matmul->b) == 2 &&
                     axis < draft_rank(draft, x) - 1
                 ? axis
                 : -1;
    case IR_OP_RESHAPE:
      return reshaped_axis(paging, node->ins.op);
    case IR_OP_SLICE:
      return cuts_axis(draft, node->ins.op, axis) ? -1 : axis;
    default:
      return -1;
  }
}

/* Marks a result that depends on the last token. Returns false if its use is not supported. */
static bool follow_node(const paging *paging, const draft_node *node) {
  uint32_t x;
  int axis = -1, from, last = last_token(paging, node, &x, &from);
  if (last >= 0) {
    paging->chosen[result_of(node)] = (uint8_t)(last + 1);
    return !paging->chosen[x];
  }
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    if ((i.operand.flags & IR_OUT) || !paging->chosen[i.operand.tid]) continue;
    int one = axis_after(paging, node, i.operand.tid);
    if (one < 0 || (axis >= 0 && one != axis)) return false;
    axis = one;
  }
  if (axis >= 0) paging->chosen[result_of(node)] = (uint8_t)(axis + 1);
  return true;
}

static bool follow_last(const paging *paging) {
  const ir_arguments *outputs = &paging->method->outputs;
  for (const draft_node *n = paging->draft->chains[paging->method->chain].first; n; n = n->next)
    if (!follow_node(paging, n)) return false;
  uint32_t logits = outputs->count == 1 ? outputs->items[0].tensor : IR_NONE;
  return logits != IR_NONE && (paging->chosen[logits] || has_length(paging, logits));
}

static bool returns_last(const paging *paging) {
  return paging->chosen[paging->method->outputs.items[0].tensor] > 0;
}

/* ---------------------------------------------------------------- checks */

static bool can_page_method(const paging *paging) {
  const ir_arguments *inputs = &paging->method->inputs;
  if (inputs->count != 2 || page_cache_input_of(paging, 0) == IR_NONE ||
      page_cache_input_of(paging, 1) == IR_NONE)
    return false;
  if (draft_rank(paging->draft, page_cache_input_of(paging, 0)) < 1 || length_of(paging) == IR_NONE)
    return false;
  if (draft_type(paging->draft, page_cache_input_of(paging, 1)) != DTYPE_I64 ||
      draft_rank(paging->draft, page_cache_input_of(paging, 1)) != 0)
    return false;
  return has_places(paging) && !has_other_counters(paging) && follow_last(paging);
}

/* True if all state tensors are caches of one sequence with the same number of rows. */
static bool can_page_state(const draft *draft) {
  extent rows = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < draft->n_slots; i++) {
    if (draft->slots[i].kind != SLOT_STATE) continue;
    if (!is_cache(draft, i) || !page_cache_is_one(draft, i, 0)) return false;
    if (n++ && !same_size(rows, draft_size(draft, i, 2))) return false;
    rows = draft_size(draft, i, 2);
  }
  return n > 0;
}

static bool can_page(paging *paging) {
  draft *draft = paging->draft;
  for (uint32_t i = 0; i < draft->ir.values.count; i++)
    if (strcmp(draft->ir.values.items[i].name, PAGES) == 0) return false;
  if (!can_page_state(draft)) return false;
  paging->chosen = draft_alloc(draft, draft->n_slots, sizeof *paging->chosen);
  for (uint32_t i = 0; paging->chosen && i < draft->ir.methods.count; i++) {
    paging->method = &draft->ir.methods.items[i];
    if (!can_page_method(paging)) return false;
  }
  return paging->chosen != NULL;
}

/* ---------------------------------------------------------------- paging */

static void page_state(const paging *paging) {
  draft *draft = paging->draft;
  for (uint32_t i = 0; i < draft->n_slots && !draft->no_memory; i++) {
    if (draft->slots[i].kind != SLOT_STATE) continue;
    ir_int_or_vid shape[MAX_RANK];
    int rank = draft_rank(draft, i);
    for (int k = 0; k < rank; k++) shape[k] = *draft_dim(draft, i, k);
    shape[0] = value_size(paging->pages);
    shape[2] = literal_size(PAGE_ROWS);
    draft_set_shape(draft, i, shape, rank);
  }
}

static uint32_t cache_like(draft *draft, uint32_t cache, const char *name) {
  return cache == IR_NONE ? IR_NONE : draft_slot_like(draft, cache, name);
}

static void page_attention(draft *draft, draft_node *node, uint32_t sequence, uint32_t table) {
  const ir_attention_cached *op = node->ins.op;
  const char *name = node->ins.name;
  const uint32_t caches[] = {op->key_cache, op->value_cache, op->key_scale, op->value_scale};
  const uint32_t before[] = {op->out, op->key_cache_out, op->value_cache_out, op->key_scale_out,
                             op->value_scale_out};
  uint32_t made[5] = {draft_slot_like(draft, op->out, name)};
  for (int i = 0; i < 4; i++) made[i + 1] = cache_like(draft, caches[i], name);
  ir_attention_paged *paged = draft_add(draft, node, IR_OP_ATTENTION_PAGED);
  *paged = (ir_attention_paged){.q = op->q,
                                .k = op->k,
                                .v = op->v,
                                .position = op->position,
                                .sequence = sequence,
                                .page_table = table,
                                .key_cache = op->key_cache,
                                .value_cache = op->value_cache,
                                .key_scale = op->key_scale,
                                .value_scale = op->value_scale,
                                .scale = op->scale,
                                .softcap = op->softcap,
                                .sinks = op->sinks,
                                .out = made[0],
                                .key_cache_out = made[1],
                                .value_cache_out = made[2],
                                .key_scale_out = made[3],
                                .value_scale_out = made[4]};
  draft_note(draft, node);
  for (int i = 0; i < 5 && !draft->no_memory; i++)
    if (before[i] != IR_NONE) draft_replace(draft, before[i], made[i]);
}

/* Selects the tokens `rows` instead of the last token. */
static void choose_rows(const paging *paging, draft_node *node, uint32_t rows) {
  draft *draft = paging->draft;
  uint32_t x, out = result_of(node);
  int from, axis = last_token(paging, node, &x, &from);
  uint32_t chosen = draft_slot_like(draft, x, node->ins.name);
  if (chosen == IR_NONE) return;
  draft_set_size(draft, chosen, from, paging->rows);
  ir_index_select *select = draft_add(draft, node, IR_OP_INDEX_SELECT);
  *select = (ir_index_select){.x = x, .axis = from, .index = rows, .out = chosen};
  draft_note(draft, node);
  draft_set_size(draft, out, axis, paging->rows);
  if (node->ins.op_type == IR_OP_SELECT && !draft->no_memory) {
    const ir_int_or_vids *shape = &draft->slots[out].tensor.shape;
    chosen = draft_reshape(draft, node, chosen, shape->items, (int)shape->count);
  }
  if (!draft->no_memory) draft_replace(draft, out, chosen);
}

/* Widens a result that depends on the last token to one row per selected token. */
static void widen_result(const paging *paging, draft_node *node) {
  uint32_t out = result_of(node);
  int axis = paging->chosen[out] - 1;
  draft_set_size(paging->draft, out, axis, paging->rows);
  if (node->ins.op_type != IR_OP_RESHAPE || paging->draft->no_memory) return;
  ir_reshape *op = node->ins.op;
  op->shape = paging->draft->slots[out].tensor.shape;
}

static void page_nodes(const paging *paging, uint32_t sequence, uint32_t table, uint32_t rows) {
  draft *draft = paging->draft;
  uint32_t position = page_cache_input_of(paging, 1), known = draft->n_slots;
  for (draft_node *n = draft->chains[paging->method->chain].first, *next; n && !draft->no_memory;
       n = next) {
    next = n->next;
    uint32_t out = first_slot(&n->ins, true);
    if (is_positions(paging, n)) {
      draft_replace(draft, out, position);
    } else if (n->ins.op_type == IR_OP_ATTENTION_CACHED) {
      page_attention(draft, n, sequence, table);
    } else if (is_last_token(paging, n)) {
      choose_rows(paging, n, rows);
    } else if (out < known && paging->chosen[out]) {
      widen_result(paging, n);
    }
  }
}

static void page_method(const paging *paging) {
  draft *draft = paging->draft;
  const ir_int_or_vid length = value_size(length_of(paging)), rows = value_size(paging->rows),
                      table[] = {value_size(paging->sequences), value_size(paging->width)};
  bool last = returns_last(paging);
  uint32_t sequence = draft_input(draft, paging->method, DTYPE_I32, &length, 1, "sequence");
  uint32_t pages = draft_input(draft, paging->method, DTYPE_I32, table, 2, "page_table");
  uint32_t chosen =
      last ? draft_input(draft, paging->method, DTYPE_I64, &rows, 1, "rows") : IR_NONE;
  if (draft->no_memory) return;
  page_nodes(paging, sequence, pages, chosen);
  draft_set_shape(draft, page_cache_input_of(paging, 1), &length, 1);
  paging->method->metadata = ""; /* the old metadata describes the old inputs to Python */
}

uint32_t page_caches(draft *draft, const pass_env *env) {
  (void)env;
  paging paging = {.draft = draft};
  if (!can_page(&paging)) return 0;
  paging.pages = draft_value(draft, PAGES, 1, MAX_PAGES);
  paging.sequences = draft_value(draft, "sequences", 1, MAX_SEQUENCES);
  paging.width = draft_value(draft, "page_table_width", 1, MAX_PAGES);
  paging.rows = draft_value(draft, "rows", 1, MAX_ROWS);
  if (!draft->no_memory) page_state(&paging);
  for (uint32_t i = 0; i < draft->ir.methods.count && !draft->no_memory; i++) {
    paging.method = &draft->ir.methods.items[i];
    page_method(&paging);
  }
  return 1;
}
