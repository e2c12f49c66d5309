/* What depends on constants alone is computed once, by the CPU backend, unless that would make a
 * large tensor of small ones. Views of a constant stay views; what is one number in all elements
 * becomes an immediate of the elementwise nodes that read it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

enum {
  SMALL = 1 << 20, /* bytes: what a result may take where it is more than what it is made of */
  TINY = 1 << 16,  /* bytes: up to it a part of a constant is a constant of its own, which kernels
                      read without a copy */
  NARROW = 1 << 10 /* bytes: 8-bit numbers of more are stored so on purpose, and never widened */
};

typedef struct folding {
  draft *d;
  bool *known;      /* by slot: depends on constants alone */
  uint32_t n_known; /* how many slots that array has */
  uint64_t *given;  /* by slot: bytes of the constants that it is made of */
  bool *narrow;     /* by slot: one of those is of 8-bit numbers */
  uint32_t *slots;  /* to be computed */
  uint32_t n;
} folding;

static uint64_t bytes_of(const draft *d, uint32_t tid) {
  tensor t;
  size_t n;
  return draft_fixed(d, tid, &t) && tensor_bytes(&t, &n) ? n : UINT64_MAX;
}

static bool is_slot_known(const folding *f, uint32_t tid) {
  return tid < f->n_known && f->known[tid];
}

/* ---------------------------------------------------------------- what is known */

static bool no_values(void *ctx, uint32_t vid, bool written) {
  (void)ctx;
  (void)vid;
  (void)written;
  return false;
}

static bool is_known_node(const folding *f, const draft_node *n) {
  tensor t;
  const op_info *info = &op_table[n->ins.op_type];
  if (info->is_host || info->is_control || n->ins.op_type == IR_OP_RANDOM) return false;
  if (!for_each_value(&n->ins, no_values, NULL)) return false;
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    bool out = (i.o.flags & IR_OUT) != 0;
    if (out ? !draft_fixed(f->d, i.o.tid, &t) : !f->known[i.o.tid]) return false;
  }
  return true;
}

static void note_known(folding *f, const draft_node *n) {
  uint64_t given = 0;
  bool narrow = false;
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    if (i.o.flags & IR_OUT) continue;
    given += f->given[i.o.tid];
    narrow = narrow || f->narrow[i.o.tid];
  }
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    if (!(i.o.flags & IR_OUT)) continue;
    f->known[i.o.tid] = true;
    f->given[i.o.tid] = given;
    f->narrow[i.o.tid] = narrow;
  }
}

static void find_known(folding *f) {
  draft *d = f->d;
  for (uint32_t i = 0; i < f->n_known; i++) {
    const draft_slot *s = &d->slots[i];
    if (s->kind != SLOT_CONSTANT) continue;
    f->known[i] = !s->t.encoding;
    f->given[i] = bytes_of(d, i);
    bool is_8_bit = dtype_size(s->t.dtype) == 1 && s->t.dtype != DTYPE_BOOL;
    f->narrow[i] = is_8_bit && f->given[i] > NARROW;
  }
  for (draft_node *n = draft_first(d, 0); n; n = draft_next(d, n))
    if (is_known_node(f, n)) note_known(f, n);
}

/* ---------------------------------------------------------------- what is computed */

static bool stays_view(const draft_node *n, uint64_t bytes) {
  switch (n->ins.op_type) {
    case IR_OP_RESHAPE:
    case IR_OP_PERMUTE:
    case IR_OP_EXPAND:
    case IR_OP_FULL:
    case IR_OP_COPY:
      return true;
    default:
      return op_table[n->ins.op_type].is_view && bytes > TINY;
  }
}

static bool is_worth_it(const folding *f, const draft_node *n) {
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    if (!(i.o.flags & IR_OUT)) continue;
    uint64_t bytes = bytes_of(f->d, i.o.tid), given = f->given[i.o.tid];
    if (stays_view(n, bytes) || (bytes > given && (bytes > SMALL || f->narrow[i.o.tid])))
      return false;
  }
  return true;
}

/* Does something that is not known itself read it? */
static bool is_needed(const folding *f, uint32_t tid) {
  const draft_slot *s = &f->d->slots[tid];
  bool needed = s->kept > 0;
  for (uint32_t i = 0; i < s->n_readers && !needed; i++)
    needed = !is_slot_known(f, result_of(s->readers[i]));
  return needed;
}

static bool has_known_result(const folding *f, const draft_node *n) {
  return result_of(n) != IR_NONE && !op_table[n->ins.op_type].is_control &&
         is_slot_known(f, result_of(n));
}

/* From the last to the first: what is not worth it is known no more, so its operands may be. */
static void choose_in_chain(folding *f, const draft_chain *c) {
  for (draft_node *n = c->last; n; n = n->prev) {
    if (!has_known_result(f, n)) continue;
    bool needed = false;
    for (operand_iter i = operands_of(&n->ins); next_operand(&i);)
      needed = needed || ((i.o.flags & IR_OUT) && is_needed(f, i.o.tid));
    if (!needed) continue;
    bool worth = is_worth_it(f, n);
    for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
      if (!(i.o.flags & IR_OUT)) continue;
      if (!worth) f->known[i.o.tid] = false;
      if (worth && is_needed(f, i.o.tid)) f->slots[f->n++] = i.o.tid;
    }
  }
}

/* Bodies stand behind the chains that run them. */
static void choose(folding *f) {
  for (uint32_t c = f->d->ir.chains.count; c-- > 0;) choose_in_chain(f, &f->d->chains[c]);
}

/* ---------------------------------------------------------------- replacing */

static uint32_t add_full(draft *d, draft_node *before, uint32_t like, const void *element) {
  dtype type = draft_type(d, like);
  uint32_t out = draft_slot_like(d, like, before->ins.name);
  ir_full *o = draft_add(d, before, IR_OP_FULL);
  o->out = out;
  if (dtype_is_float(type)) {
    o->value = (ir_float_or_vid){element_of(type, element, 0), IR_NONE, true};
  } else {
    int64_t i =
        type == DTYPE_I64 ? *(const int64_t *)element : (int64_t)element_of(type, element, 0);
    o->int_value = literal_size(i);
  }
  draft_note(d, before);
  return out;
}

/* Are all elements the same number that a Full may have, and no NaN? */
static bool is_one_number(const tensor *t, const void *data) {
  return !dtype_is_stored(t->type) && is_uniform(t, data) && !isnan(element_of(t->type, data, 0));
}

/* What a method or a body gives is written by an instruction. */
static uint32_t add_copy(draft *d, draft_node *before, uint32_t x) {
  uint32_t out = draft_slot_like(d, x, before->ins.name);
  ir_copy *o = draft_add(d, before, IR_OP_COPY);
  *o = (ir_copy){.x = x, .out = out};
  draft_note(d, before);
  return out;
}

static bool replace_slot(folding *f, uint32_t tid, const void *data) {
  tensor t;
  draft *d = f->d;
  draft_node *n = d->slots[tid].writer;
  if (!n || !draft_fixed(d, tid, &t)) return false;
  const ir_int_or_vids *shape = &d->slots[tid].t.shape;
  uint32_t to = is_one_number(&t, data)
                    ? add_full(d, n, tid, data)
                    : draft_constant(d, t.type, shape->items, t.rank, n->ins.name, data);
  if (to != IR_NONE && !draft_can_stand_for(d, to, tid)) to = add_copy(d, n, to);
  if (to == IR_NONE) return false;
  draft_replace(d, tid, to);
  return true;
}

static uint32_t compute(folding *f, const pass_env *env) {
  uint32_t done = 0;
  program *p;
  void **outputs = calloc((size_t)f->n + 1, sizeof *outputs);
  bool good = outputs != NULL;
  for (uint32_t i = 0; i < f->n && good; i++)
    good = (outputs[i] = calloc(1, (size_t)bytes_of(f->d, f->slots[i]) + 1)) != NULL;
  clave_status st = good ? draft_extract(f->d, f->slots, f->n, &p) : status_no_memory();
  if (!st) st = env->evaluate(env->ctx, p, outputs);
  for (uint32_t i = 0; i < f->n && !st; i++) done += replace_slot(f, f->slots[i], outputs[i]);
  for (uint32_t i = 0; i < f->n && outputs; i++) free(outputs[i]);
  free(outputs);
  status_free(st); /* what cannot be computed now stays as it is */
  return done;
}

uint32_t fold_constants(draft *d, const pass_env *env) {
  size_t n = (size_t)d->n_slots + 1;
  folding f = {.d = d, .n_known = d->n_slots};
  f.known = draft_alloc(d, n, sizeof *f.known);
  f.given = draft_alloc(d, n, sizeof *f.given);
  f.narrow = draft_alloc(d, n, sizeof *f.narrow);
  f.slots = draft_alloc(d, n, sizeof *f.slots);
  if (d->no_memory || !env->evaluate) return 0;
  find_known(&f);
  choose(&f);
  return f.n ? compute(&f, env) : 0;
}

/* ---------------------------------------------------------------- immediates */

/* Does the node's result keep its shape without input `i`? */
static bool shape_without(const draft *d, const ir_elementwise *e, uint32_t i) {
  int rank = 0; /* the others' largest */
  for (uint32_t k = 0; k < e->inputs.count; k++)
    if (k != i && draft_rank(d, e->inputs.items[k]) > rank)
      rank = draft_rank(d, e->inputs.items[k]);
  if (rank < draft_rank(d, e->out)) return false;
  for (int axis = 0; axis < draft_rank(d, e->out); axis++) {
    bool found = size_is(draft_size(d, e->out, axis), 1);
    int from_end = draft_rank(d, e->out) - axis;
    for (uint32_t k = 0; k < e->inputs.count && !found; k++) {
      uint32_t x = e->inputs.items[k];
      found = k != i && draft_rank(d, x) >= from_end &&
              same_size(draft_size(d, x, -from_end), draft_size(d, e->out, axis));
    }
    if (!found) return false;
  }
  return true;
}

/* The Full that all of x's elements are, as an immediate of its dtype. */
static bool immediate_of(const draft *d, uint32_t x, ir_operand *out) {
  const ir_full *f = draft_op(d, draft_through(d, x, THROUGH_RESHAPE | THROUGH_EXPAND), IR_OP_FULL);
  if (!f) return false;
  if (dtype_is_float(draft_type(d, x)) && f->value.present && f->value.vid == IR_NONE) {
    *out = (ir_operand){.source = IR_OPERAND_SOURCE_FLOAT, .f = f->value.literal};
    return true;
  }
  *out = (ir_operand){.source = IR_OPERAND_SOURCE_INT, .i = f->int_value.literal};
  return !dtype_is_float(draft_type(d, x)) && f->int_value.present && f->int_value.vid == IR_NONE;
}

/* Is input i nowhere but where a number can stand? A cast, a condition and a comparison of numbers
 * alone would not know its dtype. */
static bool takes_number(const ir_elementwise *e, uint32_t i) {
  for (uint32_t s = 0; s < e->steps.count; s++) {
    const ir_step *step = &e->steps.items[s];
    bool is_read = false, has_other = step_table[step->kind].result != STEP_BOOL;
    for (uint32_t k = 0; k < step->operands.count; k++) {
      const ir_operand *o = &step->operands.items[k];
      bool is_i = o->source == IR_OPERAND_SOURCE_INPUT && o->index == i;
      if (is_i && step->kind == IR_STEP_KIND_WHERE && k == 0) return false;
      is_read = is_read || is_i;
      has_other = has_other || (!is_i && o->source <= IR_OPERAND_SOURCE_STEP);
    }
    if (is_read && (step->operands.count < 2 || !has_other)) return false;
  }
  return true;
}

static void renumber_input(ir_operand *o, uint32_t i, ir_operand value) {
  if (o->source != IR_OPERAND_SOURCE_INPUT) return;
  if (o->index == i)
    *o = value;
  else if (o->index > i)
    o->index--;
}

/* The node with input i as an immediate: a new one, which takes over the steps. */
static void write_immediate(draft *d, draft_node *n, uint32_t i, ir_operand value) {
  const ir_elementwise *e = n->ins.op;
  uint32_t out = draft_slot_like(d, e->out, n->ins.name);
  uint32_t *inputs = draft_alloc(d, e->inputs.count, sizeof *inputs), count = 0;
  ir_elementwise *made = draft_add(d, n, IR_OP_ELEMENTWISE);
  if (d->no_memory) return;
  for (uint32_t k = 0; k < e->inputs.count; k++)
    if (k != i) inputs[count++] = e->inputs.items[k];
  for (uint32_t s = 0; s < e->steps.count; s++)
    for (uint32_t k = 0; k < e->steps.items[s].operands.count; k++)
      renumber_input(&e->steps.items[s].operands.items[k], i, value);
  *made = (ir_elementwise){.inputs = {inputs, count}, .steps = e->steps, .out = out};
  draft_note(d, n);
  draft_replace(d, e->out, out);
}

static bool fold_number(draft *d, draft_node *n) {
  const ir_elementwise *e = n->ins.op;
  ir_operand value;
  if (n->ins.op_type != IR_OP_ELEMENTWISE || e->inputs.count < 2) return false;
  for (uint32_t i = 0; i < e->inputs.count; i++) {
    if (!immediate_of(d, e->inputs.items[i], &value) || !takes_number(e, i) ||
        !shape_without(d, e, i))
      continue;
    write_immediate(d, n, i, value);
    return true;
  }
  return false;
}

uint32_t fold_numbers(draft *d, const pass_env *env) {
  uint32_t done = 0;
  (void)env;
  for (uint32_t c = 0; c < d->ir.chains.count; c++) {
    for (draft_node *n = d->chains[c].last; n && !d->no_memory;) {
      draft_node *after = n->next, *before = n->prev;
      bool found = fold_number(d, n);
      done += found;
      n = !found ? before : after ? after->prev : d->chains[c].last; /* the new one, once more */
    }
  }
  return done;
}
