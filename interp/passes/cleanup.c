/* Dead code, and casts that cancel. */
#include <string.h>

#include "interp/passes/passes.h"

/* ---------------------------------------------------------------- dead code */

typedef struct value_uses {
  uint32_t *n; /* by Vid */
  int by;      /* what is added */
} value_uses;

static bool count_value(void *ctx, uint32_t vid, bool written) {
  value_uses *u = ctx;
  if (!written) u->n[vid] += (uint32_t)u->by;
  return true;
}

static void count_shapes(const draft *d, uint32_t *n) {
  for (uint32_t i = 0; i < d->n_slots; i++) {
    const ir_int_or_vids *shape = &d->slots[i].t.shape;
    bool needed = d->slots[i].kind != SLOT_TEMPORARY || d->slots[i].writer || d->slots[i].kept;
    for (uint32_t k = 0; needed && k < shape->count; k++)
      if (shape->items[k].vid != IR_NONE) n[shape->items[k].vid]++;
  }
  for (uint32_t m = 0; m < d->ir.methods.count; m++) {
    const ir_arguments *outputs = &d->ir.methods.items[m].outputs;
    for (uint32_t i = 0; i < outputs->count; i++)
      if (outputs->items[i].value != IR_NONE) n[outputs->items[i].value]++;
  }
}

static uint32_t written_value(const draft_node *n) {
  if (n->ins.op_type == IR_OP_INT_SCALAR) return ((const ir_int_scalar *)n->ins.op)->out;
  return n->ins.op_type == IR_OP_SCALAR ? ((const ir_scalar *)n->ins.op)->out : IR_NONE;
}

/* Host scalars that nothing reads. */
static void remove_dead_values(draft *d) {
  value_uses u = {draft_alloc(d, (size_t)d->ir.values.count + 1, sizeof *u.n), 1};
  if (!u.n) return;
  for (draft_node *n = draft_first(d, 0); n; n = draft_next(d, n))
    (void)for_each_value(&n->ins, count_value, &u);
  count_shapes(d, u.n);
  u.by = -1;
  for (uint32_t c = d->ir.chains.count; c-- > 0;) {
    for (draft_node *n = d->chains[c].last, *before; n; n = before) {
      uint32_t out = written_value(n);
      before = n->prev;
      if (out == IR_NONE || u.n[out]) continue;
      (void)for_each_value(&n->ins, count_value, &u);
      draft_unlink(d, n);
    }
  }
}

static uint32_t count_nodes(const draft *d) {
  uint32_t n = 0;
  for (draft_node *i = draft_first(d, 0); i; i = draft_next(d, i)) n++;
  return n;
}

uint32_t remove_dead_code(draft *d, const pass_env *env) {
  uint32_t before_all = count_nodes(d);
  (void)env;
  for (uint32_t c = d->ir.chains.count; c-- > 0;) {
    for (draft_node *n = d->chains[c].last; n;) {
      draft_node *before = n->prev, *after = n->next;
      draft_erase(d, n);
      /* With it may have gone what stood before it. */
      n = !n->erased ? before : after ? after->prev : d->chains[c].last;
    }
  }
  remove_dead_values(d);
  return before_all - count_nodes(d);
}

/* ---------------------------------------------------------------- casts */

/* Can `wide` hold every value of t? */
static bool holds(dtype wide, dtype t) {
  static const uint16_t held[DTYPE_COUNT] = {
#define BIT(t) (1u << DTYPE_##t)
      [DTYPE_F32] = BIT(F64),
      [DTYPE_F16] = BIT(F32) | BIT(F64),
      [DTYPE_BF16] = BIT(F32) | BIT(F64),
      [DTYPE_U8] = BIT(I16) | BIT(I32) | BIT(I64),
      [DTYPE_I8] = BIT(I16) | BIT(I32) | BIT(I64),
      [DTYPE_I16] = BIT(I32) | BIT(I64),
      [DTYPE_I32] = BIT(I64),
      [DTYPE_U16] = BIT(I32) | BIT(I64) | BIT(U32) | BIT(U64),
      [DTYPE_U32] = BIT(I64) | BIT(U64),
      [DTYPE_F8_E4M3] = BIT(F16) | BIT(BF16) | BIT(F32) | BIT(F64),
      [DTYPE_F8_E5M2] = BIT(F16) | BIT(BF16) | BIT(F32) | BIT(F64),
      [DTYPE_BOOL] = BIT(U8) | BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64) | BIT(F32) | BIT(F64),
#undef BIT
  };
  return held[t] >> wide & 1;
}

/* x cast to what holds all its values and back is x. */
uint32_t cancel_casts(draft *d, const pass_env *env) {
  uint32_t done = 0;
  (void)env;
  for (draft_node *n = draft_first(d, 0), *next; n && !d->no_memory; n = next) {
    next = draft_next(d, n);
    uint32_t out = result_of(n), middle = out == IR_NONE ? IR_NONE : cast_of(d, out);
    uint32_t x = middle == IR_NONE ? IR_NONE : cast_of(d, middle);
    if (middle != IR_NONE && draft_type(d, middle) == draft_type(d, out)) x = middle;
    if (x == IR_NONE || draft_type(d, x) != draft_type(d, out)) continue;
    if (x != middle && !holds(draft_type(d, middle), draft_type(d, x))) continue;
    if (!draft_can_stand_for(d, x, out)) continue;
    draft_replace(d, out, x);
    done++;
  }
  return done;
}
