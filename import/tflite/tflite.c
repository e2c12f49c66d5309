/* Converts a model: one method for each signature, or one for the first subgraph. */
#include "import/tflite/tflite.h"

#include <stdlib.h>
#include <string.h>

#include "import/tflite/node.h"

enum { HEADER_BYTES = 8, SCHEMA_VERSION = 3 };

bool tflite_is_model(const void *bytes, size_t size) {
  return size >= HEADER_BYTES && memcmp((const char *)bytes + 4, "TFL3", 4) == 0;
}

/* A method: a subgraph, and the names of its inputs and outputs. */
typedef struct signature {
  const char *name;
  flat_vector inputs, outputs; /* tables of names; empty: the tensors' names */
} signature;

/* ---------------------------------------------------------------- names */

/* Returns the name of the tensor in a list of a signature, or the tensor's own. */
static const char *name_in(const flat_vector *list, int64_t tensor, const operand *operand) {
  for (uint32_t i = 0; i < list->count; i++) {
    const flat_table row = flat_table_at(list, i);
    if (flat_int(&row, 1, 4, 0) == tensor) return flat_text(&row, 0);
  }
  return operand->name;
}

/* Returns the name, with a number if one of the n names before has it. */
static const char *distinct_name(importer *im, const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return import_text(im, "%s_%d", name, n);
  return name[0] ? name : import_text(im, "tensor_%d", n);
}

/* Sets the names of a method's inputs or outputs. */
static const char **interface_names(importer *im, const subgraph *graph, const flat_vector *tensors,
                                    const flat_vector *list) {
  const char **names = import_alloc(im, tensors->count, sizeof *names);
  if (tensors->count > MAX_NUMBERS) import_unsupported(im, "%u inputs or outputs", tensors->count);
  for (uint32_t i = 0; names && import_ok(im) && i < tensors->count; i++) {
    const int64_t t = flat_int_at(tensors, i);
    if (t < 0 || t >= graph->n) {
      import_invalid(im, "an input or output is tensor %lld of %u", (long long)t, graph->n);
      return NULL;
    }
    names[i] = distinct_name(im, names, (int)i, name_in(list, t, &graph->operands[t]));
  }
  return import_ok(im) ? names : NULL;
}

/* ---------------------------------------------------------------- inputs and outputs */

/* Open sizes are -1 in the signature's shape. The batch of all inputs is one size. */
static number input_dim(importer *im, const char *name, int d, int64_t size, number *batch) {
  if (size >= 0) return number_int(size);
  if (d == 0 && batch->id) return *batch;
  const number made = number_new(im, d == 0 ? "batch" : import_text(im, "%s_dim_%d", name, d),
                                 NUMBER_INT, 0, INT64_MAX);
  if (d == 0) *batch = made;
  return made;
}

static value *add_model_input(importer *im, operand *source, const char *name, number *batch) {
  number dims[CLAVE_MAX_RANK];
  const flat_vector shape = flat_list(&source->table, 0, 4), open = flat_list(&source->table, 7, 4);
  if (source->type == TFLITE_RESOURCE || !tflite_dtype(source->type, &source->dtype) ||
      source->type == TFLITE_INT4)
    import_unsupported(im, "dtype %s", tflite_dtype_name(source->type));
  if (shape.count > CLAVE_MAX_RANK) import_unsupported(im, "rank %u", shape.count);
  if (!import_ok(im)) return NULL;
  for (uint32_t d = 0; d < shape.count; d++) {
    const int64_t size = open.count == shape.count ? flat_int_at(&open, d) : flat_int_at(&shape, d);
    dims[d] = input_dim(im, name, (int)d, size, batch);
  }
  return emit_input(im, name, source->dtype, (int)shape.count, dims);
}

static void add_model_inputs(importer *im, subgraph *graph, const signature *signature) {
  const char **names = interface_names(im, graph, &graph->inputs, &signature->inputs);
  number batch = {0};
  for (uint32_t i = 0; names && i < graph->inputs.count && !im->fatal; i++) {
    operand *x = &graph->operands[flat_int_at(&graph->inputs, i)];
    im->node = names[i];
    if (x->is_bound) import_invalid(im, "one tensor is two inputs");
    value *input = add_model_input(im, x, names[i], &batch);
    tflite_bind(x, import_end_node(im, "input") ? input : NULL);
  }
  (void)import_end_node(im, "input");
}

static void add_model_outputs(tflite_import *tflite, subgraph *graph, const signature *signature) {
  importer *im = tflite->im;
  const char **names = interface_names(im, graph, &graph->outputs, &signature->outputs);
  for (uint32_t i = 0; names && i < graph->outputs.count && !im->fatal; i++) {
    operand *x = &graph->operands[flat_int_at(&graph->outputs, i)];
    im->node = names[i];
    if (!x->is_bound && tflite_is_constant(tflite, x)) tflite_bind(x, tflite_constant(tflite, x));
    if (!x->is_bound) import_invalid(im, "the output is the result of no operator");
    if (x->type == TFLITE_RESOURCE || x->type == TFLITE_COMPLEX64)
      import_unsupported(im, "an output of dtype %s", tflite_dtype_name(x->type));
    if (import_ok(im) && (x->values[LAST] || x->values[FIRST]))
      emit_output(im, names[i], tflite_in_layout(im, x, LAST));
    else if (!im->n_reported)
      import_unsupported(im, "a result that the operator does not have");
    (void)import_end_node(im, "output");
  }
  (void)import_end_node(im, "output");
}

/* Variables that the method assigns keep their last value for the next run. */
static void add_updates(tflite_import *tflite) {
  importer *im = tflite->im;
  for (int i = 0; i < tflite->n_variables && import_ok(im); i++) {
    variable *variable = &tflite->variables[i];
    if (variable->is_assigned && emit_prepare(im, variable->current))
      clave_builder_update(im->builder, variable->state->tensor, variable->current->tensor);
    variable->is_assigned = false;
    variable->current = variable->state;
  }
  (void)import_end_node(im, "variable");
}

/* ---------------------------------------------------------------- methods */

static void convert_method(tflite_import *tflite, int64_t index, const signature *signature) {
  importer *im = tflite->im;
  subgraph graph;
  im->node = signature->name;
  if (!tflite_open_subgraph(tflite, index, &graph)) {
    (void)import_end_node(im, "subgraph");
    return;
  }
  clave_builder_method(im->builder, signature->name);
  add_model_inputs(im, &graph, signature);
  tflite_convert_operators(tflite, &graph);
  if (!im->fatal) add_model_outputs(tflite, &graph, signature);
  if (!im->fatal && !im->n_reported) add_updates(tflite);
}

/* A model of one signature has one method, "forward". */
static void convert_signatures(tflite_import *tflite) {
  const flat_vector *list = &tflite->signatures;
  for (uint32_t i = 0; i < list->count && !tflite->im->fatal; i++) {
    const flat_table row = flat_table_at(list, i);
    const signature signature = {.name = list->count == 1 ? "forward" : flat_text(&row, 2),
                                 .inputs = flat_list(&row, 0, 4),
                                 .outputs = flat_list(&row, 1, 4)};
    const int64_t index = flat_int(&row, 4, 4, 0);
    if (!import_end_node(tflite->im, "signature")) return;
    convert_method(tflite, index, &signature);
  }
}

static void convert_tflite_model(tflite_import *tflite) {
  importer *im = tflite->im;
  const flat_table model = flat_root(&tflite->file);
  const int64_t version = flat_int(&model, 0, 4, 0);
  if (version != SCHEMA_VERSION)
    import_unsupported(im, "version %lld of the schema (expected %d)", (long long)version,
                       SCHEMA_VERSION);
  tflite->codes = flat_list(&model, 1, 4);
  tflite->subgraphs = flat_list(&model, 2, 4);
  tflite->buffers = flat_list(&model, 4, 4);
  tflite->signatures = flat_list(&model, 7, 4);
  tflite->variables = import_alloc(im, MAX_VARIABLES, sizeof *tflite->variables);
  tflite->initialized = import_alloc(im, MAX_VARIABLES, sizeof *tflite->initialized);
  const char *description = flat_text(&model, 3);
  if (!tflite->subgraphs.count) import_invalid(im, "the model has no subgraph");
  if (!import_end_node(im, "model")) return;
  clave_builder_producer(im->builder, description[0] ? description : "TFLite");
  if (tflite->signatures.count)
    convert_signatures(tflite);
  else
    convert_method(tflite, 0, &(signature){.name = "forward"});
}

void tflite_convert(importer *im, const import_source *source) {
  tflite_import tflite = {.im = im, .file = {im, source->bytes, source->size}};
  im->node = "model";
  if (!tflite_is_model(source->bytes, source->size)) {
    im->fatal = INVALID("expected a TFLite model, which has TFL3 at byte 4");
    return;
  }
  convert_tflite_model(&tflite);
  free(tflite.names);
}
