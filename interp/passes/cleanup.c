/* Removes dead code and casts that cancel. */
#include <string.h>

#include "interp/passes/passes.h"

/* ---------------------------------------------------------------- dead code */

typedef struct value_uses {
  uint32_t *n; /* by Vid */
  int by;      /* amount to add per use */
} value_uses;

static bool count_value(void *ctx, uint32_t vid, bool written) {
  value_uses *uses = ctx;
  if (!written) uses->n[vid] += (uint32_t)uses->by;
  return true;
}

static void count_shapes(const draft *draft, uint32_t *count) {
  for (uint32_t i = 0; i < draft->n_slots; i++) {
    const ir_int_or_vids *shape = &draft->slots[i].tensor.shape;
    bool needed =
        draft->slots[i].kind != SLOT_TEMPORARY || draft->slots[i].writer || draft->slots[i].kept;
    for (uint32_t k = 0; needed && k < shape->count; k++)
      if (shape->items[k].vid != IR_NONE) count[shape->items[k].vid]++;
  }
  for (uint32_t m = 0; m < draft->ir.methods.count; m++) {
    const ir_arguments *outputs = &draft->ir.methods.items[m].outputs;
    for (uint32_t i = 0; i < outputs->count; i++)
      if (outputs->items[i].value != IR_NONE) count[outputs->items[i].value]++;
  }
}

static uint32_t written_value(const draft_node *node) {
  if (node->ins.op_type == IR_OP_INT_SCALAR) return ((const ir_int_scalar *)node->ins.op)->out;
  if (node->ins.op_type == IR_OP_ITEM) return ((const ir_item *)node->ins.op)->out;
  return node->ins.op_type == IR_OP_SCALAR ? ((const ir_scalar *)node->ins.op)->out : IR_NONE;
}

/* Removes host scalars that nothing reads. */
static void remove_dead_values(draft *draft) {
  value_uses uses = {draft_alloc(draft, (size_t)draft->ir.values.count + 1, sizeof *uses.n), 1};
  if (!uses.n) return;
  for (draft_node *n = draft_first(draft, 0); n; n = draft_next(draft, n))
    (void)for_each_value(&n->ins, count_value, &uses);
  count_shapes(draft, uses.n);
  uses.by = -1;
  for (uint32_t c = draft->ir.chains.count; c-- > 0;) {
    for (draft_node *n = draft->chains[c].last, *before; n; n = before) {
      uint32_t out = written_value(n);
      before = n->prev;
      if (out == IR_NONE || uses.n[out]) continue;
      (void)for_each_value(&n->ins, count_value, &uses);
      draft_remove(draft, n);
    }
  }
}

static uint32_t cleanup_count_nodes(const draft *draft) {
  uint32_t n = 0;
  for (draft_node *i = draft_first(draft, 0); i; i = draft_next(draft, i)) n++;
  return n;
}

uint32_t remove_dead_code(draft *draft, const pass_env *env) {
  uint32_t before_all = cleanup_count_nodes(draft);
  (void)env;
  for (uint32_t c = draft->ir.chains.count; c-- > 0;) {
    for (draft_node *n = draft->chains[c].last; n;) {
      draft_node *before = n->prev, *after = n->next;
      draft_erase(draft, n);
      /* Erasing n may have erased nodes before it, too. */
      n = !n->erased ? before : after ? after->prev : draft->chains[c].last;
    }
  }
  remove_dead_values(draft);
  return before_all - cleanup_count_nodes(draft);
}

/* ---------------------------------------------------------------- casts */

/* True if `wide` can represent every value of t. */
static bool can_represent(dtype wide, dtype t) {
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

/* Removes a cast to a type that can represent all values and the cast back. */
uint32_t cancel_casts(draft *draft, const pass_env *env) {
  uint32_t done = 0;
  (void)env;
  for (draft_node *n = draft_first(draft, 0), *next; n && !draft->no_memory; n = next) {
    next = draft_next(draft, n);
    uint32_t out = result_of(n), middle = out == IR_NONE ? IR_NONE : cast_of(draft, out);
    uint32_t x = middle == IR_NONE ? IR_NONE : cast_of(draft, middle);
    if (middle != IR_NONE && draft_type(draft, middle) == draft_type(draft, out)) x = middle;
    if (x == IR_NONE || draft_type(draft, x) != draft_type(draft, out)) continue;
    if (x != middle && !can_represent(draft_type(draft, middle), draft_type(draft, x))) continue;
    if (!draft_can_replace(draft, x, out)) continue;
    draft_replace(draft, out, x);
    done++;
  }
  return done;
}
