/* Creates drafts from programs, and edits them. */
#include "interp/graph/draft.h"

#include <stdlib.h>
#include <string.h>

#include "ops/epilogue.h"
#include "serialize/copy.h"
#include "serialize/fields.h"
#include "serialize/verify.h"

void *draft_alloc(draft *draft, size_t count, size_t item) {
  void *made = draft->no_memory ? NULL : mem_pool_alloc(draft->pool, count, item);
  if (!made) draft->no_memory = true;
  return made;
}

/* ---------------------------------------------------------------- readers */

static void add_reader(draft *draft, uint32_t tid, draft_node *node) {
  draft_slot *slot = &draft->slots[tid];
  if (slot->n_readers == slot->capacity) {
    uint32_t capacity = 2 * slot->capacity + 2;
    draft_node **more = draft_alloc(draft, capacity, sizeof(draft_node *));
    if (!more) return;
    if (slot->n_readers) memcpy(more, slot->readers, slot->n_readers * sizeof *more);
    slot->readers = more;
    slot->capacity = capacity;
  }
  slot->readers[slot->n_readers++] = node;
}

static void remove_reader(draft *draft, uint32_t tid, const draft_node *node) {
  draft_slot *slot = &draft->slots[tid];
  for (uint32_t i = 0; i < slot->n_readers; i++) {
    if (slot->readers[i] != node) continue;
    slot->readers[i] = slot->readers[--slot->n_readers];
    return;
  }
}

static void note_operands(draft *draft, draft_node *node) {
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    if (i.operand.flags & IR_OUT) {
      draft->slots[i.operand.tid].writer = node;
    } else {
      add_reader(draft, i.operand.tid, node);
    }
  }
}

bool draft_is_read(const draft *draft, uint32_t tid) {
  return draft->slots[tid].n_readers > 0 || draft->slots[tid].kept > 0;
}

/* ---------------------------------------------------------------- from a program */

static void draft_keep(draft *draft, uint32_t tid) {
  if (tid != IR_NONE) draft->slots[tid].kept++;
}

static void keep_named(draft *draft) {
  const ir_program *program = &draft->ir;
  for (uint32_t i = 0; i < program->state_inits.count; i++)
    draft_keep(draft, program->state_inits.items[i].constant);
  for (uint32_t c = 0; c < program->chains.count; c++) {
    const ir_chain *chain = &program->chains.items[c];
    for (uint32_t i = 0; i < chain->args.count; i++) draft_keep(draft, chain->args.items[i]);
    for (uint32_t i = 0; i < chain->results.count; i++) draft_keep(draft, chain->results.items[i]);
  }
  for (uint32_t m = 0; m < program->methods.count; m++) {
    const ir_method *method = &program->methods.items[m];
    for (uint32_t i = 0; i < method->outputs.count; i++)
      draft_keep(draft, method->outputs.items[i].tensor);
    for (uint32_t i = 0; i < method->updates.count; i++)
      draft_keep(draft, method->updates.items[i].value);
  }
}

static void fill_slots(draft *draft) {
  draft->n_slots = draft->ir.tensors.count;
  draft->slot_capacity = draft->n_slots + 64;
  draft->slots = draft_alloc(draft, draft->slot_capacity, sizeof *draft->slots);
  for (uint32_t i = 0; draft->slots && i < draft->n_slots; i++) {
    slot_kind kind = program_slot_kind(&draft->ir, i);
    draft->slots[i].tensor = draft->ir.tensors.items[i];
    draft->slots[i].kind = kind == SLOT_OUTPUT ? SLOT_TEMPORARY : kind;
    if (kind == SLOT_CONSTANT) draft->slots[i].data = draft->from->constants[i];
  }
}

void draft_link(draft *draft, draft_node *node, draft_node *before) {
  draft_chain *chain = &draft->chains[node->chain];
  node->next = before;
  node->prev = before ? before->prev : chain->last;
  *(node->prev ? &node->prev->next : &chain->first) = node;
  *(before ? &before->prev : &chain->last) = node;
}

static void forget(draft *draft, draft_node *node);

/* Splits an epilogue off as an elementwise node, which is how passes see it. */
static void split_epilogue(draft *draft, draft_node *node) {
  uint32_t *inputs = draft_alloc(draft, MAX_STEP_INPUTS, sizeof *inputs);
  const uint32_t out = first_slot(&node->ins, true);
  const ir_int_or_vids *shape = &draft->slots[out].tensor.shape;
  const dtype type = op_result_type(node->ins.op_type, draft_type(draft, out));
  uint32_t own = draft_slot_new(draft, type, shape->items, (int)shape->count, node->ins.name);
  if (!inputs || own == IR_NONE) return;
  const ir_elementwise steps = epilogue_alone(&node->ins, inputs);
  inputs[0] = own;
  forget(draft, node);
  set_epilogue(&node->ins, node->ins.op, &(ir_steps){0}, &(ir_u32s){0}, own);
  note_operands(draft, node);
  ir_elementwise *split =
      draft_insert(draft, node->chain, node->next, node->ins.name, IR_OP_ELEMENTWISE);
  if (draft->no_memory) return;
  *split = steps;
  note_operands(draft, node->next);
}

static void fill_chains(draft *draft) {
  draft->chains = draft_alloc(draft, (size_t)draft->ir.chains.count + 1, sizeof *draft->chains);
  for (uint32_t c = 0; draft->chains && c < draft->ir.chains.count; c++) {
    const ir_instructions *list = &draft->ir.chains.items[c].instructions;
    draft_node *nodes = draft_alloc(draft, (size_t)list->count + 1, sizeof *nodes);
    for (uint32_t i = 0; nodes && i < list->count; i++) {
      nodes[i].ins = list->items[i];
      nodes[i].chain = c;
      draft_link(draft, &nodes[i], NULL);
      note_operands(draft, &nodes[i]);
    }
    for (uint32_t i = 0; nodes && i < list->count && !draft->no_memory; i++)
      if (epilogue_of(&nodes[i].ins)) split_epilogue(draft, &nodes[i]);
  }
}

static clave_status fill_draft(draft *draft) {
  TRY(mem_pool_create(&draft->pool));
  TRY(table_copy(draft->pool, &ir_program_table, &draft->from->ir, &draft->ir));
  draft->sizes = size_table_create(&draft->ir, draft->pool);
  draft->no_memory = !draft->sizes;
  draft->value_alias =
      draft_alloc(draft, (size_t)draft->ir.values.count + 1, sizeof *draft->value_alias);
  for (uint32_t i = 0; draft->value_alias && i < draft->ir.values.count; i++)
    draft->value_alias[i] = i;
  fill_slots(draft);
  if (!draft->no_memory) keep_named(draft);
  if (!draft->no_memory) fill_chains(draft);
  return draft->no_memory ? status_no_memory() : NULL;
}

clave_status draft_create(const program *program, mem_pool *data, draft **out) {
  draft *draft = calloc(1, sizeof *draft);
  *out = NULL;
  if (!draft) return status_no_memory();
  draft->from = program;
  draft->data = data;
  clave_status st = fill_draft(draft);
  if (st) {
    draft_destroy(draft);
    return st;
  }
  *out = draft;
  return NULL;
}

void draft_destroy(draft *draft) {
  if (!draft) return;
  mem_pool_destroy(draft->pool);
  free(draft);
}

/* ---------------------------------------------------------------- reading */

draft_node *draft_first(const draft *draft, uint32_t chain) {
  for (; chain < draft->ir.chains.count; chain++)
    if (draft->chains[chain].first) return draft->chains[chain].first;
  return NULL;
}

draft_node *draft_next(const draft *draft, const draft_node *node) {
  return node->next ? node->next : draft_first(draft, node->chain + 1);
}

const void *draft_op(const draft *draft, uint32_t tid, ir_op type) {
  const draft_node *node = tid == IR_NONE ? NULL : draft->slots[tid].writer;
  return node && node->ins.op_type == type ? node->ins.op : NULL;
}

uint32_t draft_codes(const draft *draft, uint32_t tid) {
  const ir_dequantize *decoded = draft_op(draft, tid, IR_OP_DEQUANTIZE);
  if (decoded) tid = decoded->x;
  if (tid == IR_NONE || draft->slots[tid].kind != SLOT_CONSTANT) return IR_NONE;
  return tensor_is_encoded(&draft->slots[tid].tensor) ? tid : IR_NONE;
}

extent draft_size(const draft *draft, uint32_t tid, int axis) {
  return size_of(draft->sizes, draft_dim(draft, tid, axis));
}

extent draft_numel(const draft *draft, uint32_t tid, int but) {
  extent extent = size_literal(1);
  for (int i = 0; i < draft_rank(draft, tid) - but; i++)
    extent = size_multiply(draft->sizes, extent, draft_size(draft, tid, i));
  return extent;
}

bool draft_same_shape(const draft *draft, uint32_t a, uint32_t b) {
  bool same = draft_rank(draft, a) == draft_rank(draft, b);
  for (int i = 0; same && i < draft_rank(draft, a); i++)
    same = same_size(draft_size(draft, a, i), draft_size(draft, b, i));
  return same;
}

bool draft_fixed(const draft *draft, uint32_t tid, tensor *out) {
  *out = (tensor){.type = draft_type(draft, tid), .rank = draft_rank(draft, tid)};
  for (int i = 0; i < out->rank; i++) {
    const ir_int_or_vid *value = draft_dim(draft, tid, i);
    if (value->vid != IR_NONE) return false;
    out->dims[i] = value->literal;
  }
  tensor_set_contiguous(out);
  return true;
}

/* ---------------------------------------------------------------- slots */

static bool has_capacity(draft *draft) {
  if (draft->n_slots < draft->slot_capacity) return true;
  draft_slot *more = draft_alloc(draft, 2 * draft->slot_capacity, sizeof *more);
  if (!more) return false;
  memcpy(more, draft->slots, draft->n_slots * sizeof *more);
  draft->slots = more;
  draft->slot_capacity *= 2;
  return true;
}

static uint32_t add_slot(draft *draft, slot_kind kind, dtype type, const ir_int_or_vid *shape,
                         int rank, const char *name) {
  ir_int_or_vid *dims = draft_alloc(draft, (size_t)rank + 1, sizeof *dims);
  if (!dims || !has_capacity(draft)) return IR_NONE;
  if (rank) memcpy(dims, shape, (size_t)rank * sizeof *dims);
  draft->slots[draft->n_slots] = (draft_slot){
      .kind = kind, .tensor = {.dtype = type, .shape = {dims, (uint32_t)rank}, .name = name}};
  return draft->n_slots++;
}

uint32_t draft_slot_new(draft *draft, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name) {
  return add_slot(draft, SLOT_TEMPORARY, type, shape, rank, name);
}

static ir_int_or_vids copy_shape(draft *draft, const ir_int_or_vid *shape, int rank) {
  ir_int_or_vid *dims = draft_alloc(draft, (size_t)rank + 1, sizeof *dims);
  if (dims && rank) memcpy(dims, shape, (size_t)rank * sizeof *dims);
  return (ir_int_or_vids){dims, dims ? (uint32_t)rank : 0};
}

uint32_t draft_value(draft *draft, const char *name, int64_t min, int64_t max) {
  uint32_t n = draft->ir.values.count;
  ir_value *items = draft_alloc(draft, (size_t)n + 1, sizeof *items);
  uint32_t *alias = draft_alloc(draft, (size_t)n + 2, sizeof *alias);
  if (draft->no_memory) return IR_NONE;
  if (n) memcpy(items, draft->ir.values.items, n * sizeof *items);
  memcpy(alias, draft->value_alias, n * sizeof *alias);
  items[n] = (ir_value){.name = name,
                        .type = IR_VALUE_TYPE_INT,
                        .min = {.value = min, .present = true},
                        .max = {.value = max, .present = true}};
  alias[n] = n;
  draft->ir.values = (ir_values){.items = items, .count = n + 1};
  draft->value_alias = alias;
  draft->sizes = size_table_create(&draft->ir, draft->pool);
  if (!draft->sizes) draft->no_memory = true;
  return n;
}

void draft_set_shape(draft *draft, uint32_t tid, const ir_int_or_vid *shape, int rank) {
  draft->slots[tid].tensor.shape = copy_shape(draft, shape, rank);
}

void draft_set_size(draft *draft, uint32_t tid, int axis, uint32_t value) {
  ir_int_or_vids *shape = &draft->slots[tid].tensor.shape;
  draft_set_shape(draft, tid, shape->items, (int)shape->count);
  if (!draft->no_memory) shape->items[axis] = value_size(value);
}

uint32_t draft_input(draft *draft, ir_method *method, dtype type, const ir_int_or_vid *shape,
                     int rank, const char *name) {
  uint32_t n = method->inputs.count;
  ir_argument *items = draft_alloc(draft, (size_t)n + 1, sizeof *items);
  uint32_t tid = items ? add_slot(draft, SLOT_INPUT, type, shape, rank, name) : IR_NONE;
  if (tid == IR_NONE) return IR_NONE;
  if (n) memcpy(items, method->inputs.items, n * sizeof *items);
  items[n] = (ir_argument){.name = name, .tensor = tid, .value = IR_NONE};
  method->inputs = (ir_arguments){items, n + 1};
  return tid;
}

uint32_t draft_slot_like(draft *draft, uint32_t like, const char *name) {
  const ir_int_or_vids *shape = &draft->slots[like].tensor.shape;
  return draft_slot_new(draft, draft_type(draft, like), shape->items, (int)shape->count, name);
}

static bool draft_is_taken(const draft *draft, const char *name) {
  for (uint32_t i = 0; i < draft->n_slots; i++)
    if (draft->slots[i].kind == SLOT_CONSTANT && strcmp(draft->slots[i].tensor.name, name) == 0)
      return true;
  return false;
}

/* Returns the name "<name>.folded", with a number appended if the name is in use. */
static const char *constant_name(draft *draft, const char *name) {
  text text = {0};
  for (int i = 0; i == 0 || draft_is_taken(draft, text.data); i++) {
    text_clear(&text);
    text_printf(&text, i ? "%s.folded_%d" : "%s.folded", name, i);
    if (text.failed) break;
  }
  char *made = text.failed ? NULL : mem_pool_strdup(draft->pool, text.data, text.size);
  if (!made) draft->no_memory = true;
  text_free(&text);
  return made;
}

/* Returns an added constant with the same contents; IR_NONE if none exists. */
static uint32_t draft_find_constant(const draft *draft, dtype type, const ir_int_or_vid *shape,
                                    int rank, const void *bytes) {
  for (uint32_t i = draft->from->ir.tensors.count; i < draft->n_slots; i++) {
    tensor tensor;
    size_t n;
    const draft_slot *slot = &draft->slots[i];
    bool same = slot->kind == SLOT_CONSTANT && !slot->tensor.encoding &&
                slot->tensor.dtype == type && draft_rank(draft, i) == rank;
    for (int k = 0; same && k < rank; k++)
      same = draft_dim(draft, i, k)->literal == shape[k].literal;
    if (same && draft_fixed(draft, i, &tensor) && tensor_bytes(&tensor, &n) &&
        (n == 0 || memcmp(slot->data, bytes, n) == 0))
      return i;
  }
  return IR_NONE;
}

uint32_t draft_constant(draft *draft, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name, const void *bytes) {
  size_t n;
  tensor tensor;
  uint32_t same = draft_find_constant(draft, type, shape, rank, bytes);
  if (same != IR_NONE) return same;
  const char *full = constant_name(draft, name);
  uint32_t tid = full ? add_slot(draft, SLOT_CONSTANT, type, shape, rank, full) : IR_NONE;
  if (tid == IR_NONE || !draft_fixed(draft, tid, &tensor) || !tensor_bytes(&tensor, &n))
    return IR_NONE;
  void *copy = mem_pool_alloc(draft->data, n + 1, 1);
  if (!copy) {
    draft->no_memory = true;
    return IR_NONE;
  }
  draft->slots[tid].data = n ? memcpy(copy, bytes, n) : NULL;
  return tid;
}

uint32_t draft_constant_over(draft *draft, const ir_tensor *tensor, const void *bytes) {
  const char *full = constant_name(draft, tensor->name);
  uint32_t tid = full ? add_slot(draft, SLOT_CONSTANT, tensor->dtype, tensor->shape.items,
                                 (int)tensor->shape.count, full)
                      : IR_NONE;
  if (tid == IR_NONE) {
    draft->no_memory = true;
    return IR_NONE;
  }
  draft->slots[tid].tensor.encoding = tensor->encoding;
  draft->slots[tid].data = bytes;
  return tid;
}

uint32_t draft_constant_reserve(draft *draft, const ir_tensor *tensor, size_t bytes,
                                void **memory) {
  *memory = mem_pool_alloc(draft->data, bytes + 1, 1);
  if (!*memory) {
    draft->no_memory = true;
    return IR_NONE;
  }
  return draft_constant_over(draft, tensor, bytes ? *memory : NULL);
}

/* ---------------------------------------------------------------- instructions */

void *draft_insert(draft *draft, uint32_t chain, draft_node *before, const char *name, ir_op type) {
  const ir_table *table = op_table[type].table;
  draft_node *node = draft_alloc(draft, 1, sizeof *node);
  void *op = draft_alloc(draft, 1, table->size);
  if (!node || !op) return memset(draft->scratch, 0, sizeof draft->scratch);
  *node = (draft_node){.ins = {.op_type = type, .op = op, .name = name}, .chain = chain};
  for (uint32_t i = 0; i < table->n_fields; i++) field_set_default(&table->fields[i], op);
  draft_link(draft, node, before);
  return op;
}

void *draft_add(draft *draft, draft_node *before, ir_op type) {
  return draft_insert(draft, before->chain, before, before->ins.name, type);
}

void draft_note_last(draft *draft, uint32_t chain) {
  if (!draft->no_memory) note_operands(draft, draft->chains[chain].last);
}

void draft_note(draft *draft, draft_node *before) {
  if (!draft->no_memory) note_operands(draft, before->prev);
}

static void rename_kept(draft *draft, uint32_t from, uint32_t to) {
  const ir_program *program = &draft->ir;
  for (uint32_t c = 0; c < program->chains.count; c++) {
    ir_u32s *results = &program->chains.items[c].results;
    for (uint32_t i = 0; i < results->count; i++)
      if (results->items[i] == from) results->items[i] = to;
  }
  for (uint32_t m = 0; m < program->methods.count; m++) {
    const ir_method *method = &program->methods.items[m];
    for (uint32_t i = 0; i < method->outputs.count; i++)
      if (method->outputs.items[i].tensor == from) method->outputs.items[i].tensor = to;
    for (uint32_t i = 0; i < method->updates.count; i++)
      if (method->updates.items[i].value == from) method->updates.items[i].value = to;
  }
  draft->slots[to].kept += draft->slots[from].kept;
  draft->slots[from].kept = 0;
}

static void rename_operands(draft *draft, draft_node *node, uint32_t from, uint32_t to) {
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    if ((i.operand.flags & IR_OUT) || i.operand.tid != from) continue;
    memcpy((void *)(uintptr_t)i.operand.at, &to, sizeof to);
    add_reader(draft, to, node);
  }
}

bool draft_can_replace(const draft *draft, uint32_t to, uint32_t from) {
  const draft_node *old = draft->slots[from].writer, *replacement = draft->slots[to].writer;
  return !draft->slots[from].kept || (old && replacement && old->chain == replacement->chain);
}

void draft_replace(draft *draft, uint32_t from, uint32_t to) {
  if (draft->no_memory || from == to) return;
  draft_node **readers = draft->slots[from].readers;
  uint32_t n = draft->slots[from].n_readers;
  draft->slots[from].n_readers = 0;
  for (uint32_t i = 0; i < n; i++) rename_operands(draft, readers[i], from, to);
  if (draft->slots[from].kept) rename_kept(draft, from, to);
  if (draft->slots[from].writer) draft_erase(draft, draft->slots[from].writer);
}

static bool can_erase(const draft *draft, const draft_node *node) {
  const op_info *info = &op_table[node->ins.op_type];
  if (node->erased || info->is_host || info->is_control) return false;
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);)
    if ((i.operand.flags & IR_OUT) && draft_is_read(draft, i.operand.tid)) return false;
  return true;
}

void draft_unlink(draft *draft, draft_node *node) {
  *(node->prev ? &node->prev->next : &draft->chains[node->chain].first) = node->next;
  *(node->next ? &node->next->prev : &draft->chains[node->chain].last) = node->prev;
  node->erased = true;
  node->prev = node->next = NULL;
}

static void forget(draft *draft, draft_node *node) {
  for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
    if (i.operand.flags & IR_OUT) {
      draft->slots[i.operand.tid].writer = NULL;
    } else {
      remove_reader(draft, i.operand.tid, node);
    }
  }
}

void draft_remove(draft *draft, draft_node *node) {
  draft_unlink(draft, node);
  forget(draft, node);
}

/* Erased nodes whose operands are still to be processed form a separate list. */
void draft_erase(draft *draft, draft_node *node) {
  if (!can_erase(draft, node)) return;
  draft_unlink(draft, node);
  for (draft_node *first = node; first;) {
    node = first;
    first = node->next;
    forget(draft, node);
    for (operand_iter i = operands_of(&node->ins); next_operand(&i);) {
      draft_node *writer = (i.operand.flags & IR_OUT) ? NULL : draft->slots[i.operand.tid].writer;
      if (!writer || !can_erase(draft, writer)) continue;
      draft_unlink(draft, writer);
      writer->next = first;
      first = writer;
    }
  }
}

/* ---------------------------------------------------------------- views */

uint32_t draft_reshape(draft *draft, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                       int rank) {
  if (draft->no_memory) return IR_NONE;
  uint32_t out = draft_slot_new(draft, draft_type(draft, x), shape, rank, before->ins.name);
  ir_reshape *op = draft_add(draft, before, IR_OP_RESHAPE);
  *op = (ir_reshape){.x = x, .shape = copy_shape(draft, shape, rank), .out = out};
  draft_note(draft, before);
  return out;
}

uint32_t draft_expand(draft *draft, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                      int rank) {
  if (draft->no_memory) return IR_NONE;
  uint32_t out = draft_slot_new(draft, draft_type(draft, x), shape, rank, before->ins.name);
  ir_expand *op = draft_add(draft, before, IR_OP_EXPAND);
  *op = (ir_expand){.x = x, .shape = copy_shape(draft, shape, rank), .out = out};
  draft_note(draft, before);
  return out;
}

uint32_t draft_permute(draft *draft, draft_node *before, uint32_t x, const int *dims) {
  if (draft->no_memory) return IR_NONE;
  int rank = draft_rank(draft, x);
  ir_int_or_vid shape[MAX_RANK];
  int32_t *order = draft_alloc(draft, (size_t)rank + 1, sizeof *order);
  for (int i = 0; order && i < rank; i++) {
    shape[i] = *draft_dim(draft, x, dims[i]);
    order[i] = dims[i];
  }
  uint32_t out =
      order ? draft_slot_new(draft, draft_type(draft, x), shape, rank, before->ins.name) : IR_NONE;
  ir_permute *op = draft_add(draft, before, IR_OP_PERMUTE);
  *op = (ir_permute){.x = x, .dims = {order, (uint32_t)rank}, .out = out};
  draft_note(draft, before);
  return out;
}

/* Computes the shape that n tensors broadcast to. Returns its rank. */
static int broadcast_shape(const draft *draft, const uint32_t *xs, uint32_t n,
                           ir_int_or_vid *shape) {
  int rank = 0;
  for (uint32_t k = 0; k < n; k++)
    if (draft_rank(draft, xs[k]) > rank) rank = draft_rank(draft, xs[k]);
  for (int i = 1; i <= rank; i++) {
    shape[rank - i] = literal_size(1);
    for (uint32_t k = 0; k < n; k++)
      if (draft_rank(draft, xs[k]) >= i && !size_is(draft_size(draft, xs[k], -i), 1))
        shape[rank - i] = *draft_dim(draft, xs[k], -i);
  }
  return rank;
}

/* Adds a step whose operands are n tensors followed by n_numbers numbers. */
static uint32_t draft_add_step(draft *draft, draft_node *before, const ir_step *step,
                               const uint32_t *xs, uint32_t n, const double *numbers,
                               uint32_t n_numbers) {
  if (draft->no_memory) return IR_NONE;
  ir_int_or_vid shape[MAX_RANK];
  int rank = broadcast_shape(draft, xs, n, shape);
  uint32_t out = draft_slot_new(draft, step->dtype, shape, rank, before->ins.name);
  uint32_t *inputs = draft_alloc(draft, n, sizeof *inputs);
  ir_step *added = draft_alloc(draft, 1, sizeof *added);
  ir_operand *op = draft_alloc(draft, n + n_numbers, sizeof *op);
  ir_elementwise *elementwise = draft_add(draft, before, IR_OP_ELEMENTWISE);
  if (draft->no_memory) return IR_NONE;
  memcpy(inputs, xs, n * sizeof *inputs);
  for (uint32_t k = 0; k < n; k++)
    op[k] = (ir_operand){.source = IR_OPERAND_SOURCE_INPUT, .index = k};
  for (uint32_t k = 0; k < n_numbers; k++)
    op[n + k] = (ir_operand){.source = IR_OPERAND_SOURCE_FLOAT, .f = numbers[k]};
  *added = *step;
  added->operands = (ir_operands){op, n + n_numbers};
  *elementwise = (ir_elementwise){.inputs = {inputs, n}, .steps = {added, 1}, .out = out};
  draft_note(draft, before);
  return out;
}

uint32_t draft_step(draft *draft, draft_node *before, ir_step_kind kind, const uint32_t *xs,
                    uint32_t n) {
  if (draft->no_memory) return IR_NONE;
  const ir_step s = {.kind = kind, .dtype = draft_type(draft, xs[0])};
  return draft_add_step(draft, before, &s, xs, n, NULL, 0);
}

uint32_t draft_step_number(draft *draft, draft_node *before, ir_step_kind kind, uint32_t x,
                           double number) {
  if (draft->no_memory) return IR_NONE;
  const ir_step s = {.kind = kind, .dtype = draft_type(draft, x)};
  return draft_add_step(draft, before, &s, &x, 1, &number, 1);
}

uint32_t draft_cast(draft *draft, draft_node *before, uint32_t x, dtype type) {
  const ir_step s = {.kind = IR_STEP_KIND_CAST, .dtype = type};
  return draft_add_step(draft, before, &s, &x, 1, NULL, 0);
}
