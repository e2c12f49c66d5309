/* Caches of attention become as long as a session says: their rows, which are as many as the
 * context has tokens, become a value that stands in the shapes of state, "context".
 *
 * A cache is a state tensor, zeros at first, that one AttentionCached without a window reads, and
 * that becomes what that op gives of it. Caches that are shorter than others, rings of a window,
 * stay as they are. */
#include <string.h>

#include "interp/passes/passes.h"

enum { ROWS = 2 }; /* axis of (B, n_kv, rows, head_dim) and of (B, n_kv, rows) */
#define NAME "context"

/* What an AttentionCached gives of a cache that it reads; IR_NONE: it reads it as something else,
 * or more than once. */
static uint32_t cache_after(const draft_node *n, uint32_t tid) {
  const ir_attention_cached *o = n->ins.op;
  if (n->ins.op_type != IR_OP_ATTENTION_CACHED || o->window.present) return IR_NONE;
  const uint32_t in[] = {o->key_cache, o->value_cache, o->key_scale, o->value_scale};
  const uint32_t out[] = {o->key_cache_out, o->value_cache_out, o->key_scale_out,
                          o->value_scale_out};
  const uint32_t others[] = {o->q, o->k, o->v, o->position};
  uint32_t found = IR_NONE;
  for (int i = 0; i < 4; i++) {
    if (others[i] == tid || (in[i] == tid && found != IR_NONE)) return IR_NONE;
    if (in[i] == tid) found = out[i];
  }
  return found;
}

/* Nothing needs what the op gives but the state that it becomes. */
static bool is_update(const draft *d, uint32_t state, uint32_t value) {
  uint32_t n = 0;
  for (uint32_t m = 0; m < d->ir.methods.count; m++) {
    const ir_state_updates *updates = &d->ir.methods.items[m].updates;
    for (uint32_t i = 0; i < updates->count; i++)
      n += updates->items[i].value == value && updates->items[i].state == state;
  }
  return n == 1 && d->slots[value].kept == 1 && d->slots[value].n_readers == 0;
}

static uint32_t count_updates(const draft *d, uint32_t state) {
  uint32_t n = 0;
  for (uint32_t m = 0; m < d->ir.methods.count; m++)
    for (uint32_t i = 0; i < d->ir.methods.items[m].updates.count; i++)
      n += d->ir.methods.items[m].updates.items[i].state == state;
  return n;
}

static bool has_initial(const draft *d, uint32_t state) {
  for (uint32_t i = 0; i < d->ir.state_inits.count; i++)
    if (d->ir.state_inits.items[i].state == state) return true;
  return false;
}

bool is_cache(const draft *d, uint32_t tid) {
  const draft_slot *s = &d->slots[tid];
  if (s->kind != SLOT_STATE || !s->n_readers || s->kept || has_initial(d, tid)) return false;
  if (draft_rank(d, tid) <= ROWS) return false;
  for (uint32_t i = 0; i < s->n_readers; i++) {
    uint32_t after = cache_after(s->readers[i], tid);
    if (after == IR_NONE || !is_update(d, tid, after)) return false;
  }
  return count_updates(d, tid) == s->n_readers;
}

/* Its rows; 0: it is no cache that may have others. */
static int64_t cache_rows(const draft *d, uint32_t tid) {
  tensor t;
  bool fixed = is_cache(d, tid) && draft_fixed(d, tid, &t);
  return fixed && t.dims[ROWS] > 1 ? t.dims[ROWS] : 0;
}

static int64_t longest_cache(const draft *d) {
  int64_t most = 0;
  for (uint32_t i = 0; i < d->n_slots; i++) {
    int64_t rows = cache_rows(d, i);
    if (rows > most) most = rows;
  }
  return most;
}

static bool is_named(const draft *d, const char *name) {
  for (uint32_t i = 0; i < d->ir.values.count; i++)
    if (strcmp(d->ir.values.items[i].name, name) == 0) return true;
  return false;
}

/* The cache and what it becomes. */
static void open_cache(draft *d, uint32_t tid, uint32_t value) {
  const draft_slot *s = &d->slots[tid];
  for (uint32_t i = 0; i < s->n_readers; i++)
    draft_set_size(d, cache_after(s->readers[i], tid), ROWS, value);
  draft_set_size(d, tid, ROWS, value);
}

uint32_t open_caches(draft *d, const pass_env *env) {
  (void)env;
  int64_t rows = longest_cache(d);
  uint32_t n = 0, value = IR_NONE;
  if (!rows || is_named(d, NAME)) return 0;
  for (uint32_t i = 0; i < d->n_slots && !d->no_memory; i++) {
    if (cache_rows(d, i) != rows) continue;
    if (!n++) value = draft_value(d, NAME, 1, rows);
    if (!d->no_memory) open_cache(d, i, value);
  }
  return n;
}
