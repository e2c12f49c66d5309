/* Makes a program from a host's graph: checks the graph and calls the builder, whose verifier makes
 * all further checks. */
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

/* Fails if a list of n > 0 items is NULL. */
#define TRY_LIST(list, n) \
  if ((n) && !(list))     \
  return INVALID("%s: expected a list of %u items, got NULL", read_name(#list), (unsigned)(n))

static clave_status check_initial(const clave_delegate_graph *graph, uint32_t index) {
  const clave_delegate_tensor *tensor = &graph->tensors[index];
  if (!graph->initial || !graph->initial[index]) return NULL;
  if (tensor->kind != CLAVE_SLOT_STATE)
    return INVALID("the tensor has an initial value but is not a state");
  for (int k = 0; k < tensor->rank; k++)
    if (tensor->sizes[k])
      return INVALID("the tensor has an initial value, but dimension %d is open", k);
  return NULL;
}

static clave_status delegate_graph_check_tensor(const clave_delegate_graph *graph, uint32_t index) {
  const clave_delegate_tensor *tensor = &graph->tensors[index];
  TRY_GIVEN(tensor->name);
  if ((unsigned)tensor->kind > CLAVE_SLOT_TEMPORARY)
    return INVALID("kind: expected a clave_slot_kind, got %d", (int)tensor->kind);
  if (!clave_dtype_name(tensor->dtype)) return INVALID("unknown dtype %d", (int)tensor->dtype);
  if (tensor->rank < 0 || tensor->rank > CLAVE_MAX_RANK)
    return INVALID("expected rank 0 to %d, got %d", (int)CLAVE_MAX_RANK, tensor->rank);
  for (int k = 0; k < tensor->rank; k++) {
    if (tensor->sizes[k] > graph->n_sizes)
      return INVALID("dimension %d refers to size %u, and the graph has %u sizes", k,
                     tensor->sizes[k], graph->n_sizes);
    if (!tensor->sizes[k] && tensor->dims[k] < 0)
      return INVALID("dimension %d is %lld: expected 0 or more", k, (long long)tensor->dims[k]);
  }
  return check_initial(graph, index);
}

static clave_status delegate_graph_check_indices(const uint32_t *list, uint32_t n, uint32_t end) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] >= end)
      return INVALID("index %u is out of range: expected less than %u", list[i], end);
  return NULL;
}

static clave_status delegate_graph_check_operands(const clave_delegate_operand *list, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    const clave_delegate_operand *operand = &list[k];
    if ((unsigned)operand->source > CLAVE_DELEGATE_OPERAND_FLOAT)
      return INVALID("operand %u: expected a clave_delegate_source, got %d", k,
                     (int)operand->source);
    if (operand->source <= CLAVE_DELEGATE_OPERAND_STEP && operand->i != (uint32_t)operand->i)
      return INVALID("operand %u: expected 0 to 4294967295, got %s %lld", k,
                     operand->source == CLAVE_DELEGATE_OPERAND_STEP ? "step" : "input",
                     (long long)operand->i);
  }
  return NULL;
}

static clave_status check_field(const clave_delegate_graph *graph,
                                const clave_delegate_field *field) {
  TRY_GIVEN(field->name);
  switch (field->kind) {
    case CLAVE_DELEGATE_READS:
    case CLAVE_DELEGATE_WRITES:
      if (field->n != 1) return INVALID("expected 1 tensor, got %u", field->n);
    /* fallthrough */
    case CLAVE_DELEGATE_READS_LIST:
    case CLAVE_DELEGATE_WRITES_LIST:
      TRY_LIST(field->tensors, field->n);
      return delegate_graph_check_indices(field->tensors, field->n, graph->n_tensors);
    case CLAVE_DELEGATE_SIZES:
      TRY_LIST(field->ints, field->n);
      return field->tensors
                 ? delegate_graph_check_indices(field->tensors, field->n, graph->n_sizes + 1)
                 : NULL;
    case CLAVE_DELEGATE_INTS:
      TRY_LIST(field->ints, field->n);
      for (uint32_t i = 0; i < field->n; i++)
        if (field->ints[i] != (int32_t)field->ints[i])
          return INVALID("%lld does not fit in 32 bits", (long long)field->ints[i]);
      return NULL;
    case CLAVE_DELEGATE_STEP:
      TRY_LIST(field->operands, field->n);
      return delegate_graph_check_operands(field->operands, field->n);
    case CLAVE_DELEGATE_TEXT:
      TRY_GIVEN(field->text);
      return NULL;
    case CLAVE_DELEGATE_INT:
    case CLAVE_DELEGATE_FLOAT:
    case CLAVE_DELEGATE_BOOL:
      return NULL;
  }
  return INVALID("kind: expected a clave_delegate_field_kind, got %d", (int)field->kind);
}

static clave_status delegate_graph_check_node(const clave_delegate_graph *graph,
                                              const clave_delegate_node *node) {
  TRY_GIVEN(node->op);
  TRY_GIVEN(node->name);
  TRY_LIST(node->fields, node->n_fields);
  for (uint32_t i = 0; i < node->n_fields; i++)
    TRY(status_while(check_field(graph, &node->fields[i]), "field %u of op '%.60s'", i, node->op));
  return NULL;
}

clave_status graph_check(const clave_delegate_graph *given, clave_delegate_graph *graph) {
  if (!given) return INVALID("graph is NULL");
  TRY(sized_read(given, graph, SIZED(clave_delegate_graph, n_nodes)));
  TRY_LIST(graph->sizes, graph->n_sizes);
  TRY_LIST(graph->tensors, graph->n_tensors);
  TRY_LIST(graph->nodes, graph->n_nodes);
  for (uint32_t i = 0; i < graph->n_sizes; i++)
    if (!graph->sizes[i].name) return INVALID("size %u has no name", i);
  for (uint32_t i = 0; i < graph->n_tensors; i++)
    TRY(status_while(delegate_graph_check_tensor(graph, i), "tensor %u of the graph", i));
  for (uint32_t i = 0; i < graph->n_nodes; i++)
    TRY(status_while(delegate_graph_check_node(graph, &graph->nodes[i]), "node %u of the graph",
                     i));
  TRY_LIST(graph->updates, graph->n_updates);
  for (uint32_t i = 0; i < graph->n_updates; i++)
    TRY(status_while(
        delegate_graph_check_indices(
            (uint32_t[]){graph->updates[i].state, graph->updates[i].tensor}, 2, graph->n_tensors),
        "update %u of the graph", i));
  return NULL;
}

/* ---------------------------------------------------------------- building */

typedef struct maker {
  const clave_delegate_graph *graph;
  clave_builder *builder;
  clave_id *sizes, *tensors; /* owned; 0: not made yet */
  bool copy;                 /* copies constants */
  void *zeros;               /* owned; data of constants in query; or NULL */
} maker;

/* Returns the host scalar of a size, and creates it at the first use. size: 1 + the index of the
 * size; 0 means no size, for which it returns 0. */
static clave_id size_id(const maker *maker, uint32_t size) {
  if (!size) return 0;
  const clave_delegate_size *s = &maker->graph->sizes[size - 1];
  clave_id *id = &maker->sizes[size - 1];
  if (!*id) *id = clave_builder_value(maker->builder, s->name, CLAVE_I64, s->min, s->max);
  return *id;
}

static void make_tensor(maker *maker, uint32_t index, clave_slot_kind kind) {
  const clave_delegate_tensor *tensor = &maker->graph->tensors[index];
  clave_id sizes[CLAVE_MAX_RANK];
  if (maker->tensors[index]) return;
  if (kind == CLAVE_SLOT_CONSTANT) {
    void *data = maker->zeros ? maker->zeros : (void *)tensor->data;
    const clave_tensor value = clave_tensor_make(tensor->dtype, tensor->rank, tensor->dims, data);
    maker->tensors[index] =
        clave_builder_constant(maker->builder, tensor->name, &value, maker->copy);
    return;
  }
  for (int k = 0; k < tensor->rank; k++) sizes[k] = size_id(maker, tensor->sizes[k]);
  maker->tensors[index] = clave_builder_tensor(maker->builder, kind, tensor->name, tensor->dtype,
                                               tensor->rank, tensor->dims, sizes);
}

/* Sets a state's initial value, as a constant with its name and " at first". */
static clave_status make_initial(const maker *maker, uint32_t index) {
  static const char ending[] = " at first";
  const clave_delegate_tensor *tensor = &maker->graph->tensors[index];
  const void *first = maker->graph->initial ? maker->graph->initial[index] : NULL;
  if (!first) return NULL;
  char *name = malloc(strlen(tensor->name) + sizeof ending);
  if (!name) return status_no_memory();
  strcat(strcpy(name, tensor->name), ending);
  const clave_tensor value =
      clave_tensor_make(tensor->dtype, tensor->rank, tensor->dims, (void *)first);
  const clave_id constant = clave_builder_constant(maker->builder, name, &value, maker->copy);
  clave_builder_initial(maker->builder, maker->tensors[index], constant);
  free(name);
  return NULL;
}

static bool delegate_graph_set_sizes(const maker *maker, const clave_delegate_field *field) {
  clave_id *ids = calloc((size_t)field->n + 1, sizeof *ids);
  for (uint32_t i = 0; ids && field->tensors && i < field->n; i++)
    ids[i] = size_id(maker, field->tensors[i]);
  if (ids) clave_builder_set_sizes(maker->builder, field->name, field->ints, ids, field->n);
  free(ids);
  return ids != NULL;
}

static bool set_ints(const maker *maker, const clave_delegate_field *field) {
  int32_t *values = calloc((size_t)field->n + 1, sizeof *values);
  for (uint32_t i = 0; values && i < field->n; i++) values[i] = (int32_t)field->ints[i];
  if (values) clave_builder_set_ints(maker->builder, field->name, values, field->n);
  free(values);
  return values != NULL;
}

static bool set_list(const maker *maker, const clave_delegate_field *field) {
  clave_id *ids = calloc((size_t)field->n + 1, sizeof *ids);
  for (uint32_t i = 0; ids && i < field->n; i++) ids[i] = maker->tensors[field->tensors[i]];
  if (ids) clave_builder_set_tensors(maker->builder, field->name, ids, field->n);
  free(ids);
  return ids != NULL;
}

static bool delegate_graph_add_step(const maker *maker, const clave_delegate_field *field) {
  clave_operand *list = calloc((size_t)field->n + 1, sizeof *list);
  for (uint32_t i = 0; list && i < field->n; i++) {
    const clave_delegate_operand *operand = &field->operands[i];
    list[i] = (clave_operand){.source = (clave_operand_source)operand->source,
                              .index = (uint32_t)operand->i,
                              .i = operand->i,
                              .f = operand->f};
  }
  if (list) clave_builder_step(maker->builder, field->name, field->dtype, list, field->n);
  free(list);
  return list != NULL;
}

/* Returns false if memory is exhausted. */
static bool delegate_graph_set_field(const maker *maker, const clave_delegate_field *field) {
  switch (field->kind) {
    case CLAVE_DELEGATE_READS:
    case CLAVE_DELEGATE_WRITES:
      clave_builder_set_tensor(maker->builder, field->name, maker->tensors[field->tensors[0]]);
      break;
    case CLAVE_DELEGATE_READS_LIST:
    case CLAVE_DELEGATE_WRITES_LIST:
      return set_list(maker, field);
    case CLAVE_DELEGATE_INT:
      clave_builder_set_int(maker->builder, field->name, field->i);
      break;
    case CLAVE_DELEGATE_FLOAT:
      clave_builder_set_float(maker->builder, field->name, field->f);
      break;
    case CLAVE_DELEGATE_BOOL:
      clave_builder_set_bool(maker->builder, field->name, field->i != 0);
      break;
    case CLAVE_DELEGATE_TEXT:
      clave_builder_set_text(maker->builder, field->name, field->text);
      break;
    case CLAVE_DELEGATE_INTS:
      return set_ints(maker, field);
    case CLAVE_DELEGATE_SIZES:
      return delegate_graph_set_sizes(maker, field);
    case CLAVE_DELEGATE_STEP:
      return delegate_graph_add_step(maker, field);
  }
  return true;
}

static clave_status delegate_graph_add_node(const maker *maker, const clave_delegate_node *node) {
  clave_builder_op(maker->builder, node->op, node->name);
  for (uint32_t i = 0; i < node->n_fields; i++)
    if (!delegate_graph_set_field(maker, &node->fields[i])) return status_no_memory();
  return NULL;
}

static clave_status check_data(const clave_delegate_tensor *tensor, uint32_t index) {
  bool empty = false;
  for (int k = 0; k < tensor->rank; k++) empty = empty || tensor->dims[k] == 0;
  for (int k = 0; k < tensor->rank; k++)
    if (tensor->sizes[k])
      return INVALID("constant %u ('%.60s') has an open dimension", index, tensor->name);
  if (tensor->data || empty) return NULL;
  return INVALID("constant %u ('%.60s') has no data", index, tensor->name);
}

static clave_status add_whole(maker *maker) {
  const clave_delegate_graph *graph = maker->graph;
  for (uint32_t i = 0; i < graph->n_tensors; i++) {
    if (graph->tensors[i].kind == CLAVE_SLOT_CONSTANT) TRY(check_data(&graph->tensors[i], i));
    make_tensor(maker, i, graph->tensors[i].kind);
    TRY(make_initial(maker, i));
  }
  clave_builder_method(maker->builder, "forward");
  for (uint32_t i = 0; i < graph->n_tensors; i++) {
    const clave_delegate_tensor *tensor = &graph->tensors[i];
    if (tensor->kind == CLAVE_SLOT_INPUT)
      clave_builder_input(maker->builder, tensor->name, maker->tensors[i]);
  }
  for (uint32_t i = 0; i < graph->n_nodes; i++)
    TRY(delegate_graph_add_node(maker, &graph->nodes[i]));
  for (uint32_t i = 0; i < graph->n_tensors; i++) {
    const clave_delegate_tensor *t = &graph->tensors[i];
    if (t->kind == CLAVE_SLOT_OUTPUT)
      clave_builder_output(maker->builder, t->name, maker->tensors[i]);
  }
  for (uint32_t i = 0; i < graph->n_updates; i++)
    clave_builder_update(maker->builder, maker->tensors[graph->updates[i].state],
                         maker->tensors[graph->updates[i].tensor]);
  return NULL;
}

/* Allocates zeros for the largest constant that the node reads. The pages are never touched. */
static clave_status make_zeros(maker *maker, const clave_delegate_node *node) {
  size_t most = 1;
  for (uint32_t i = 0; i < node->n_fields; i++) {
    const clave_delegate_field *field = &node->fields[i];
    for (uint32_t k = 0; reads_tensors(field->kind) && k < field->n; k++) {
      const clave_delegate_tensor *tensor = &maker->graph->tensors[field->tensors[k]];
      size_t bytes = clave_dtype_size(tensor->dtype);
      if (tensor->kind != CLAVE_SLOT_CONSTANT) continue;
      for (int d = 0; d < tensor->rank; d++)
        if (__builtin_mul_overflow(bytes, (size_t)tensor->dims[d], &bytes))
          return INVALID("the size of constant '%.60s' overflows", tensor->name);
      if (bytes > most) most = bytes;
    }
  }
  maker->zeros = calloc(most, 1);
  return maker->zeros ? NULL : status_no_memory();
}

/* Makes the operands or results of a node that do not exist yet, and adds inputs to the method. */
static void add_arguments(maker *maker, const clave_delegate_node *node, bool results) {
  for (uint32_t i = 0; i < node->n_fields; i++) {
    const clave_delegate_field *field = &node->fields[i];
    if (!(results ? writes_tensors(field->kind) : reads_tensors(field->kind))) continue;
    for (uint32_t k = 0; k < field->n; k++) {
      const clave_delegate_tensor *tensor = &maker->graph->tensors[field->tensors[k]];
      if (maker->tensors[field->tensors[k]]) continue;
      const bool stays =
          tensor->kind == CLAVE_SLOT_STATE || (!results && tensor->kind == CLAVE_SLOT_CONSTANT);
      make_tensor(maker, field->tensors[k],
                  stays     ? tensor->kind
                  : results ? CLAVE_SLOT_OUTPUT
                            : CLAVE_SLOT_INPUT);
      if (!stays && !results)
        clave_builder_input(maker->builder, tensor->name, maker->tensors[field->tensors[k]]);
    }
  }
}

static void list_results(const maker *maker, const clave_delegate_node *node) {
  for (uint32_t i = 0; i < node->n_fields; i++) {
    const clave_delegate_field *field = &node->fields[i];
    for (uint32_t k = 0; writes_tensors(field->kind) && k < field->n; k++) {
      const clave_delegate_tensor *tensor = &maker->graph->tensors[field->tensors[k]];
      if (tensor->kind != CLAVE_SLOT_STATE)
        clave_builder_output(maker->builder, tensor->name, maker->tensors[field->tensors[k]]);
    }
  }
}

static clave_status add_alone(maker *maker, const clave_delegate_node *node) {
  TRY(make_zeros(maker, node));
  clave_builder_method(maker->builder, "forward");
  add_arguments(maker, node, false);
  add_arguments(maker, node, true);
  TRY(delegate_graph_add_node(maker, node));
  list_results(maker, node);
  return NULL;
}

static clave_status delegate_graph_build(maker *maker, const clave_delegate_node *alone,
                                         clave_program **out) {
  TRY_CLAVE(clave_builder_create(&maker->builder));
  maker->sizes = calloc((size_t)maker->graph->n_sizes + 1, sizeof *maker->sizes);
  maker->tensors = calloc((size_t)maker->graph->n_tensors + 1, sizeof *maker->tensors);
  if (!maker->sizes || !maker->tensors) return status_no_memory();
  TRY(alone ? add_alone(maker, alone) : add_whole(maker));
  return own(clave_builder_finish(maker->builder, out));
}

static clave_status delegate_graph_build_with(maker *maker, const clave_delegate_node *alone,
                                              clave_program **out) {
  *out = NULL;
  clave_status st = delegate_graph_build(maker, alone, out);
  clave_builder_destroy(maker->builder);
  free(maker->sizes);
  free(maker->tensors);
  return st;
}

clave_status graph_build(const clave_delegate_graph *graph, bool copy, clave_program **out) {
  maker maker = {.graph = graph, .copy = copy};
  return delegate_graph_build_with(&maker, NULL, out);
}

clave_status graph_build_node(const clave_delegate_graph *graph, uint32_t node, void **borrowed,
                              clave_program **out) {
  maker maker = {.graph = graph};
  clave_status st = delegate_graph_build_with(&maker, &graph->nodes[node], out);
  *borrowed = maker.zeros;
  return st;
}
