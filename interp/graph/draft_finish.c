/* A draft made into a program: outputs in slots of their own, slots numbered by kind, what nothing
 * needs left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp/graph/draft.h"
#include "serialize/copy.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

enum { N_KINDS = SLOT_TEMPORARY + 1 };

typedef struct finish {
  draft *d;
  ir_program p;    /* what is made, in the draft's numbers; borrows from the draft */
  uint32_t *slots; /* new numbers; IR_NONE: left out */
  uint32_t *values;
  const void **data; /* of the new constants */
} finish;

/* ---------------------------------------------------------------- outputs */

static uint32_t copy_to_output(draft *d, uint32_t chain, uint32_t x, const char *name) {
  uint32_t out = draft_slot_like(d, x, name);
  ir_copy *o = draft_insert(d, chain, NULL, name, IR_OP_COPY);
  *o = (ir_copy){.x = x, .out = out};
  draft_note_last(d, chain);
  return out;
}

/* A tensor that an instruction of the method's own chain writes, and that is no output yet, can be
 * one; others are copied. */
static void claim_outputs(draft *d, const ir_method *m) {
  for (uint32_t i = 0; i < m->outputs.count && !d->no_memory; i++) {
    ir_argument *a = &m->outputs.items[i];
    if (a->tensor == IR_NONE) continue;
    const draft_slot *s = &d->slots[a->tensor];
    if (s->kind != SLOT_TEMPORARY || !s->writer || s->writer->chain != m->chain) {
      uint32_t copy = copy_to_output(d, m->chain, a->tensor, a->name);
      if (copy == IR_NONE) return;
      a->tensor = copy;
    }
    d->slots[a->tensor].kind = SLOT_OUTPUT;
  }
}

/* ---------------------------------------------------------------- numbers */

static bool is_needed(const draft_slot *s) {
  switch (s->kind) {
    case SLOT_CONSTANT:
      return s->n_readers || s->kept;
    case SLOT_TEMPORARY:
      return s->writer || s->kept;
    default:
      return true;
  }
}

static void number_slot(finish *f, uint32_t old, uint32_t *n) {
  f->slots[old] = *n;
  f->p.tensors.items[(*n)++] = f->d->slots[old].t;
}

/* Outputs in the order of their methods; the others in the draft's. */
static void number_kind(finish *f, slot_kind kind, uint32_t *n) {
  const draft *d = f->d;
  const ir_methods *methods = &d->ir.methods;
  for (uint32_t m = 0; kind == SLOT_OUTPUT && m < methods->count; m++) {
    const ir_arguments *outputs = &methods->items[m].outputs;
    for (uint32_t i = 0; i < outputs->count; i++)
      if (outputs->items[i].tensor != IR_NONE) number_slot(f, outputs->items[i].tensor, n);
  }
  for (uint32_t i = 0; kind != SLOT_OUTPUT && i < d->n_slots; i++)
    if (d->slots[i].kind == kind && is_needed(&d->slots[i])) number_slot(f, i, n);
}

static void fill_constants(finish *f) {
  for (uint32_t i = 0; i < f->d->n_slots; i++) {
    const draft_slot *s = &f->d->slots[i];
    if (s->kind != SLOT_CONSTANT || f->slots[i] == IR_NONE) continue;
    f->p.constants.items[f->slots[i]].name = s->t.name;
    f->data[f->slots[i]] = s->data;
  }
}

static void number_slots(finish *f) {
  uint32_t n = 0, ends[N_KINDS];
  draft *d = f->d;
  f->slots = draft_alloc(d, (size_t)d->n_slots + 1, sizeof *f->slots);
  f->p.tensors.items = draft_alloc(d, (size_t)d->n_slots + 1, sizeof *f->p.tensors.items);
  f->p.constants.items = draft_alloc(d, (size_t)d->n_slots + 1, sizeof *f->p.constants.items);
  f->data = draft_alloc(d, (size_t)d->n_slots + 1, sizeof *f->data);
  if (d->no_memory) return;
  memset(f->slots, 0xff, d->n_slots * sizeof *f->slots);
  for (int kind = 0; kind < N_KINDS; kind++) {
    number_kind(f, (slot_kind)kind, &n);
    ends[kind] = n;
  }
  f->p.tensors.count = n;
  f->p.constants.count = ends[SLOT_CONSTANT];
  f->p.n_inputs = ends[SLOT_INPUT] - ends[SLOT_CONSTANT];
  f->p.n_outputs = ends[SLOT_OUTPUT] - ends[SLOT_INPUT];
  f->p.n_state = ends[SLOT_STATE] - ends[SLOT_OUTPUT];
  fill_constants(f);
}

static bool mark_value(void *ctx, uint32_t vid, bool written) {
  finish *f = ctx;
  (void)written;
  if (vid != IR_NONE) f->values[f->d->value_alias[vid]] = 0;
  return true;
}

static void mark_values(finish *f) {
  for (draft_node *n = draft_first(f->d, 0); n; n = draft_next(f->d, n))
    (void)for_each_value(&n->ins, mark_value, f);
  for (uint32_t i = 0; i < f->p.tensors.count; i++) {
    const ir_int_or_vids *shape = &f->p.tensors.items[i].shape;
    for (uint32_t k = 0; k < shape->count; k++) (void)mark_value(f, shape->items[k].vid, false);
  }
  for (uint32_t m = 0; m < f->p.methods.count; m++) {
    const ir_arguments *lists[] = {&f->p.methods.items[m].inputs, &f->p.methods.items[m].outputs};
    for (int l = 0; l < 2; l++)
      for (uint32_t i = 0; i < lists[l]->count; i++)
        (void)mark_value(f, lists[l]->items[i].value, false);
  }
}

static void number_values(finish *f) {
  draft *d = f->d;
  uint32_t n = d->ir.values.count, kept = 0;
  f->values = draft_alloc(d, (size_t)n + 1, sizeof *f->values);
  f->p.values.items = draft_alloc(d, (size_t)n + 1, sizeof *f->p.values.items);
  if (d->no_memory) return;
  memset(f->values, 0xff, n * sizeof *f->values);
  mark_values(f);
  for (uint32_t i = 0; i < n; i++) {
    if (f->values[i] == IR_NONE) continue;
    f->p.values.items[kept] = d->ir.values.items[i];
    f->values[i] = kept++;
  }
  for (uint32_t i = 0; i < n; i++) f->values[i] = f->values[d->value_alias[i]];
  f->p.values.count = kept;
}

/* ---------------------------------------------------------------- the program */

static void list_instructions(finish *f) {
  draft *d = f->d;
  for (uint32_t c = 0; c < d->ir.chains.count; c++) {
    uint32_t n = 0;
    for (draft_node *i = d->chains[c].first; i; i = i->next) n++;
    ir_instruction *list = draft_alloc(d, (size_t)n + 1, sizeof *list);
    if (!list) return;
    n = 0;
    for (draft_node *i = d->chains[c].first; i; i = i->next) list[n++] = i->ins;
    f->p.chains.items[c].instructions = (ir_instructions){list, n};
  }
}

static clave_status fill_program(finish *f, program *p) {
  table_numbers to = {.tensors = f->slots,
                      .n_tensors = f->d->n_slots,
                      .values = f->values,
                      .n_values = f->d->ir.values.count};
  TRY(table_copy(p->pool, &ir_program_table, &f->p, &p->ir));
  table_renumber(&to, &ir_program_table, &p->ir);
  p->ir.version = needed_version(&p->ir);
  p->ir.consts_hash = 0;
  TRY(verify_program(p));
  TRY(alloc_constants(p));
  for (uint32_t i = 0; i < p->ir.constants.count; i++) TRY(bind_constant(p, i, f->data[i]));
  return NULL;
}

clave_status draft_finish(draft *d, program **out) {
  program *p;
  *out = NULL;
  for (uint32_t m = 0; m < d->ir.methods.count; m++) claim_outputs(d, &d->ir.methods.items[m]);
  finish f = {.d = d, .p = d->ir};
  if (!d->no_memory) number_slots(&f);
  if (!d->no_memory) number_values(&f);
  if (!d->no_memory) list_instructions(&f);
  if (d->no_memory) return status_no_memory();
  TRY(program_new(&p));
  clave_status st = fill_program(&f, p);
  if (st) {
    program_destroy(p);
    return st;
  }
  *out = p;
  return NULL;
}

/* ---------------------------------------------------------------- a part of it */

static void copy_node(draft *e, const draft_node *n) {
  draft_node *copy = draft_alloc(e, 1, sizeof *copy);
  if (!copy) return;
  copy->ins = n->ins;
  draft_link(e, copy, NULL);
  draft_note_last(e, 0);
}

/* Pushes the writers in d of what n reads and e does not have yet; how many. */
static size_t push_writers(const draft *d, draft *e, const draft_node *n, draft_node ***stack,
                           size_t *size, size_t *capacity) {
  size_t before = *size;
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    draft_node *writer = d->slots[i.o.tid].writer;
    if ((i.o.flags & IR_OUT) || !writer || e->slots[i.o.tid].writer) continue;
    if (!array_reserve(stack, capacity, *size + 1, sizeof **stack)) e->no_memory = true;
    if (e->no_memory) break;
    (*stack)[(*size)++] = writer;
  }
  return *size - before;
}

/* What slot `tid` of d is computed by, in an order in which it can run, onto e's chain. */
static void extract_slot(const draft *d, draft *e, uint32_t tid) {
  draft_node **stack = NULL;
  size_t n = 0, capacity = 0;
  if (!d->slots[tid].writer) return;
  if (array_reserve(&stack, &capacity, 1, sizeof *stack)) {
    stack[n++] = d->slots[tid].writer;
  } else {
    e->no_memory = true;
  }
  while (n && !e->no_memory) {
    const draft_node *top = stack[n - 1];
    if (push_writers(d, e, top, &stack, &n, &capacity)) continue;
    n--;
    if (!e->slots[first_slot(&top->ins, true)].writer) copy_node(e, top);
  }
  free(stack);
}

/* An empty program with one method and its chain. */
static void begin_part(draft *e, const uint32_t *tids, uint32_t n) {
  enum { DIGITS = 12 };
  ir_chain *chain = draft_alloc(e, 1, sizeof *chain);
  ir_method *method = draft_alloc(e, 1, sizeof *method);
  ir_argument *outputs = draft_alloc(e, (size_t)n + 1, sizeof *outputs);
  char *names = draft_alloc(e, (size_t)n + 1, DIGITS);
  if (e->no_memory) return;
  for (uint32_t i = 0; i < n; i++) {
    (void)snprintf(names + (size_t)i * DIGITS, DIGITS, "%u", i);
    outputs[i] = (ir_argument){names + (size_t)i * DIGITS, tids[i], IR_NONE};
  }
  *chain = (ir_chain){.name = "part"};
  *method = (ir_method){.name = "part", .outputs = {outputs, n}, .metadata = ""};
  e->ir.chains = (ir_chains){chain, 1};
  e->ir.methods = (ir_methods){method, 1};
  e->ir.state_inits = (ir_state_inits){NULL, 0};
  e->ir.metadata = "";
}

clave_status draft_extract(draft *d, const uint32_t *tids, uint32_t n, program **out) {
  draft e = *d; /* in d's pool, with slots and a chain of its own */
  *out = NULL;
  e.slot_capacity = (size_t)d->n_slots + n + 1;
  e.slots = draft_alloc(d, e.slot_capacity, sizeof *e.slots);
  e.chains = draft_alloc(d, 1, sizeof *e.chains);
  if (d->no_memory) return status_no_memory();
  for (uint32_t i = 0; i < d->n_slots; i++) {
    const draft_slot *s = &d->slots[i];
    slot_kind kind = s->kind == SLOT_CONSTANT ? SLOT_CONSTANT : SLOT_TEMPORARY;
    e.slots[i] = (draft_slot){.t = s->t, .kind = kind, .data = s->data};
  }
  begin_part(&e, tids, n);
  for (uint32_t i = 0; i < n && !e.no_memory; i++) extract_slot(d, &e, tids[i]);
  return draft_finish(&e, out);
}
