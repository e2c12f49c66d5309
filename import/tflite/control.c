/* If and While: their subgraphs become bodies. CALL_ONCE and resource variables: state. */
#include <string.h>

#include "import/tflite/converters.h"

/* ---------------------------------------------------------------- bodies */

/* Converts a subgraph whose inputs are these values (n). outputs: (n_outputs), channels last. */
static bool convert_body(operation *op, int64_t index, value *const *inputs, int n, value **outputs,
                         int n_outputs) {
  importer *im = op->im;
  tflite_import *tflite = op->tflite;
  subgraph graph;
  bool known = true;
  if (tflite->depth >= MAX_BODY_DEPTH) import_invalid(im, "subgraphs call each other");
  if (!import_ok(im) || !tflite_open_subgraph(tflite, index, &graph)) return false;
  if (graph.inputs.count != (uint32_t)n || graph.outputs.count != (uint32_t)n_outputs) {
    import_invalid(im, "subgraph '%.60s' has %u inputs and %u results, expected %d and %d",
                   graph.name, graph.inputs.count, graph.outputs.count, n, n_outputs);
    return false;
  }
  for (int i = 0; i < n; i++) {
    const int64_t t = flat_int_at(&graph.inputs, (uint32_t)i);
    if (t < 0 || t >= graph.n || graph.operands[t].is_bound) {
      import_invalid(im, "input %d of subgraph '%.60s' is tensor %lld", i, graph.name,
                     (long long)t);
      return false;
    }
    if (inputs[i] && inputs[i]->type != graph.operands[t].dtype)
      import_invalid(im, "input %d of subgraph '%.60s' has another dtype", i, graph.name);
    tflite_bind(&graph.operands[t], inputs[i]);
  }
  tflite->depth++;
  if (import_ok(im)) tflite_convert_operators(tflite, &graph);
  tflite->depth--;
  for (int i = 0; i < n_outputs && import_ok(im); i++) {
    const int64_t t = flat_int_at(&graph.outputs, (uint32_t)i);
    operand *x = t >= 0 && t < graph.n ? &graph.operands[t] : NULL;
    if (x && !x->is_bound && tflite_is_constant(tflite, x))
      tflite_bind(x, tflite_constant(tflite, x));
    if (!x || !x->is_bound) {
      import_invalid(im, "result %d of subgraph '%.60s' is not computed", i, graph.name);
      return false;
    }
    outputs[i] = x->values[LAST] || x->values[FIRST] ? tflite_in_layout(im, x, LAST) : NULL;
    known = known && outputs[i];
  }
  return known && import_ok(im);
}

/* Reads the operator's inputs from `first` on, as they are stored. */
static value **body_inputs(operation *op, int first) {
  const int n = op->n_inputs > first ? op->n_inputs - first : 0;
  value **out = import_alloc(op->im, (size_t)n, sizeof *out);
  for (int i = 0; out && i < n; i++) {
    operand *x = tflite_operand(op, first + i);
    if (x && x->type == TFLITE_RESOURCE) import_unsupported(op->im, "a resource in a body");
    out[i] = tflite_parameter(op, first + i);
  }
  return import_ok(op->im) ? out : NULL;
}

/* Sets the tensors that a body returns. A value that was not computed in the body, or is returned
 * twice, is copied. */
static bool control_body_results(importer *im, value **values, int n, clave_id *out) {
  for (int i = 0; i < n && import_ok(im); i++) {
    bool own = values[i]->tensor && values[i]->scope == import_scope(im);
    for (int k = 0; k < i; k++) own = own && values[k] != values[i];
    value *copy = own && !values[i]->is_argument ? values[i] : emit_copy(im, values[i]);
    if (!copy) return false;
    out[i] = copy->tensor;
  }
  return import_ok(im);
}

/* Refuses sizes that are not the same as those of `like`. */
static bool same_shapes(importer *im, value *const *likes, value *const *values, int n) {
  for (int i = 0; i < n; i++) {
    bool same = likes[i]->type == values[i]->type && likes[i]->rank == values[i]->rank;
    for (int d = 0; same && d < likes[i]->rank; d++)
      same =
          number_is_same(number_again(im, likes[i]->dims[d]), number_again(im, values[i]->dims[d]));
    if (same) continue;
    import_unsupported(im, "result %d of a body has another dtype or shape, or an open size", i);
    return false;
  }
  return import_ok(im);
}

/* Declares the results of a control op, of the shapes of `likes`. */
static bool declare_control_results(operation *op, value *const *likes, clave_id *ids,
                                    value **made) {
  number dims[CLAVE_MAX_RANK];
  for (int i = 0; i < op->n_outputs; i++) {
    for (int d = 0; d < likes[i]->rank; d++) dims[d] = number_again(op->im, likes[i]->dims[d]);
    made[i] = emit_declare(op->im, likes[i]->type, likes[i]->rank, dims);
    if (!made[i]) return false;
    ids[i] = made[i]->tensor;
  }
  return true;
}

/* ---------------------------------------------------------------- If */

typedef struct branch {
  value **outputs;
  clave_id body, *results;
  bool known;
} branch;

static branch control_branch(operation *op, const char *name, int64_t index, value *const *inputs) {
  importer *im = op->im;
  const size_t n = (size_t)op->n_outputs;
  branch out = {.outputs = import_alloc(im, n, sizeof *out.outputs),
                .results = import_alloc(im, n, sizeof *out.results)};
  if (!out.outputs || !out.results || !import_ok(im)) return out;
  out.body = import_begin_body(im, name, NULL, 0);
  out.known = import_ok(im) &&
              convert_body(op, index, inputs, op->n_inputs - 1, out.outputs, op->n_outputs) &&
              control_body_results(im, out.outputs, op->n_outputs, out.results);
  import_end_body(im, out.results, out.known ? (uint32_t)n : 0);
  return out;
}

void tflite_if(operation *op) {
  importer *im = op->im;
  value *condition = tflite_parameter(op, 0), **inputs = body_inputs(op, 1);
  const int64_t then = flat_int(&op->options, 0, 4, 0), other = flat_int(&op->options, 1, 4, 0);
  value **made = import_alloc(im, (size_t)op->n_outputs, sizeof *made);
  clave_id *ids = import_alloc(im, (size_t)op->n_outputs, sizeof *ids);
  if (!condition || !inputs || !made || !ids || !import_ok(im)) return;
  if (condition->type != CLAVE_BOOL || value_count(condition) != 1)
    import_invalid(im, "expected a condition of one BOOL");
  const number *known = value_known(im, condition);
  if (known && !known[0].id) {
    if (!convert_body(op, known[0].i ? then : other, inputs, op->n_inputs - 1, made, op->n_outputs))
      return;
    for (int i = 0; i < op->n_outputs; i++) tflite_set(op, i, made[i]);
    return;
  }
  for (int i = 0; i < op->n_inputs - 1; i++) (void)emit_prepare(im, inputs[i]);
  value *predicate = emit_reshape(im, condition, 0, NULL);
  if (!emit_prepare(im, predicate)) return;
  const branch yes = control_branch(op, "then", then, inputs),
               no = yes.known ? control_branch(op, "else", other, inputs) : (branch){0};
  if (!yes.known || !no.known || !same_shapes(im, yes.outputs, no.outputs, op->n_outputs) ||
      !declare_control_results(op, yes.outputs, ids, made))
    return;
  clave_builder_op(im->builder, "If", im->node);
  emit_set_tensor(im, "predicate", predicate);
  clave_builder_set_body(im->builder, "then_chain", yes.body);
  clave_builder_set_body(im->builder, "else_chain", no.body);
  clave_builder_set_tensors(im->builder, "results", ids, (uint32_t)op->n_outputs);
  for (int i = 0; i < op->n_outputs; i++) tflite_set(op, i, made[i]);
}

/* A composite is its decomposition, a subgraph. */
void tflite_composite(operation *op) {
  value **inputs = body_inputs(op, 0);
  value **made = import_alloc(op->im, (size_t)op->n_outputs, sizeof *made);
  const int64_t index = flat_int(&op->options2, 1, 4, 0);
  if (!inputs || !made || !import_ok(op->im)) return;
  if (index == 0) {
    import_unsupported(op->im, "composite '%.60s' without a decomposition",
                       flat_text(&op->options2, 0));
    return;
  }
  if (!convert_body(op, index, inputs, op->n_inputs, made, op->n_outputs)) return;
  for (int i = 0; i < op->n_outputs; i++) tflite_set(op, i, made[i]);
}

/* ---------------------------------------------------------------- While */

/* Converts the condition or the body of a loop. carried: (n) the values before it. */
static clave_id loop_body(operation *op, const char *name, int64_t index, value *const *carried,
                          int n_results) {
  importer *im = op->im;
  const size_t n = (size_t)op->n_inputs;
  value **own = import_alloc(im, n, sizeof *own),
        **outputs = import_alloc(im, n + 1, sizeof *outputs);
  clave_id *args = import_alloc(im, n, sizeof *args),
           *results = import_alloc(im, n + 1, sizeof *args);
  if (!own || !outputs || !args || !results) return 0;
  for (size_t i = 0; i < n; i++) {
    own[i] = emit_declare(im, carried[i]->type, carried[i]->rank, carried[i]->dims);
    if (!own[i]) return 0;
    own[i]->is_argument = true;
    args[i] = own[i]->tensor;
  }
  const clave_id body = import_begin_body(im, name, args, (uint32_t)n);
  for (size_t i = 0; i < n; i++) own[i]->scope = import_scope(im);
  bool known = import_ok(im) && convert_body(op, index, own, (int)n, outputs, n_results);
  if (known && n_results == 1 && strcmp(name, "condition") == 0)
    outputs[0] = emit_reshape(im, outputs[0], 0, NULL);
  else if (known)
    known = same_shapes(im, carried, outputs, n_results);
  known = known && outputs[0] && control_body_results(im, outputs, n_results, results);
  import_end_body(im, results, known ? (uint32_t)n_results : 0);
  return known ? body : 0;
}

void tflite_while(operation *op) {
  importer *im = op->im;
  value **carried = body_inputs(op, 0);
  const int64_t test = flat_int(&op->options, 0, 4, 0), body = flat_int(&op->options, 1, 4, 0);
  const size_t n = (size_t)op->n_inputs;
  value **made = import_alloc(im, n, sizeof *made);
  clave_id *before = import_alloc(im, n, sizeof *before),
           *after = import_alloc(im, n, sizeof *after);
  if (op->n_inputs != op->n_outputs || op->n_inputs == 0)
    import_invalid(im, "%d inputs and %d results", op->n_inputs, op->n_outputs);
  if (!carried || !made || !before || !after || !import_ok(im)) return;
  for (size_t i = 0; i < n; i++) {
    if (!emit_prepare(im, carried[i])) return;
    before[i] = carried[i]->tensor;
  }
  const clave_id condition = loop_body(op, "condition", test, carried, 1);
  const clave_id step = condition ? loop_body(op, "body", body, carried, (int)n) : 0;
  if (!step || !declare_control_results(op, carried, after, made)) return;
  clave_builder_op(im->builder, "While", im->node);
  clave_builder_set_body(im->builder, "condition_chain", condition);
  clave_builder_set_body(im->builder, "body_chain", step);
  clave_builder_set_tensors(im->builder, "args", before, (uint32_t)n);
  clave_builder_set_tensors(im->builder, "results", after, (uint32_t)n);
  for (size_t i = 0; i < n; i++) tflite_set(op, (int)i, made[i]);
}

/* ---------------------------------------------------------------- variables */

/* The variable of this name, which is made at its first use. */
void tflite_var_handle(operation *op) {
  tflite_import *tflite = op->tflite;
  operand *out = tflite_result(op, 0);
  const char *container = flat_text(&op->options, 0), *name = flat_text(&op->options, 1);
  if (!out || !import_ok(op->im)) return;
  for (int i = 0; i < tflite->n_variables && !out->variable; i++)
    if (strcmp(tflite->variables[i].name, name) == 0 &&
        strcmp(tflite->variables[i].container, container) == 0)
      out->variable = &tflite->variables[i];
  if (out->variable) return;
  if (tflite->n_variables == MAX_VARIABLES) {
    import_unsupported(op->im, "more than %d variables", MAX_VARIABLES);
    return;
  }
  out->variable = &tflite->variables[tflite->n_variables++];
  *out->variable = (variable){.name = name, .container = container};
}

static variable *variable_of(operation *op) {
  operand *x = tflite_operand(op, 0);
  if (op->tflite->depth > 0 && !op->tflite->is_initializing)
    import_unsupported(op->im, "a variable in a body");
  if (x && x->variable) return import_ok(op->im) ? x->variable : NULL;
  import_unsupported(op->im, "a resource that is no variable of the model");
  return NULL;
}

void tflite_read_variable(operation *op) {
  const variable *variable = variable_of(op);
  if (variable && !variable->current)
    import_unsupported(op->im, "a variable that nothing has initialised");
  if (variable) tflite_set(op, 0, variable->current);
}

/* Makes the state. Its initial value: `from` if that is constant, or zeros. */
static value *make_variable_state(operation *op, const variable *variable, const value *from) {
  importer *im = op->im;
  for (int d = 0; d < from->rank; d++)
    if (from->dims[d].id) import_unsupported(im, "a variable of open size");
  if (!import_ok(im)) return NULL;
  const char *name = tflite_unique_name(op->tflite, variable->name);
  return emit_state(im, name, from->type, from->rank, from->dims);
}

void tflite_assign_variable(operation *op) {
  importer *im = op->im;
  variable *variable = variable_of(op);
  value *given = tflite_parameter(op, 1);
  if (!variable || !given || !import_ok(im)) return;
  const bool initial = op->tflite->is_initializing;
  if (initial && !value_is_constant(given))
    import_unsupported(im, "an initial value that is not constant");
  if (!variable->state && import_ok(im)) variable->state = make_variable_state(op, variable, given);
  if (!variable->state || !import_ok(im)) return;
  if (variable->state->type != given->type || !value_is_same_shape(variable->state, given)) {
    import_unsupported(im, "a variable that changes its dtype or shape");
    return;
  }
  if (initial) {
    if (emit_prepare(im, given))
      clave_builder_initial(im->builder, variable->state->tensor, given->tensor);
    variable->current = variable->state;
    return;
  }
  variable->current = given;
  variable->is_assigned = true;
}

/* Runs a subgraph at import, once: its assignments are the initial values of variables. */
void tflite_call_once(operation *op) {
  tflite_import *tflite = op->tflite;
  const int64_t index = flat_int(&op->options, 0, 4, 0);
  for (int i = 0; i < tflite->n_initialized; i++)
    if (tflite->initialized[i] == index) return;
  if (tflite->depth > 0 || tflite->is_initializing) import_unsupported(op->im, "a call in a body");
  if (tflite->n_initialized == MAX_VARIABLES) import_unsupported(op->im, "too many calls");
  if (!import_ok(op->im)) return;
  tflite->initialized[tflite->n_initialized++] = (uint32_t)index;
  tflite->is_initializing = true;
  (void)convert_body(op, index, NULL, 0, NULL, 0);
  tflite->is_initializing = false;
}
