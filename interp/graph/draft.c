/* Drafts: made of programs, and edited. */
#include "interp/graph/draft.h"

#include <stdlib.h>
#include <string.h>

#include "ops/epilogue.h"
#include "serialize/copy.h"
#include "serialize/fields.h"
#include "serialize/verify.h"

void *draft_alloc(draft *d, size_t count, size_t item) {
  void *made = d->no_memory ? NULL : mem_pool_alloc(d->pool, count, item);
  if (!made) d->no_memory = true;
  return made;
}

/* ---------------------------------------------------------------- readers */

static void add_reader(draft *d, uint32_t tid, draft_node *n) {
  draft_slot *s = &d->slots[tid];
  if (s->n_readers == s->capacity) {
    uint32_t capacity = 2 * s->capacity + 2;
    draft_node **more = draft_alloc(d, capacity, sizeof(draft_node *));
    if (!more) return;
    if (s->n_readers) memcpy(more, s->readers, s->n_readers * sizeof *more);
    s->readers = more;
    s->capacity = capacity;
  }
  s->readers[s->n_readers++] = n;
}

static void remove_reader(draft *d, uint32_t tid, const draft_node *n) {
  draft_slot *s = &d->slots[tid];
  for (uint32_t i = 0; i < s->n_readers; i++) {
    if (s->readers[i] != n) continue;
    s->readers[i] = s->readers[--s->n_readers];
    return;
  }
}

static void note(draft *d, draft_node *n) {
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    if (i.o.flags & IR_OUT) {
      d->slots[i.o.tid].writer = n;
    } else {
      add_reader(d, i.o.tid, n);
    }
  }
}

bool draft_is_read(const draft *d, uint32_t tid) {
  return d->slots[tid].n_readers > 0 || d->slots[tid].kept > 0;
}

/* ---------------------------------------------------------------- of a program */

static void keep(draft *d, uint32_t tid) {
  if (tid != IR_NONE) d->slots[tid].kept++;
}

static void keep_named(draft *d) {
  const ir_program *p = &d->ir;
  for (uint32_t i = 0; i < p->state_inits.count; i++) keep(d, p->state_inits.items[i].constant);
  for (uint32_t c = 0; c < p->chains.count; c++) {
    const ir_chain *chain = &p->chains.items[c];
    for (uint32_t i = 0; i < chain->args.count; i++) keep(d, chain->args.items[i]);
    for (uint32_t i = 0; i < chain->results.count; i++) keep(d, chain->results.items[i]);
  }
  for (uint32_t m = 0; m < p->methods.count; m++) {
    const ir_method *method = &p->methods.items[m];
    for (uint32_t i = 0; i < method->outputs.count; i++) keep(d, method->outputs.items[i].tensor);
    for (uint32_t i = 0; i < method->updates.count; i++) keep(d, method->updates.items[i].value);
  }
}

static void fill_slots(draft *d) {
  d->n_slots = d->ir.tensors.count;
  d->slot_capacity = d->n_slots + 64;
  d->slots = draft_alloc(d, d->slot_capacity, sizeof *d->slots);
  for (uint32_t i = 0; d->slots && i < d->n_slots; i++) {
    slot_kind kind = program_slot_kind(&d->ir, i);
    d->slots[i].t = d->ir.tensors.items[i];
    d->slots[i].kind = kind == SLOT_OUTPUT ? SLOT_TEMPORARY : kind;
    if (kind == SLOT_CONSTANT) d->slots[i].data = d->from->constants[i];
  }
}

void draft_link(draft *d, draft_node *n, draft_node *before) {
  draft_chain *c = &d->chains[n->chain];
  n->next = before;
  n->prev = before ? before->prev : c->last;
  *(n->prev ? &n->prev->next : &c->first) = n;
  *(before ? &before->prev : &c->last) = n;
}

static void forget(draft *d, draft_node *n);

/* Passes see an epilogue as a node of its own. */
static void split_epilogue(draft *d, draft_node *n) {
  uint32_t *inputs = draft_alloc(d, MAX_STEP_INPUTS, sizeof *inputs);
  const uint32_t out = first_slot(&n->ins, true);
  const ir_int_or_vids *shape = &d->slots[out].t.shape;
  const dtype type = op_result_type(n->ins.op_type, draft_type(d, out));
  uint32_t own = draft_slot_new(d, type, shape->items, (int)shape->count, n->ins.name);
  if (!inputs || own == IR_NONE) return;
  const ir_elementwise steps = epilogue_alone(&n->ins, inputs);
  inputs[0] = own;
  forget(d, n);
  set_epilogue(&n->ins, n->ins.op, &(ir_steps){0}, &(ir_u32s){0}, own);
  note(d, n);
  ir_elementwise *e = draft_insert(d, n->chain, n->next, n->ins.name, IR_OP_ELEMENTWISE);
  if (d->no_memory) return;
  *e = steps;
  note(d, n->next);
}

static void fill_chains(draft *d) {
  d->chains = draft_alloc(d, (size_t)d->ir.chains.count + 1, sizeof *d->chains);
  for (uint32_t c = 0; d->chains && c < d->ir.chains.count; c++) {
    const ir_instructions *list = &d->ir.chains.items[c].instructions;
    draft_node *nodes = draft_alloc(d, (size_t)list->count + 1, sizeof *nodes);
    for (uint32_t i = 0; nodes && i < list->count; i++) {
      nodes[i].ins = list->items[i];
      nodes[i].chain = c;
      draft_link(d, &nodes[i], NULL);
      note(d, &nodes[i]);
    }
    for (uint32_t i = 0; nodes && i < list->count && !d->no_memory; i++)
      if (epilogue_of(&nodes[i].ins)) split_epilogue(d, &nodes[i]);
  }
}

static clave_status fill_draft(draft *d) {
  TRY(mem_pool_create(&d->pool));
  TRY(table_copy(d->pool, &ir_program_table, &d->from->ir, &d->ir));
  d->sizes = size_table_create(&d->ir, d->pool);
  d->no_memory = !d->sizes;
  d->value_alias = draft_alloc(d, (size_t)d->ir.values.count + 1, sizeof *d->value_alias);
  for (uint32_t i = 0; d->value_alias && i < d->ir.values.count; i++) d->value_alias[i] = i;
  fill_slots(d);
  if (!d->no_memory) keep_named(d);
  if (!d->no_memory) fill_chains(d);
  return d->no_memory ? status_no_memory() : NULL;
}

clave_status draft_create(const program *p, mem_pool *data, draft **out) {
  draft *d = calloc(1, sizeof *d);
  *out = NULL;
  if (!d) return status_no_memory();
  d->from = p;
  d->data = data;
  clave_status st = fill_draft(d);
  if (st) {
    draft_destroy(d);
    return st;
  }
  *out = d;
  return NULL;
}

void draft_destroy(draft *d) {
  if (!d) return;
  mem_pool_destroy(d->pool);
  free(d);
}

/* ---------------------------------------------------------------- reading */

draft_node *draft_first(const draft *d, uint32_t chain) {
  for (; chain < d->ir.chains.count; chain++)
    if (d->chains[chain].first) return d->chains[chain].first;
  return NULL;
}

draft_node *draft_next(const draft *d, const draft_node *n) {
  return n->next ? n->next : draft_first(d, n->chain + 1);
}

const void *draft_op(const draft *d, uint32_t tid, ir_op type) {
  const draft_node *n = tid == IR_NONE ? NULL : d->slots[tid].writer;
  return n && n->ins.op_type == type ? n->ins.op : NULL;
}

uint32_t draft_codes(const draft *d, uint32_t tid) {
  const ir_dequantize *decoded = draft_op(d, tid, IR_OP_DEQUANTIZE);
  if (decoded) tid = decoded->x;
  if (tid == IR_NONE || d->slots[tid].kind != SLOT_CONSTANT) return IR_NONE;
  return is_encoded(&d->slots[tid].t) ? tid : IR_NONE;
}

extent draft_size(const draft *d, uint32_t tid, int axis) {
  return size_of(d->sizes, draft_dim(d, tid, axis));
}

extent draft_numel(const draft *d, uint32_t tid, int but) {
  extent n = size_literal(1);
  for (int i = 0; i < draft_rank(d, tid) - but; i++)
    n = size_multiply(d->sizes, n, draft_size(d, tid, i));
  return n;
}

bool draft_same_shape(const draft *d, uint32_t a, uint32_t b) {
  bool same = draft_rank(d, a) == draft_rank(d, b);
  for (int i = 0; same && i < draft_rank(d, a); i++)
    same = same_size(draft_size(d, a, i), draft_size(d, b, i));
  return same;
}

bool draft_fixed(const draft *d, uint32_t tid, tensor *out) {
  *out = (tensor){.type = draft_type(d, tid), .rank = draft_rank(d, tid)};
  for (int i = 0; i < out->rank; i++) {
    const ir_int_or_vid *n = draft_dim(d, tid, i);
    if (n->vid != IR_NONE) return false;
    out->dims[i] = n->literal;
  }
  tensor_set_contiguous(out);
  return true;
}

/* ---------------------------------------------------------------- slots */

static bool has_room(draft *d) {
  if (d->n_slots < d->slot_capacity) return true;
  draft_slot *more = draft_alloc(d, 2 * d->slot_capacity, sizeof *more);
  if (!more) return false;
  memcpy(more, d->slots, d->n_slots * sizeof *more);
  d->slots = more;
  d->slot_capacity *= 2;
  return true;
}

static uint32_t add_slot(draft *d, slot_kind kind, dtype type, const ir_int_or_vid *shape, int rank,
                         const char *name) {
  ir_int_or_vid *dims = draft_alloc(d, (size_t)rank + 1, sizeof *dims);
  if (!dims || !has_room(d)) return IR_NONE;
  if (rank) memcpy(dims, shape, (size_t)rank * sizeof *dims);
  d->slots[d->n_slots] = (draft_slot){
      .kind = kind, .t = {.dtype = type, .shape = {dims, (uint32_t)rank}, .name = name}};
  return d->n_slots++;
}

uint32_t draft_slot_new(draft *d, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name) {
  return add_slot(d, SLOT_TEMPORARY, type, shape, rank, name);
}

static ir_int_or_vids copy_shape(draft *d, const ir_int_or_vid *shape, int rank) {
  ir_int_or_vid *dims = draft_alloc(d, (size_t)rank + 1, sizeof *dims);
  if (dims && rank) memcpy(dims, shape, (size_t)rank * sizeof *dims);
  return (ir_int_or_vids){dims, dims ? (uint32_t)rank : 0};
}

uint32_t draft_value(draft *d, const char *name, int64_t min, int64_t max) {
  uint32_t n = d->ir.values.count;
  ir_value *items = draft_alloc(d, (size_t)n + 1, sizeof *items);
  uint32_t *alias = draft_alloc(d, (size_t)n + 2, sizeof *alias);
  if (d->no_memory) return IR_NONE;
  if (n) memcpy(items, d->ir.values.items, n * sizeof *items);
  memcpy(alias, d->value_alias, n * sizeof *alias);
  items[n] = (ir_value){.name = name,
                        .type = IR_VALUE_TYPE_INT,
                        .min = {.value = min, .present = true},
                        .max = {.value = max, .present = true}};
  alias[n] = n;
  d->ir.values = (ir_values){.items = items, .count = n + 1};
  d->value_alias = alias;
  d->sizes = size_table_create(&d->ir, d->pool);
  if (!d->sizes) d->no_memory = true;
  return n;
}

void draft_set_shape(draft *d, uint32_t tid, const ir_int_or_vid *shape, int rank) {
  d->slots[tid].t.shape = copy_shape(d, shape, rank);
}

void draft_set_size(draft *d, uint32_t tid, int axis, uint32_t value) {
  ir_int_or_vids *shape = &d->slots[tid].t.shape;
  draft_set_shape(d, tid, shape->items, (int)shape->count);
  if (!d->no_memory) shape->items[axis] = value_size(value);
}

uint32_t draft_input(draft *d, ir_method *m, dtype type, const ir_int_or_vid *shape, int rank,
                     const char *name) {
  uint32_t n = m->inputs.count;
  ir_argument *items = draft_alloc(d, (size_t)n + 1, sizeof *items);
  uint32_t tid = items ? add_slot(d, SLOT_INPUT, type, shape, rank, name) : IR_NONE;
  if (tid == IR_NONE) return IR_NONE;
  if (n) memcpy(items, m->inputs.items, n * sizeof *items);
  items[n] = (ir_argument){.name = name, .tensor = tid, .value = IR_NONE};
  m->inputs = (ir_arguments){items, n + 1};
  return tid;
}

uint32_t draft_slot_like(draft *d, uint32_t like, const char *name) {
  const ir_int_or_vids *shape = &d->slots[like].t.shape;
  return draft_slot_new(d, draft_type(d, like), shape->items, (int)shape->count, name);
}

static bool is_taken(const draft *d, const char *name) {
  for (uint32_t i = 0; i < d->n_slots; i++)
    if (d->slots[i].kind == SLOT_CONSTANT && strcmp(d->slots[i].t.name, name) == 0) return true;
  return false;
}

/* "<name>.folded", with a number if that is taken. */
static const char *constant_name(draft *d, const char *name) {
  text t = {0};
  for (int i = 0; i == 0 || is_taken(d, t.data); i++) {
    text_clear(&t);
    text_printf(&t, i ? "%s.folded_%d" : "%s.folded", name, i);
    if (t.failed) break;
  }
  char *made = t.failed ? NULL : mem_pool_strdup(d->pool, t.data, t.size);
  if (!made) d->no_memory = true;
  text_free(&t);
  return made;
}

/* A constant that was added with the same bytes. */
static uint32_t find_constant(const draft *d, dtype type, const ir_int_or_vid *shape, int rank,
                              const void *bytes) {
  for (uint32_t i = d->from->ir.tensors.count; i < d->n_slots; i++) {
    tensor t;
    size_t n;
    const draft_slot *s = &d->slots[i];
    bool same = s->kind == SLOT_CONSTANT && !s->t.encoding && s->t.dtype == type &&
                draft_rank(d, i) == rank;
    for (int k = 0; same && k < rank; k++) same = draft_dim(d, i, k)->literal == shape[k].literal;
    if (same && draft_fixed(d, i, &t) && tensor_bytes(&t, &n) &&
        (n == 0 || memcmp(s->data, bytes, n) == 0))
      return i;
  }
  return IR_NONE;
}

uint32_t draft_constant(draft *d, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name, const void *bytes) {
  size_t n;
  tensor t;
  uint32_t same = find_constant(d, type, shape, rank, bytes);
  if (same != IR_NONE) return same;
  const char *full = constant_name(d, name);
  uint32_t tid = full ? add_slot(d, SLOT_CONSTANT, type, shape, rank, full) : IR_NONE;
  if (tid == IR_NONE || !draft_fixed(d, tid, &t) || !tensor_bytes(&t, &n)) return IR_NONE;
  void *copy = mem_pool_alloc(d->data, n + 1, 1);
  if (!copy) {
    d->no_memory = true;
    return IR_NONE;
  }
  d->slots[tid].data = n ? memcpy(copy, bytes, n) : NULL;
  return tid;
}

uint32_t draft_constant_over(draft *d, const ir_tensor *t, const void *bytes) {
  const char *full = constant_name(d, t->name);
  uint32_t tid =
      full ? add_slot(d, SLOT_CONSTANT, t->dtype, t->shape.items, (int)t->shape.count, full)
           : IR_NONE;
  if (tid == IR_NONE) {
    d->no_memory = true;
    return IR_NONE;
  }
  d->slots[tid].t.encoding = t->encoding;
  d->slots[tid].data = bytes;
  return tid;
}

uint32_t draft_constant_room(draft *d, const ir_tensor *t, size_t bytes, void **room) {
  *room = mem_pool_alloc(d->data, bytes + 1, 1);
  if (!*room) {
    d->no_memory = true;
    return IR_NONE;
  }
  return draft_constant_over(d, t, bytes ? *room : NULL);
}

/* ---------------------------------------------------------------- instructions */

void *draft_insert(draft *d, uint32_t chain, draft_node *before, const char *name, ir_op type) {
  const ir_table *table = op_table[type].table;
  draft_node *n = draft_alloc(d, 1, sizeof *n);
  void *op = draft_alloc(d, 1, table->size);
  if (!n || !op) return memset(d->scratch, 0, sizeof d->scratch);
  *n = (draft_node){.ins = {.op_type = type, .op = op, .name = name}, .chain = chain};
  for (uint32_t i = 0; i < table->n_fields; i++) field_set_default(&table->fields[i], op);
  draft_link(d, n, before);
  return op;
}

void *draft_add(draft *d, draft_node *before, ir_op type) {
  return draft_insert(d, before->chain, before, before->ins.name, type);
}

void draft_note_last(draft *d, uint32_t chain) {
  if (!d->no_memory) note(d, d->chains[chain].last);
}

void draft_note(draft *d, draft_node *before) {
  if (!d->no_memory) note(d, before->prev);
}

static void rename_kept(draft *d, uint32_t from, uint32_t to) {
  const ir_program *p = &d->ir;
  for (uint32_t c = 0; c < p->chains.count; c++) {
    ir_u32s *results = &p->chains.items[c].results;
    for (uint32_t i = 0; i < results->count; i++)
      if (results->items[i] == from) results->items[i] = to;
  }
  for (uint32_t m = 0; m < p->methods.count; m++) {
    const ir_method *method = &p->methods.items[m];
    for (uint32_t i = 0; i < method->outputs.count; i++)
      if (method->outputs.items[i].tensor == from) method->outputs.items[i].tensor = to;
    for (uint32_t i = 0; i < method->updates.count; i++)
      if (method->updates.items[i].value == from) method->updates.items[i].value = to;
  }
  d->slots[to].kept += d->slots[from].kept;
  d->slots[from].kept = 0;
}

static void rename_operands(draft *d, draft_node *n, uint32_t from, uint32_t to) {
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    if ((i.o.flags & IR_OUT) || i.o.tid != from) continue;
    memcpy((void *)(uintptr_t)i.o.at, &to, sizeof to);
    add_reader(d, to, n);
  }
}

bool draft_can_stand_for(const draft *d, uint32_t to, uint32_t from) {
  const draft_node *a = d->slots[from].writer, *b = d->slots[to].writer;
  return !d->slots[from].kept || (a && b && a->chain == b->chain);
}

void draft_replace(draft *d, uint32_t from, uint32_t to) {
  if (d->no_memory || from == to) return;
  draft_node **readers = d->slots[from].readers;
  uint32_t n = d->slots[from].n_readers;
  d->slots[from].n_readers = 0;
  for (uint32_t i = 0; i < n; i++) rename_operands(d, readers[i], from, to);
  if (d->slots[from].kept) rename_kept(d, from, to);
  if (d->slots[from].writer) draft_erase(d, d->slots[from].writer);
}

static bool can_erase(const draft *d, const draft_node *n) {
  const op_info *info = &op_table[n->ins.op_type];
  if (n->erased || info->is_host || info->is_control) return false;
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);)
    if ((i.o.flags & IR_OUT) && draft_is_read(d, i.o.tid)) return false;
  return true;
}

void draft_unlink(draft *d, draft_node *n) {
  *(n->prev ? &n->prev->next : &d->chains[n->chain].first) = n->next;
  *(n->next ? &n->next->prev : &d->chains[n->chain].last) = n->prev;
  n->erased = true;
  n->prev = n->next = NULL;
}

static void forget(draft *d, draft_node *n) {
  for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
    if (i.o.flags & IR_OUT) {
      d->slots[i.o.tid].writer = NULL;
    } else {
      remove_reader(d, i.o.tid, n);
    }
  }
}

/* Erased nodes whose operands' writers are still to be looked at lie on a list of their own. */
void draft_erase(draft *d, draft_node *n) {
  if (!can_erase(d, n)) return;
  draft_unlink(d, n);
  for (draft_node *first = n; first;) {
    n = first;
    first = n->next;
    forget(d, n);
    for (operand_iter i = operands_of(&n->ins); next_operand(&i);) {
      draft_node *writer = (i.o.flags & IR_OUT) ? NULL : d->slots[i.o.tid].writer;
      if (!writer || !can_erase(d, writer)) continue;
      draft_unlink(d, writer);
      writer->next = first;
      first = writer;
    }
  }
}

/* ---------------------------------------------------------------- views */

uint32_t draft_reshape(draft *d, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                       int rank) {
  if (d->no_memory) return IR_NONE;
  uint32_t out = draft_slot_new(d, draft_type(d, x), shape, rank, before->ins.name);
  ir_reshape *o = draft_add(d, before, IR_OP_RESHAPE);
  *o = (ir_reshape){.x = x, .shape = copy_shape(d, shape, rank), .out = out};
  draft_note(d, before);
  return out;
}

uint32_t draft_expand(draft *d, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                      int rank) {
  if (d->no_memory) return IR_NONE;
  uint32_t out = draft_slot_new(d, draft_type(d, x), shape, rank, before->ins.name);
  ir_expand *o = draft_add(d, before, IR_OP_EXPAND);
  *o = (ir_expand){.x = x, .shape = copy_shape(d, shape, rank), .out = out};
  draft_note(d, before);
  return out;
}

uint32_t draft_permute(draft *d, draft_node *before, uint32_t x, const int *dims) {
  if (d->no_memory) return IR_NONE;
  int rank = draft_rank(d, x);
  ir_int_or_vid shape[MAX_RANK];
  int32_t *order = draft_alloc(d, (size_t)rank + 1, sizeof *order);
  for (int i = 0; order && i < rank; i++) {
    shape[i] = *draft_dim(d, x, dims[i]);
    order[i] = dims[i];
  }
  uint32_t out =
      order ? draft_slot_new(d, draft_type(d, x), shape, rank, before->ins.name) : IR_NONE;
  ir_permute *o = draft_add(d, before, IR_OP_PERMUTE);
  *o = (ir_permute){.x = x, .dims = {order, (uint32_t)rank}, .out = out};
  draft_note(d, before);
  return out;
}

/* The shape that n tensors broadcast to; its rank. */
static int broadcast_shape(const draft *d, const uint32_t *xs, uint32_t n, ir_int_or_vid *shape) {
  int rank = 0;
  for (uint32_t k = 0; k < n; k++)
    if (draft_rank(d, xs[k]) > rank) rank = draft_rank(d, xs[k]);
  for (int i = 1; i <= rank; i++) {
    shape[rank - i] = literal_size(1);
    for (uint32_t k = 0; k < n; k++)
      if (draft_rank(d, xs[k]) >= i && !size_is(draft_size(d, xs[k], -i), 1))
        shape[rank - i] = *draft_dim(d, xs[k], -i);
  }
  return rank;
}

/* A step of n tensors and, behind them, n_numbers numbers. */
static uint32_t add_step(draft *d, draft_node *before, const ir_step *step, const uint32_t *xs,
                         uint32_t n, const double *numbers, uint32_t n_numbers) {
  if (d->no_memory) return IR_NONE;
  ir_int_or_vid shape[MAX_RANK];
  int rank = broadcast_shape(d, xs, n, shape);
  uint32_t out = draft_slot_new(d, step->dtype, shape, rank, before->ins.name);
  uint32_t *inputs = draft_alloc(d, n, sizeof *inputs);
  ir_step *s = draft_alloc(d, 1, sizeof *s);
  ir_operand *o = draft_alloc(d, n + n_numbers, sizeof *o);
  ir_elementwise *e = draft_add(d, before, IR_OP_ELEMENTWISE);
  if (d->no_memory) return IR_NONE;
  memcpy(inputs, xs, n * sizeof *inputs);
  for (uint32_t k = 0; k < n; k++)
    o[k] = (ir_operand){.source = IR_OPERAND_SOURCE_INPUT, .index = k};
  for (uint32_t k = 0; k < n_numbers; k++)
    o[n + k] = (ir_operand){.source = IR_OPERAND_SOURCE_FLOAT, .f = numbers[k]};
  *s = *step;
  s->operands = (ir_operands){o, n + n_numbers};
  *e = (ir_elementwise){.inputs = {inputs, n}, .steps = {s, 1}, .out = out};
  draft_note(d, before);
  return out;
}

uint32_t draft_step(draft *d, draft_node *before, ir_step_kind kind, const uint32_t *xs,
                    uint32_t n) {
  if (d->no_memory) return IR_NONE;
  const ir_step s = {.kind = kind, .dtype = draft_type(d, xs[0])};
  return add_step(d, before, &s, xs, n, NULL, 0);
}

uint32_t draft_step_number(draft *d, draft_node *before, ir_step_kind kind, uint32_t x,
                           double number) {
  if (d->no_memory) return IR_NONE;
  const ir_step s = {.kind = kind, .dtype = draft_type(d, x)};
  return add_step(d, before, &s, &x, 1, &number, 1);
}

uint32_t draft_cast(draft *d, draft_node *before, uint32_t x, dtype type) {
  const ir_step s = {.kind = IR_STEP_KIND_CAST, .dtype = type};
  return add_step(d, before, &s, &x, 1, NULL, 0);
}
