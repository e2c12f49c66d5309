/* Lets sessions choose the length of attention caches: in the shapes of state, the value "context"
 * replaces the number of rows, which is the number of tokens of the context.
 *
 * A cache is a state tensor, zero initially, that an AttentionCached without a window reads and
 * updates. Shorter caches, such as ring buffers of a window, are not changed. */
#include <string.h>

#include "interp/passes/passes.h"

enum { ROWS = 2 }; /* axis of (B, n_kv, rows, head_dim) and of (B, n_kv, rows) */
#define NAME "context"

/* Returns the updated version of the cache `tid` that the AttentionCached writes; IR_NONE if the
 * node reads the slot in another role or more than once. */
static uint32_t cache_after(const draft_node *node, uint32_t tid) {
  const ir_attention_cached *op = node->ins.op;
  if (node->ins.op_type != IR_OP_ATTENTION_CACHED || op->window.present) return IR_NONE;
  const uint32_t in[] = {op->key_cache, op->value_cache, op->key_scale, op->value_scale};
  const uint32_t out[] = {op->key_cache_out, op->value_cache_out, op->key_scale_out,
                          op->value_scale_out};
  const uint32_t others[] = {op->q, op->k, op->v, op->position};
  uint32_t found = IR_NONE;
  for (int i = 0; i < 4; i++) {
    if (others[i] == tid || (in[i] == tid && found != IR_NONE)) return IR_NONE;
    if (in[i] == tid) found = out[i];
  }
  return found;
}

/* True if the op's result is used only to update the state. */
static bool is_update(const draft *draft, uint32_t state, uint32_t value) {
  uint32_t n = 0;
  for (uint32_t m = 0; m < draft->ir.methods.count; m++) {
    const ir_state_updates *updates = &draft->ir.methods.items[m].updates;
    for (uint32_t i = 0; i < updates->count; i++)
      n += updates->items[i].value == value && updates->items[i].state == state;
  }
  return n == 1 && draft->slots[value].kept == 1 && draft->slots[value].n_readers == 0;
}

static uint32_t count_updates(const draft *draft, uint32_t state) {
  uint32_t n = 0;
  for (uint32_t m = 0; m < draft->ir.methods.count; m++)
    for (uint32_t i = 0; i < draft->ir.methods.items[m].updates.count; i++)
      n += draft->ir.methods.items[m].updates.items[i].state == state;
  return n;
}

static bool has_initial(const draft *draft, uint32_t state) {
  for (uint32_t i = 0; i < draft->ir.state_inits.count; i++)
    if (draft->ir.state_inits.items[i].state == state) return true;
  return false;
}

bool is_cache(const draft *draft, uint32_t tid) {
  const draft_slot *slot = &draft->slots[tid];
  if (slot->kind != SLOT_STATE || !slot->n_readers || slot->kept || has_initial(draft, tid))
    return false;
  if (draft_rank(draft, tid) <= ROWS) return false;
  for (uint32_t i = 0; i < slot->n_readers; i++) {
    uint32_t after = cache_after(slot->readers[i], tid);
    if (after == IR_NONE || !is_update(draft, tid, after)) return false;
  }
  return count_updates(draft, tid) == slot->n_readers;
}

/* Returns the number of rows; 0 if the slot is not a cache that can be resized. */
static int64_t open_cache_rows(const draft *draft, uint32_t tid) {
  tensor tensor;
  bool fixed = is_cache(draft, tid) && draft_fixed(draft, tid, &tensor);
  return fixed && tensor.dims[ROWS] > 1 ? tensor.dims[ROWS] : 0;
}

static int64_t longest_cache(const draft *draft) {
  int64_t most = 0;
  for (uint32_t i = 0; i < draft->n_slots; i++) {
    int64_t rows = open_cache_rows(draft, i);
    if (rows > most) most = rows;
  }
  return most;
}

static bool open_cache_is_named(const draft *draft, const char *name) {
  for (uint32_t i = 0; i < draft->ir.values.count; i++)
    if (strcmp(draft->ir.values.items[i].name, name) == 0) return true;
  return false;
}

/* Sets the rows of the cache and of its updated versions. */
static void open_cache(draft *draft, uint32_t tid, uint32_t value) {
  const draft_slot *slot = &draft->slots[tid];
  for (uint32_t i = 0; i < slot->n_readers; i++)
    draft_set_size(draft, cache_after(slot->readers[i], tid), ROWS, value);
  draft_set_size(draft, tid, ROWS, value);
}

uint32_t open_caches(draft *draft, const pass_env *env) {
  (void)env;
  int64_t rows = longest_cache(draft);
  uint32_t n = 0, value = IR_NONE;
  if (!rows || open_cache_is_named(draft, NAME)) return 0;
  for (uint32_t i = 0; i < draft->n_slots && !draft->no_memory; i++) {
    if (open_cache_rows(draft, i) != rows) continue;
    if (!n++) value = draft_value(draft, NAME, 1, rows);
    if (!draft->no_memory) open_cache(draft, i, value);
  }
  return n;
}
