/* A host's graph as a program: checked, then handed to the builder, whose verifier does the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "delegate/objects.h"

/* ---------------------------------------------------------------- checks */

static bool reads_tensors(clave_delegate_field_kind k) {
  return k == CLAVE_DELEGATE_READS || k == CLAVE_DELEGATE_READS_LIST;
}
static bool writes_tensors(clave_delegate_field_kind k) {
  return k == CLAVE_DELEGATE_WRITES || k == CLAVE_DELEGATE_WRITES_LIST;
}

/* A list of n items that is there. */
#define TRY_LIST(list, n) \
  if ((n) && !(list)) return INVALID("%s is NULL, with %u of them", #list, (unsigned)(n))

static clave_status check_initial(const clave_delegate_graph *g, uint32_t index) {
  const clave_delegate_tensor *t = &g->tensors[index];
  if (!g->initial || !g->initial[index]) return NULL;
  if (t->kind != CLAVE_SLOT_STATE) return INVALID("it has a first value, and is no state");
  for (int k = 0; k < t->rank; k++)
    if (t->sizes[k]) return INVALID("it has a first value, and dimension %d is open", k);
  return NULL;
}

static clave_status check_tensor(const clave_delegate_graph *g, uint32_t index) {
  const clave_delegate_tensor *t = &g->tensors[index];
  TRY_GIVEN(t->name);
  if ((unsigned)t->kind > CLAVE_SLOT_TEMPORARY)
    return INVALID("kind: expected a clave_slot_kind, got %d", (int)t->kind);
  if (!clave_dtype_name(t->dtype)) return INVALID("dtype %d is none", (int)t->dtype);
  if (t->rank < 0 || t->rank > CLAVE_MAX_RANK)
    return INVALID("expected rank 0 to %d, got %d", (int)CLAVE_MAX_RANK, t->rank);
  for (int k = 0; k < t->rank; k++) {
    if (t->sizes[k] > g->n_sizes)
      return INVALID("dimension %d is size %u of %u", k, t->sizes[k], g->n_sizes);
    if (!t->sizes[k] && t->dims[k] < 0)
      return INVALID("dimension %d is %lld", k, (long long)t->dims[k]);
  }
  return check_initial(g, index);
}

static clave_status check_indices(const uint32_t *list, uint32_t n, uint32_t end) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] >= end) return INVALID("number %u of %u", list[i], end);
  return NULL;
}

static clave_status check_operands(const clave_delegate_operand *list, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    const clave_delegate_operand *o = &list[k];
    if ((unsigned)o->source > CLAVE_DELEGATE_OPERAND_FLOAT)
      return INVALID("operand %u: expected a clave_delegate_source, got %d", k, (int)o->source);
    if (o->source <= CLAVE_DELEGATE_OPERAND_STEP && o->i != (uint32_t)o->i)
      return INVALID("operand %u: expected 0 to 4294967295, got %s %lld", k,
                     o->source == CLAVE_DELEGATE_OPERAND_STEP ? "step" : "input", (long long)o->i);
  }
  return NULL;
}

static clave_status check_field(const clave_delegate_graph *g, const clave_delegate_field *f) {
  TRY_GIVEN(f->name);
  switch (f->kind) {
    case CLAVE_DELEGATE_READS:
    case CLAVE_DELEGATE_WRITES:
      if (f->n != 1) return INVALID("expected 1 tensor, got %u", f->n);
    /* fallthrough */
    case CLAVE_DELEGATE_READS_LIST:
    case CLAVE_DELEGATE_WRITES_LIST:
      TRY_LIST(f->tensors, f->n);
      return check_indices(f->tensors, f->n, g->n_tensors);
    case CLAVE_DELEGATE_SIZES:
      TRY_LIST(f->ints, f->n);
      return f->tensors ? check_indices(f->tensors, f->n, g->n_sizes + 1) : NULL;
    case CLAVE_DELEGATE_INTS:
      TRY_LIST(f->ints, f->n);
      for (uint32_t i = 0; i < f->n; i++)
        if (f->ints[i] != (int32_t)f->ints[i])
          return INVALID("%lld does not fit in 32 bits", (long long)f->ints[i]);
      return NULL;
    case CLAVE_DELEGATE_STEP:
      TRY_LIST(f->operands, f->n);
      return check_operands(f->operands, f->n);
    case CLAVE_DELEGATE_TEXT:
      TRY_GIVEN(f->text);
      return NULL;
    case CLAVE_DELEGATE_INT:
    case CLAVE_DELEGATE_FLOAT:
    case CLAVE_DELEGATE_BOOL:
      return NULL;
  }
  return INVALID("kind: expected a clave_delegate_field_kind, got %d", (int)f->kind);
}

static clave_status check_node(const clave_delegate_graph *g, const clave_delegate_node *n) {
  TRY_GIVEN(n->op);
  TRY_GIVEN(n->name);
  TRY_LIST(n->fields, n->n_fields);
  for (uint32_t i = 0; i < n->n_fields; i++)
    TRY(status_while(check_field(g, &n->fields[i]), "field %u of op '%.60s'", i, n->op));
  return NULL;
}

clave_status graph_check(const clave_delegate_graph *given, clave_delegate_graph *g) {
  if (!given) return INVALID("graph is NULL");
  TRY(sized_read(given, g, SIZED(clave_delegate_graph, n_nodes)));
  TRY_LIST(g->sizes, g->n_sizes);
  TRY_LIST(g->tensors, g->n_tensors);
  TRY_LIST(g->nodes, g->n_nodes);
  for (uint32_t i = 0; i < g->n_sizes; i++)
    if (!g->sizes[i].name) return INVALID("size %u has no name", i);
  for (uint32_t i = 0; i < g->n_tensors; i++)
    TRY(status_while(check_tensor(g, i), "tensor %u of the graph", i));
  for (uint32_t i = 0; i < g->n_nodes; i++)
    TRY(status_while(check_node(g, &g->nodes[i]), "node %u of the graph", i));
  TRY_LIST(g->updates, g->n_updates);
  for (uint32_t i = 0; i < g->n_updates; i++)
    TRY(status_while(
        check_indices((uint32_t[]){g->updates[i].state, g->updates[i].tensor}, 2, g->n_tensors),
        "update %u of the graph", i));
  return NULL;
}

/* ---------------------------------------------------------------- building */

typedef struct maker {
  const clave_delegate_graph *g;
  clave_builder *b;
  clave_id *sizes, *tensors; /* owned; 0: not made yet */
  bool copy;                 /* constants */
  void *zeros;               /* owned; for constants without data, in questions; or NULL */
} maker;

/* The host scalar of a size, by 1 + its index. */
static clave_id size_id(const maker *m, uint32_t size) {
  if (!size) return 0;
  const clave_delegate_size *s = &m->g->sizes[size - 1];
  clave_id *id = &m->sizes[size - 1];
  if (!*id) *id = clave_builder_value(m->b, s->name, CLAVE_I64, s->min, s->max);
  return *id;
}

static void make_tensor(maker *m, uint32_t index, clave_slot_kind kind) {
  const clave_delegate_tensor *t = &m->g->tensors[index];
  clave_id sizes[CLAVE_MAX_RANK];
  if (m->tensors[index]) return;
  if (kind == CLAVE_SLOT_CONSTANT) {
    void *data = m->zeros ? m->zeros : (void *)t->data;
    const clave_tensor value = clave_tensor_make(t->dtype, t->rank, t->dims, data);
    m->tensors[index] = clave_builder_constant(m->b, t->name, &value, m->copy);
    return;
  }
  for (int k = 0; k < t->rank; k++) sizes[k] = size_id(m, t->sizes[k]);
  m->tensors[index] = clave_builder_tensor(m->b, kind, t->name, t->dtype, t->rank, t->dims, sizes);
}

/* What a state begins with, as a constant of its name and " at first". */
static clave_status make_initial(const maker *m, uint32_t index) {
  static const char ending[] = " at first";
  const clave_delegate_tensor *t = &m->g->tensors[index];
  const void *first = m->g->initial ? m->g->initial[index] : NULL;
  if (!first) return NULL;
  char *name = malloc(strlen(t->name) + sizeof ending);
  if (!name) return status_no_memory();
  strcat(strcpy(name, t->name), ending);
  const clave_tensor value = clave_tensor_make(t->dtype, t->rank, t->dims, (void *)first);
  const clave_id constant = clave_builder_constant(m->b, name, &value, m->copy);
  clave_builder_initial(m->b, m->tensors[index], constant);
  free(name);
  return NULL;
}

static bool set_sizes(const maker *m, const clave_delegate_field *f) {
  clave_id *ids = calloc((size_t)f->n + 1, sizeof *ids);
  for (uint32_t i = 0; ids && f->tensors && i < f->n; i++) ids[i] = size_id(m, f->tensors[i]);
  if (ids) clave_builder_set_sizes(m->b, f->name, f->ints, ids, f->n);
  free(ids);
  return ids != NULL;
}

static bool set_ints(const maker *m, const clave_delegate_field *f) {
  int32_t *values = calloc((size_t)f->n + 1, sizeof *values);
  for (uint32_t i = 0; values && i < f->n; i++) values[i] = (int32_t)f->ints[i];
  if (values) clave_builder_set_ints(m->b, f->name, values, f->n);
  free(values);
  return values != NULL;
}

static bool set_list(const maker *m, const clave_delegate_field *f) {
  clave_id *ids = calloc((size_t)f->n + 1, sizeof *ids);
  for (uint32_t i = 0; ids && i < f->n; i++) ids[i] = m->tensors[f->tensors[i]];
  if (ids) clave_builder_set_tensors(m->b, f->name, ids, f->n);
  free(ids);
  return ids != NULL;
}

static bool add_step(const maker *m, const clave_delegate_field *f) {
  clave_operand *list = calloc((size_t)f->n + 1, sizeof *list);
  for (uint32_t i = 0; list && i < f->n; i++) {
    const clave_delegate_operand *o = &f->operands[i];
    list[i] = (clave_operand){
        .source = (clave_operand_source)o->source, .index = (uint32_t)o->i, .i = o->i, .f = o->f};
  }
  if (list) clave_builder_step(m->b, f->name, f->dtype, list, f->n);
  free(list);
  return list != NULL;
}

/* False: no memory. */
static bool set_field(const maker *m, const clave_delegate_field *f) {
  switch (f->kind) {
    case CLAVE_DELEGATE_READS:
    case CLAVE_DELEGATE_WRITES:
      clave_builder_set_tensor(m->b, f->name, m->tensors[f->tensors[0]]);
      break;
    case CLAVE_DELEGATE_READS_LIST:
    case CLAVE_DELEGATE_WRITES_LIST:
      return set_list(m, f);
    case CLAVE_DELEGATE_INT:
      clave_builder_set_int(m->b, f->name, f->i);
      break;
    case CLAVE_DELEGATE_FLOAT:
      clave_builder_set_float(m->b, f->name, f->f);
      break;
    case CLAVE_DELEGATE_BOOL:
      clave_builder_set_bool(m->b, f->name, f->i != 0);
      break;
    case CLAVE_DELEGATE_TEXT:
      clave_builder_set_text(m->b, f->name, f->text);
      break;
    case CLAVE_DELEGATE_INTS:
      return set_ints(m, f);
    case CLAVE_DELEGATE_SIZES:
      return set_sizes(m, f);
    case CLAVE_DELEGATE_STEP:
      return add_step(m, f);
  }
  return true;
}

static clave_status add_node(const maker *m, const clave_delegate_node *n) {
  clave_builder_op(m->b, n->op, n->name);
  for (uint32_t i = 0; i < n->n_fields; i++)
    if (!set_field(m, &n->fields[i])) return status_no_memory();
  return NULL;
}

static clave_status check_data(const clave_delegate_tensor *t, uint32_t index) {
  bool empty = false;
  for (int k = 0; k < t->rank; k++) empty = empty || t->dims[k] == 0;
  for (int k = 0; k < t->rank; k++)
    if (t->sizes[k]) return INVALID("constant %u ('%.60s') has an open dimension", index, t->name);
  if (t->data || empty) return NULL;
  return INVALID("constant %u ('%.60s') has no data", index, t->name);
}

static clave_status add_whole(maker *m) {
  const clave_delegate_graph *g = m->g;
  for (uint32_t i = 0; i < g->n_tensors; i++) {
    if (g->tensors[i].kind == CLAVE_SLOT_CONSTANT) TRY(check_data(&g->tensors[i], i));
    make_tensor(m, i, g->tensors[i].kind);
    TRY(make_initial(m, i));
  }
  clave_builder_method(m->b, "forward");
  for (uint32_t i = 0; i < g->n_tensors; i++) {
    const clave_delegate_tensor *t = &g->tensors[i];
    if (t->kind == CLAVE_SLOT_INPUT) clave_builder_input(m->b, t->name, m->tensors[i]);
  }
  for (uint32_t i = 0; i < g->n_nodes; i++) TRY(add_node(m, &g->nodes[i]));
  for (uint32_t i = 0; i < g->n_tensors; i++) {
    const clave_delegate_tensor *t = &g->tensors[i];
    if (t->kind == CLAVE_SLOT_OUTPUT) clave_builder_output(m->b, t->name, m->tensors[i]);
  }
  for (uint32_t i = 0; i < g->n_updates; i++)
    clave_builder_update(m->b, m->tensors[g->updates[i].state], m->tensors[g->updates[i].tensor]);
  return NULL;
}

/* Zeros for the largest constant without data that the node reads; pages that nobody touches. */
static clave_status make_zeros(maker *m, const clave_delegate_node *n) {
  size_t most = 1;
  for (uint32_t i = 0; i < n->n_fields; i++) {
    const clave_delegate_field *f = &n->fields[i];
    for (uint32_t k = 0; reads_tensors(f->kind) && k < f->n; k++) {
      const clave_delegate_tensor *t = &m->g->tensors[f->tensors[k]];
      size_t bytes = clave_dtype_size(t->dtype);
      if (t->kind != CLAVE_SLOT_CONSTANT) continue;
      for (int d = 0; d < t->rank; d++)
        if (__builtin_mul_overflow(bytes, (size_t)t->dims[d], &bytes))
          return INVALID("the size of constant '%.60s' overflows", t->name);
      if (bytes > most) most = bytes;
    }
  }
  m->zeros = calloc(most, 1);
  return m->zeros ? NULL : status_no_memory();
}

/* Makes the operands or the results of a node, those that are not there yet, and lists them. */
static void add_arguments(maker *m, const clave_delegate_node *n, bool results) {
  for (uint32_t i = 0; i < n->n_fields; i++) {
    const clave_delegate_field *f = &n->fields[i];
    if (!(results ? writes_tensors(f->kind) : reads_tensors(f->kind))) continue;
    for (uint32_t k = 0; k < f->n; k++) {
      const clave_delegate_tensor *t = &m->g->tensors[f->tensors[k]];
      if (m->tensors[f->tensors[k]]) continue;
      const bool stays =
          t->kind == CLAVE_SLOT_STATE || (!results && t->kind == CLAVE_SLOT_CONSTANT);
      make_tensor(m, f->tensors[k],
                  stays     ? t->kind
                  : results ? CLAVE_SLOT_OUTPUT
                            : CLAVE_SLOT_INPUT);
      if (!stays && !results) clave_builder_input(m->b, t->name, m->tensors[f->tensors[k]]);
    }
  }
}

static void list_results(const maker *m, const clave_delegate_node *n) {
  for (uint32_t i = 0; i < n->n_fields; i++) {
    const clave_delegate_field *f = &n->fields[i];
    for (uint32_t k = 0; writes_tensors(f->kind) && k < f->n; k++) {
      const clave_delegate_tensor *t = &m->g->tensors[f->tensors[k]];
      if (t->kind != CLAVE_SLOT_STATE)
        clave_builder_output(m->b, t->name, m->tensors[f->tensors[k]]);
    }
  }
}

static clave_status add_alone(maker *m, const clave_delegate_node *n) {
  TRY(make_zeros(m, n));
  clave_builder_method(m->b, "forward");
  add_arguments(m, n, false);
  add_arguments(m, n, true);
  TRY(add_node(m, n));
  list_results(m, n);
  return NULL;
}

static clave_status build(maker *m, const clave_delegate_node *alone, clave_program **out) {
  TRY_CLAVE(clave_builder_create(&m->b));
  m->sizes = calloc((size_t)m->g->n_sizes + 1, sizeof *m->sizes);
  m->tensors = calloc((size_t)m->g->n_tensors + 1, sizeof *m->tensors);
  if (!m->sizes || !m->tensors) return status_no_memory();
  TRY(alone ? add_alone(m, alone) : add_whole(m));
  return own(clave_builder_finish(m->b, out));
}

static clave_status build_with(maker *m, const clave_delegate_node *alone, clave_program **out) {
  *out = NULL;
  clave_status st = build(m, alone, out);
  clave_builder_destroy(m->b);
  free(m->sizes);
  free(m->tensors);
  return st;
}

clave_status graph_build(const clave_delegate_graph *g, bool copy, clave_program **out) {
  maker m = {.g = g, .copy = copy};
  return build_with(&m, NULL, out);
}

clave_status graph_build_node(const clave_delegate_graph *g, uint32_t node, void **borrowed,
                              clave_program **out) {
  maker m = {.g = g};
  clave_status st = build_with(&m, &g->nodes[node], out);
  *borrowed = m.zeros;
  return st;
}
