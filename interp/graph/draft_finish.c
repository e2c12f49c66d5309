/* Makes a program from a draft: assigns slots to outputs, numbers slots by kind, drops unused
 * ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp/graph/draft.h"
#include "serialize/copy.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

enum { N_KINDS = SLOT_TEMPORARY + 1 };

typedef struct finish {
  draft *draft;
  ir_program program; /* the result in the draft's numbering; borrows from the draft */
  uint32_t *slots;    /* new numbers; IR_NONE: dropped */
  uint32_t *values;
  const void **data; /* the bytes of constants, by new number */
} finish;

/* ---------------------------------------------------------------- outputs */

static uint32_t copy_to_output(draft *draft, uint32_t chain, uint32_t x, const char *name) {
  uint32_t out = draft_slot_like(draft, x, name);
  ir_copy *op = draft_insert(draft, chain, NULL, name, IR_OP_COPY);
  *op = (ir_copy){.x = x, .out = out};
  draft_note_last(draft, chain);
  return out;
}

/* Turns the tensors that the method returns into outputs. A tensor is copied if it is already an
 * output, or no instruction of the method's own chain writes it. */
static void assign_outputs(draft *draft, const ir_method *method) {
  for (uint32_t i = 0; i < method->outputs.count && !draft->no_memory; i++) {
    ir_argument *argument = &method->outputs.items[i];
    if (argument->tensor == IR_NONE) continue;
    const draft_slot *slot = &draft->slots[argument->tensor];
    if (slot->kind != SLOT_TEMPORARY || !slot->writer || slot->writer->chain != method->chain) {
      uint32_t copy = copy_to_output(draft, method->chain, argument->tensor, argument->name);
      if (copy == IR_NONE) return;
      argument->tensor = copy;
    }
    draft->slots[argument->tensor].kind = SLOT_OUTPUT;
  }
}

/* ---------------------------------------------------------------- numbers */

static bool draft_finish_is_needed(const draft_slot *slot) {
  switch (slot->kind) {
    case SLOT_CONSTANT:
      return slot->n_readers || slot->kept;
    case SLOT_TEMPORARY:
      return slot->writer || slot->kept;
    default:
      return true;
  }
}

static void number_slot(finish *finish, uint32_t old, uint32_t *count) {
  finish->slots[old] = *count;
  finish->program.tensors.items[(*count)++] = finish->draft->slots[old].tensor;
}

/* Numbers the slots of a kind: outputs by their methods, others in the order of the draft. */
static void number_kind(finish *finish, slot_kind kind, uint32_t *count) {
  const draft *draft = finish->draft;
  const ir_methods *methods = &draft->ir.methods;
  for (uint32_t m = 0; kind == SLOT_OUTPUT && m < methods->count; m++) {
    const ir_arguments *outputs = &methods->items[m].outputs;
    for (uint32_t i = 0; i < outputs->count; i++)
      if (outputs->items[i].tensor != IR_NONE) number_slot(finish, outputs->items[i].tensor, count);
  }
  for (uint32_t i = 0; kind != SLOT_OUTPUT && i < draft->n_slots; i++)
    if (draft->slots[i].kind == kind && draft_finish_is_needed(&draft->slots[i]))
      number_slot(finish, i, count);
}

static void fill_constants(finish *finish) {
  for (uint32_t i = 0; i < finish->draft->n_slots; i++) {
    const draft_slot *slot = &finish->draft->slots[i];
    if (slot->kind != SLOT_CONSTANT || finish->slots[i] == IR_NONE) continue;
    finish->program.constants.items[finish->slots[i]].name = slot->tensor.name;
    finish->data[finish->slots[i]] = slot->data;
  }
}

static void draft_finish_number_slots(finish *finish) {
  uint32_t n = 0, ends[N_KINDS];
  draft *draft = finish->draft;
  finish->slots = draft_alloc(draft, (size_t)draft->n_slots + 1, sizeof *finish->slots);
  finish->program.tensors.items =
      draft_alloc(draft, (size_t)draft->n_slots + 1, sizeof *finish->program.tensors.items);
  finish->program.constants.items =
      draft_alloc(draft, (size_t)draft->n_slots + 1, sizeof *finish->program.constants.items);
  finish->data = draft_alloc(draft, (size_t)draft->n_slots + 1, sizeof *finish->data);
  if (draft->no_memory) return;
  memset(finish->slots, 0xff, draft->n_slots * sizeof *finish->slots);
  for (int kind = 0; kind < N_KINDS; kind++) {
    number_kind(finish, (slot_kind)kind, &n);
    ends[kind] = n;
  }
  finish->program.tensors.count = n;
  finish->program.constants.count = ends[SLOT_CONSTANT];
  finish->program.n_inputs = ends[SLOT_INPUT] - ends[SLOT_CONSTANT];
  finish->program.n_outputs = ends[SLOT_OUTPUT] - ends[SLOT_INPUT];
  finish->program.n_state = ends[SLOT_STATE] - ends[SLOT_OUTPUT];
  fill_constants(finish);
}

static bool mark_value(void *ctx, uint32_t vid, bool written) {
  finish *finish = ctx;
  (void)written;
  if (vid != IR_NONE) finish->values[finish->draft->value_alias[vid]] = 0;
  return true;
}

static void mark_values(finish *finish) {
  for (draft_node *n = draft_first(finish->draft, 0); n; n = draft_next(finish->draft, n))
    (void)for_each_value(&n->ins, mark_value, finish);
  for (uint32_t i = 0; i < finish->program.tensors.count; i++) {
    const ir_int_or_vids *shape = &finish->program.tensors.items[i].shape;
    for (uint32_t k = 0; k < shape->count; k++)
      (void)mark_value(finish, shape->items[k].vid, false);
  }
  for (uint32_t m = 0; m < finish->program.methods.count; m++) {
    const ir_arguments *lists[] = {&finish->program.methods.items[m].inputs,
                                   &finish->program.methods.items[m].outputs};
    for (int l = 0; l < 2; l++)
      for (uint32_t i = 0; i < lists[l]->count; i++)
        (void)mark_value(finish, lists[l]->items[i].value, false);
  }
}

static void number_values(finish *finish) {
  draft *draft = finish->draft;
  uint32_t n = draft->ir.values.count, kept = 0;
  finish->values = draft_alloc(draft, (size_t)n + 1, sizeof *finish->values);
  finish->program.values.items =
      draft_alloc(draft, (size_t)n + 1, sizeof *finish->program.values.items);
  if (draft->no_memory) return;
  memset(finish->values, 0xff, n * sizeof *finish->values);
  mark_values(finish);
  for (uint32_t i = 0; i < n; i++) {
    if (finish->values[i] == IR_NONE) continue;
    finish->program.values.items[kept] = draft->ir.values.items[i];
    finish->values[i] = kept++;
  }
  for (uint32_t i = 0; i < n; i++) finish->values[i] = finish->values[draft->value_alias[i]];
  finish->program.values.count = kept;
}

/* ---------------------------------------------------------------- the program */

static void list_instructions(finish *finish) {
  draft *draft = finish->draft;
  for (uint32_t c = 0; c < draft->ir.chains.count; c++) {
    uint32_t n = 0;
    for (draft_node *i = draft->chains[c].first; i; i = i->next) n++;
    ir_instruction *list = draft_alloc(draft, (size_t)n + 1, sizeof *list);
    if (!list) return;
    n = 0;
    for (draft_node *i = draft->chains[c].first; i; i = i->next) list[n++] = i->ins;
    finish->program.chains.items[c].instructions = (ir_instructions){list, n};
  }
}

static clave_status draft_finish_fill_program(finish *finish, program *program) {
  table_numbers to = {.tensors = finish->slots,
                      .n_tensors = finish->draft->n_slots,
                      .values = finish->values,
                      .n_values = finish->draft->ir.values.count};
  TRY(table_copy(program->pool, &ir_program_table, &finish->program, &program->ir));
  table_renumber(&to, &ir_program_table, &program->ir);
  program->ir.version = needed_version(&program->ir);
  program->ir.consts_hash = 0;
  TRY(verify_program(program));
  TRY(alloc_constants(program));
  for (uint32_t i = 0; i < program->ir.constants.count; i++)
    TRY(bind_constant(program, i, finish->data[i]));
  return NULL;
}

clave_status draft_finish(draft *draft, program **out) {
  program *program;
  *out = NULL;
  for (uint32_t m = 0; m < draft->ir.methods.count; m++)
    assign_outputs(draft, &draft->ir.methods.items[m]);
  finish finish = {.draft = draft, .program = draft->ir};
  if (!draft->no_memory) draft_finish_number_slots(&finish);
  if (!draft->no_memory) number_values(&finish);
  if (!draft->no_memory) list_instructions(&finish);
  if (draft->no_memory) return status_no_memory();
  TRY(program_new(&program));
  clave_status st = draft_finish_fill_program(&finish, program);
  if (st) {
    program_destroy(program);
    return st;
  }
  *out = program;
  return NULL;
}

/* ---------------------------------------------------------------- extracting nodes */

static void copy_node(draft *draft, const draft_node *node) {
  draft_node *copy = draft_alloc(draft, 1, sizeof *copy);
  if (!copy) return;
  copy->ins = node->ins;
  draft_link(draft, copy, NULL);
  draft_note_last(draft, 0);
}

/* Pushes the writers of the node's operands that the extract lacks. Returns their number. */
static size_t push_writers(const draft *whole, draft *extract, const draft_node *node,
                           draft_node ***stack, size_t *size, size_t *capacity) {
  size_t before = *size;
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    draft_node *writer = whole->slots[i.operand.tid].writer;
    if ((i.operand.flags & IR_OUT) || !writer || extract->slots[i.operand.tid].writer) continue;
    if (!array_reserve(stack, capacity, *size + 1, sizeof **stack)) extract->no_memory = true;
    if (extract->no_memory) break;
    (*stack)[(*size)++] = writer;
  }
  return *size - before;
}

/* Copies the nodes of `whole` that compute slot `tid` to extract's chain, in a valid order. */
static void extract_slot(const draft *whole, draft *extract, uint32_t tid) {
  draft_node **stack = NULL;
  size_t n = 0, capacity = 0;
  if (!whole->slots[tid].writer) return;
  if (array_reserve(&stack, &capacity, 1, sizeof *stack)) {
    stack[n++] = whole->slots[tid].writer;
  } else {
    extract->no_memory = true;
  }
  while (n && !extract->no_memory) {
    const draft_node *top = stack[n - 1];
    if (push_writers(whole, extract, top, &stack, &n, &capacity)) continue;
    n--;
    if (!extract->slots[first_slot(&top->ins, true)].writer) copy_node(extract, top);
  }
  free(stack);
}

/* Begins a program with one method and an empty chain. */
static void begin_extract(draft *draft, const uint32_t *tids, uint32_t n) {
  enum { DIGITS = 12 };
  ir_chain *chain = draft_alloc(draft, 1, sizeof *chain);
  ir_method *method = draft_alloc(draft, 1, sizeof *method);
  ir_argument *outputs = draft_alloc(draft, (size_t)n + 1, sizeof *outputs);
  char *names = draft_alloc(draft, (size_t)n + 1, DIGITS);
  if (draft->no_memory) return;
  for (uint32_t i = 0; i < n; i++) {
    (void)snprintf(names + (size_t)i * DIGITS, DIGITS, "%u", i);
    outputs[i] = (ir_argument){names + (size_t)i * DIGITS, tids[i], IR_NONE};
  }
  *chain = (ir_chain){.name = "part"};
  *method = (ir_method){.name = "part", .outputs = {outputs, n}, .metadata = ""};
  draft->ir.chains = (ir_chains){chain, 1};
  draft->ir.methods = (ir_methods){method, 1};
  draft->ir.state_inits = (ir_state_inits){NULL, 0};
  draft->ir.metadata = "";
}

clave_status draft_extract(draft *edited, const uint32_t *tids, uint32_t n, program **out) {
  draft extract = *edited; /* shares edited's pool, but has its own slots and chain */
  *out = NULL;
  extract.slot_capacity = (size_t)edited->n_slots + n + 1;
  extract.slots = draft_alloc(edited, extract.slot_capacity, sizeof *extract.slots);
  extract.chains = draft_alloc(edited, 1, sizeof *extract.chains);
  if (edited->no_memory) return status_no_memory();
  for (uint32_t i = 0; i < edited->n_slots; i++) {
    const draft_slot *slot = &edited->slots[i];
    slot_kind kind = slot->kind == SLOT_CONSTANT ? SLOT_CONSTANT : SLOT_TEMPORARY;
    extract.slots[i] = (draft_slot){.tensor = slot->tensor, .kind = kind, .data = slot->data};
  }
  begin_extract(&extract, tids, n);
  for (uint32_t i = 0; i < n && !extract.no_memory; i++) extract_slot(edited, &extract, tids[i]);
  return draft_finish(&extract, out);
}
