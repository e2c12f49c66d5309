/* If, Loop and Scan: their graphs become bodies of If, While and Scan. */
#include <string.h>

#include "import/onnx/control.h"

/* ---------------------------------------------------------------- graphs within nodes */

void onnx_convert_body(node *node, onnx_graph *graph, value *const *inputs, value **outputs) {
  onnx_import *onnx = node->onnx;
  const size_t names = onnx->n_bindings;
  onnx->graph_depth++;
  onnx_bind_initializers(onnx, graph);
  for (size_t i = 0; i < graph->n_inputs; i++) onnx_bind(onnx, graph->inputs[i].name, inputs[i]);
  onnx_convert_nodes(onnx, graph->nodes, graph->n_nodes);
  for (size_t i = 0; i < graph->n_outputs && !node->im->fatal; i++) {
    const onnx_binding *out = onnx_lookup(onnx, graph->outputs[i].name);
    if (!out)
      import_invalid(node->im, "'%.100s', a result of the body, is not computed",
                     graph->outputs[i].name);
    outputs[i] = out ? out->value : NULL;
  }
  onnx->graph_depth--;
  onnx_unbind(onnx, names);
}

/* Sets the tensors that a body returns. A value that was not computed in the body, or is returned
 * twice, is copied. False: a value is unknown, because of an unsupported node in the body. */
static bool body_results(importer *im, value **values, size_t n, clave_id *out) {
  for (size_t i = 0; i < n; i++) {
    if (!values[i]) return false;
    bool own = values[i]->tensor && values[i]->scope == import_scope(im);
    for (size_t k = 0; k < i; k++) own = own && values[k] != values[i];
    value *copy = own && !values[i]->is_argument ? values[i] : emit_copy(im, values[i]);
    if (!copy) return false;
    out[i] = copy->tensor;
  }
  return true;
}

/* Returns a tensor that a body gets, before the body begins. */
static value *body_argument(importer *im, clave_dtype type, int rank, const number *dims) {
  value *made = emit_declare(im, type, rank, dims);
  if (made) made->is_argument = true;
  return made;
}

/* ---------------------------------------------------------------- If */

typedef struct branch {
  value **outputs;
  clave_id body, *results;
  bool known; /* no result is unknown */
} branch;

static branch convert_branch(node *node, const char *name) {
  importer *im = node->im;
  onnx_graph *graph = node_graph(node, name);
  branch out = {0};
  if (!graph) return out;
  if (graph->n_inputs || graph->n_outputs != (size_t)node->n_outputs) {
    import_invalid(im, "%s: expected no inputs and %d results", name, node->n_outputs);
    return out;
  }
  out.outputs = import_alloc(im, graph->n_outputs, sizeof *out.outputs);
  out.results = import_alloc(im, graph->n_outputs, sizeof *out.results);
  if (!out.results) return out;
  out.body = import_begin_body(im, name, NULL, 0);
  onnx_convert_body(node, graph, NULL, out.outputs);
  out.known = body_results(im, out.outputs, graph->n_outputs, out.results);
  import_end_body(im, out.results, out.known ? (uint32_t)graph->n_outputs : 0);
  return out;
}

/* Sets the dims of a result. A size that depends on the branch is chosen by the condition. */
static bool join_branch_dims(node *node, const value *yes, const value *no, number condition,
                             number *dims) {
  importer *im = node->im;
  if (yes->type != no->type || yes->rank != no->rank || yes->bits != no->bits) {
    import_unsupported(im, "branches with results of different dtypes or ranks");
    return false;
  }
  for (int d = 0; d < yes->rank; d++)
    dims[d] =
        number_where(im, condition, number_again(im, yes->dims[d]), number_again(im, no->dims[d]));
  return import_ok(im);
}

static bool branches_have_same_dims(importer *im, const branch *yes, const branch *no, int n) {
  for (int i = 0; i < n; i++) {
    const value *a = yes->outputs[i], *b = no->outputs[i];
    for (int d = 0; d < a->rank && d < b->rank; d++)
      if (!number_is_same(number_again(im, a->dims[d]), number_again(im, b->dims[d]))) return false;
  }
  return true;
}

static void run_branches(node *node, value *predicate, const branch *yes, const branch *no) {
  importer *im = node->im;
  number dims[CLAVE_MAX_RANK], condition = number_bool(true);
  const number *known = value_known(im, predicate);
  const bool by_value = known || !branches_have_same_dims(im, yes, no, node->n_outputs);
  value **made = import_alloc(im, (size_t)node->n_outputs, sizeof *made);
  clave_id *results = import_alloc(im, (size_t)node->n_outputs, sizeof *results);
  if (!results) return;
  if (by_value) condition = number_to_bool(im, value_scalar(im, predicate, "cond"));
  for (int i = 0; i < node->n_outputs; i++) {
    if (!join_branch_dims(node, yes->outputs[i], no->outputs[i], condition, dims)) return;
    made[i] = emit_declare(im, yes->outputs[i]->type, yes->outputs[i]->rank, dims);
    if (!made[i]) return;
    made[i]->bits = yes->outputs[i]->bits;
    results[i] = made[i]->tensor;
  }
  value *scalar = by_value ? NULL : emit_reshape(im, predicate, 0, NULL);
  if (!by_value && !emit_prepare(im, scalar)) return;
  clave_builder_op(im->builder, "If", im->node);
  if (by_value)
    clave_builder_set_value(im->builder, "condition", condition.id);
  else
    emit_set_tensor(im, "predicate", scalar);
  clave_builder_set_body(im->builder, "then_chain", yes->body);
  clave_builder_set_body(im->builder, "else_chain", no->body);
  clave_builder_set_tensors(im->builder, "results", results, (uint32_t)node->n_outputs);
  for (int i = 0; i < node->n_outputs; i++) node_set(node, i, made[i]);
}

/* Converts the branch that is always taken, without a body. */
static void take_branch(node *node, bool yes) {
  onnx_graph *graph = node_graph(node, yes ? "then_branch" : "else_branch");
  (void)node_attribute(node, yes ? "else_branch" : "then_branch");
  if (graph && (graph->n_inputs || graph->n_outputs != (size_t)node->n_outputs))
    import_invalid(node->im, "the branch has not %d results", node->n_outputs);
  if (graph && import_ok(node->im)) onnx_convert_body(node, graph, NULL, node->outputs);
}

/* True if the graph has an op of this name, and otherwise only constants. */
static bool has_only(const onnx_graph *graph, const char *op) {
  bool found = false;
  for (size_t i = 0; graph && i < graph->n_nodes; i++) {
    const bool is = strcmp(graph->nodes[i].op, op) == 0;
    if (!is && strcmp(graph->nodes[i].op, "Constant") != 0) return false;
    found = found || is;
  }
  return found;
}

/* torch's script exporter writes squeeze(x, axis) of an open size as a branch whose results differ
 * in rank: squeezed if the size is 1, else x itself. What follows fits one rank only, so the size
 * must be 1, which is checked before each run. */
static bool is_squeeze(node *node, const number *known) {
  return known && known[0].id && has_only(node_graph(node, "then_branch"), "Squeeze") &&
         has_only(node_graph(node, "else_branch"), "Identity");
}

static void onnx_require(importer *im, number condition, const char *message) {
  if (!import_ok(im)) return;
  clave_builder_op(im->builder, "Check", im->node);
  clave_builder_set_text(im->builder, "kind", "ne");
  emit_set_number(im, "a", condition);
  emit_set_number(im, "b", number_int(0));
  clave_builder_set_text(im->builder, "message", message);
}

void onnx_if(node *node) {
  importer *im = node->im;
  value *predicate = node_required(node, 0);
  const number *known = value_known(im, predicate);
  if (!predicate) return;
  if (value_count(predicate) != 1) import_invalid(im, "cond has not one element");
  if (known && (!known[0].id || is_squeeze(node, known))) {
    if (known[0].id) onnx_require(im, known[0], "a squeezed dimension has size 1");
    take_branch(node, known[0].id || known[0].i);
    return;
  }
  const branch yes = convert_branch(node, "then_branch");
  const branch no = import_ok(im) ? convert_branch(node, "else_branch") : (branch){0};
  if (import_ok(im) && yes.known && no.known) run_branches(node, predicate, &yes, &no);
}

/* ---------------------------------------------------------------- loops */

/* A body that runs several times: carried values, then slices of xs. */
typedef struct loop {
  node *node;
  onnx_graph *graph;
  int n_carried, n_stacked; /* n_stacked: results of which each step has a slice */
  int first_result;         /* index of the first carried result of the graph; Loop: 1 */
  value **arguments;        /* (graph's inputs) */
  value **outputs;          /* (graph's outputs) */
  value **carried;          /* (n_carried) the values before the first step */
} loop;

/* True if the results have the dtypes and shapes of the arguments, as far as can be known. */
static bool keeps_shapes(const loop *loop) {
  importer *im = loop->node->im;
  for (int i = 0; i < loop->n_carried; i++) {
    const value *from = loop->carried[i], *to = loop->outputs[loop->first_result + i];
    bool same = from->type == to->type && from->rank == to->rank && from->bits == to->bits;
    for (int d = 0; same && d < from->rank; d++)
      same = from->dims[d].id || to->dims[d].id || from->dims[d].i == to->dims[d].i;
    if (same) continue;
    import_unsupported(im, "a loop changes the dtype or shape of '%.60s'",
                       loop->graph->outputs[loop->first_result + i].name);
    return false;
  }
  return true;
}

/* Declares the results after a loop: the carried values, then stacks of `count` slices. */
static bool declare_results(loop *loop, number count, value **made, clave_id *ids) {
  importer *im = loop->node->im;
  number dims[CLAVE_MAX_RANK + 1];
  for (int i = 0; i < loop->n_carried + loop->n_stacked; i++) {
    const bool stacked = i >= loop->n_carried;
    const value *like = stacked ? loop->outputs[loop->first_result + i] : loop->carried[i];
    dims[0] = count;
    for (int d = 0; d < like->rank; d++) dims[stacked + d] = number_again(im, like->dims[d]);
    if (like->rank + stacked > CLAVE_MAX_RANK)
      import_unsupported(im, "a tensor of rank %d", like->rank + stacked);
    made[i] = emit_declare(im, like->type, like->rank + stacked, dims);
    if (!made[i]) return false;
    made[i]->bits = like->bits;
    ids[i] = made[i]->tensor;
  }
  return true;
}

/* Makes arguments of the carried values, and tensors of the values before the first step. */
static bool declare_carried(loop *loop, int first_argument, clave_id *before, clave_id *args) {
  importer *im = loop->node->im;
  for (int i = 0; i < loop->n_carried; i++) {
    value *from = loop->carried[i];
    if (!emit_prepare(im, from)) return false;
    value *own = body_argument(im, from->type, from->rank, from->dims);
    if (!own) return false;
    own->bits = from->bits;
    loop->arguments[first_argument + i] = own;
    before[i] = from->tensor;
    args[i] = own->tensor;
  }
  return true;
}

static void enter_body(loop *loop) {
  for (size_t i = 0; i < loop->graph->n_inputs; i++)
    if (loop->arguments[i] && loop->arguments[i]->is_argument)
      loop->arguments[i]->scope = import_scope(loop->node->im);
}

/* Runs the body once for each slice of xs (n_xs), whose arguments follow or precede the carried
 * ones at the indices x_arguments. Sets made to the carried values and stacks after the last step.
 */
static bool emit_scan_of_body(loop *loop, int first_argument, value *const *xs,
                              const int *x_arguments, int n_xs, number count, value **made) {
  importer *im = loop->node->im;
  const size_t n_results = (size_t)(loop->n_carried + loop->n_stacked),
               n_args = (size_t)(loop->n_carried + n_xs);
  clave_id *before = import_alloc(im, n_args, sizeof *before),
           *args = import_alloc(im, n_args, sizeof *args),
           *results = import_alloc(im, n_results, sizeof *results),
           *after = import_alloc(im, n_results, sizeof *after);
  if (!before || !args || !results || !after) return false;
  if (!declare_carried(loop, first_argument, before, args)) return false;
  for (int i = 0; i < n_xs; i++) {
    if (!emit_prepare(im, xs[i])) return false;
    value *own = body_argument(im, xs[i]->type, xs[i]->rank - 1, xs[i]->dims + 1);
    if (!own) return false;
    own->bits = xs[i]->bits;
    loop->arguments[x_arguments[i]] = own;
    args[loop->n_carried + i] = own->tensor;
    before[loop->n_carried + i] = xs[i]->tensor;
  }
  const clave_id body = import_begin_body(im, "body", args, (uint32_t)n_args);
  enter_body(loop);
  onnx_convert_body(loop->node, loop->graph, loop->arguments, loop->outputs);
  const bool known = import_ok(im) &&
                     body_results(im, loop->outputs + loop->first_result, n_results, results) &&
                     keeps_shapes(loop);
  import_end_body(im, results, known ? (uint32_t)n_results : 0);
  if (!known || !declare_results(loop, count, made, after)) return false;
  clave_builder_op(im->builder, "Scan", im->node);
  clave_builder_set_body(im->builder, "body_chain", body);
  clave_builder_set_tensors(im->builder, "carries", before, (uint32_t)loop->n_carried);
  clave_builder_set_tensors(im->builder, "xs", before + loop->n_carried, (uint32_t)n_xs);
  clave_builder_set_tensors(im->builder, "results", after, (uint32_t)n_results);
  return import_ok(im);
}

/* ---------------------------------------------------------------- Loop */

/* True if the graph's result `name` is always true, or its own input of the condition. */
static bool is_always_true(node *node, const onnx_graph *graph, const char *name, int depth) {
  if (depth > 16 || !graph->n_inputs) return false;
  if (graph->n_inputs > 1 && strcmp(graph->inputs[1].name, name) == 0) return true;
  for (size_t i = 0; i < graph->n_initializers; i++) {
    if (strcmp(graph->initializers[i].name, name) != 0) continue;
    value *constant = onnx_constant(node->onnx, &graph->initializers[i]);
    const number *known = value_known(node->im, constant);
    return known && value_count(constant) == 1 && known[0].i;
  }
  for (size_t i = 0; i < graph->n_nodes; i++) {
    const onnx_node *inner = &graph->nodes[i];
    if (inner->outputs.count != 1 || strcmp(inner->outputs.items[0], name) != 0) continue;
    const bool copies = strcmp(inner->op, "Identity") == 0 || strcmp(inner->op, "Cast") == 0;
    if (copies && inner->inputs.count == 1)
      return is_always_true(node, graph, inner->inputs.items[0], depth + 1);
    if (strcmp(inner->op, "Constant") != 0 || inner->n_attributes != 1) return false;
    onnx_tensor tensor;
    clave_status st = onnx_read_tensor(node->im->pool, inner->attributes[0].t, &tensor);
    value *constant = st ? NULL : onnx_constant(node->onnx, &tensor);
    status_free(st);
    const number *known = value_known(node->im, constant);
    return known && value_count(constant) == 1 && known[0].i;
  }
  const onnx_binding *outer = onnx_lookup(node->onnx, name);
  const number *known = outer ? value_known(node->im, outer->value) : NULL;
  return known && value_count(outer->value) == 1 && !known[0].id && known[0].i;
}

/* Runs the body `count` times. */
static bool run_counted(loop *loop, number count, value **made) {
  importer *im = loop->node->im;
  count = number_max(im, count, number_int(0));
  count.no_sign = true;
  value *steps = emit_arange_tensor(im, count);
  const int iteration = 0;
  loop->arguments[1] = value_of_number(im, CLAVE_BOOL, number_bool(true));
  return emit_scan_of_body(loop, 2, &steps, &iteration, 1, count, made);
}

/* The condition of a While: condition && iteration < limit. */
static clave_id while_condition(importer *im, const clave_id *args, uint32_t n, value *iteration,
                                value *condition, value *limit) {
  const clave_id body = import_begin_body(im, "condition", args, n);
  iteration->scope = condition->scope = import_scope(im);
  value *goes_on = condition;
  if (limit)
    goes_on = emit_binary(im, "logical_and", condition, emit_binary(im, "lt", iteration, limit));
  value *result = goes_on == condition ? emit_copy(im, condition) : goes_on;
  const clave_id id = emit_prepare(im, result) ? result->tensor : 0;
  import_end_body(im, &id, 1);
  return body;
}

/* The arguments of a While: iteration, condition, and the carried values. */
static bool while_arguments(loop *loop, value *condition, clave_id *before, clave_id *args,
                            value **own) {
  importer *im = loop->node->im;
  value *first = emit_copy(im, value_of_number(im, CLAVE_I64, number_int(0))),
        *start = emit_copy(im, emit_reshape(im, condition, 0, NULL));
  own[0] = body_argument(im, CLAVE_I64, 0, NULL);
  own[1] = body_argument(im, CLAVE_BOOL, 0, NULL);
  if (!first || !start || !own[0] || !own[1]) return false;
  before[0] = first->tensor;
  before[1] = start->tensor;
  args[0] = own[0]->tensor;
  args[1] = own[1]->tensor;
  value **arguments = loop->arguments;
  loop->arguments = own;
  const bool declared = declare_carried(loop, 2, before + 2, args + 2);
  loop->arguments = arguments;
  return declared;
}

/* Runs the body while the condition holds, at most `limit` times (NULL: any number). Sets *count to
 * the number of times, and made to the carried values after the last. */
static bool emit_while_loop(loop *loop, value *condition, value *limit, value **count,
                            value **made) {
  importer *im = loop->node->im;
  const uint32_t n = (uint32_t)loop->n_carried + 2;
  clave_id *before = import_alloc(im, n, sizeof *before), *args = import_alloc(im, n, sizeof *args),
           *more = import_alloc(im, n, sizeof *more),
           *results = import_alloc(im, n, sizeof *results);
  value **own = import_alloc(im, n, sizeof *own);
  if (!before || !args || !more || !results || !own) return false;
  if (!while_arguments(loop, condition, before, args, own)) return false;
  const clave_id test = while_condition(im, args, n, own[0], own[1], limit);
  if (!while_arguments(loop, condition, more, args, own)) return false;
  memcpy(loop->arguments, own, n * sizeof *own);
  const clave_id body = import_begin_body(im, "body", args, n);
  enter_body(loop);
  onnx_convert_body(loop->node, loop->graph, loop->arguments, loop->outputs);
  value *one = value_of_number(im, CLAVE_I64, number_int(1)), *next[1];
  next[0] = emit_binary(im, "add", own[0], one);
  bool known = import_ok(im) && next[0] && body_results(im, next, 1, results) && loop->outputs[0];
  if (known) loop->outputs[0] = emit_reshape(im, loop->outputs[0], 0, NULL);
  known = known && body_results(im, loop->outputs, n - 1, results + 1) && keeps_shapes(loop);
  import_end_body(im, results, known ? n : 0);
  if (!known) return false;
  value *end = emit_declare(im, CLAVE_BOOL, 0, NULL);
  *count = emit_declare(im, CLAVE_I64, 0, NULL);
  const int n_stacked = loop->n_stacked;
  loop->n_stacked = 0;
  const bool declared = end && *count && declare_results(loop, number_int(0), made, results + 2);
  loop->n_stacked = n_stacked;
  if (!declared) return false;
  results[0] = (*count)->tensor;
  results[1] = end->tensor;
  clave_builder_op(im->builder, "While", im->node);
  clave_builder_set_body(im->builder, "condition_chain", test);
  clave_builder_set_body(im->builder, "body_chain", body);
  clave_builder_set_tensors(im->builder, "args", before, n);
  clave_builder_set_tensors(im->builder, "results", results, n);
  return import_ok(im);
}

/* A loop with a condition that returns stacks runs twice: first to count its steps. */
static bool run_conditional(loop *loop, value *condition, value *limit, value **made) {
  importer *im = loop->node->im;
  value *count = NULL;
  if (!condition) condition = value_of_number(im, CLAVE_BOOL, number_bool(true));
  if (limit) limit = emit_reshape(im, limit, 0, NULL);
  if (!emit_while_loop(loop, condition, limit, &count, made)) return false;
  if (!loop->n_stacked) return true;
  return run_counted(loop, value_scalar(im, count, "the number of steps"), made);
}

static bool begin_loop(loop *loop, int n_carried, int n_inputs) {
  importer *im = loop->node->im;
  onnx_graph *graph = loop->graph = node_graph(loop->node, "body");
  if (!graph || !import_ok(im)) return false;
  loop->n_carried = n_carried;
  loop->n_stacked = (int)graph->n_outputs - loop->first_result - n_carried;
  if (n_carried < 0 || loop->n_stacked < 0 || graph->n_inputs != (size_t)n_inputs ||
      loop->node->n_outputs > n_carried + loop->n_stacked) {
    import_invalid(im, "the body has %zu inputs and %zu results, which do not fit the node",
                   graph->n_inputs, graph->n_outputs);
    return false;
  }
  loop->arguments = import_alloc(im, graph->n_inputs + 2, sizeof *loop->arguments);
  loop->outputs = import_alloc(im, graph->n_outputs + 2, sizeof *loop->outputs);
  loop->carried = import_alloc(im, (size_t)n_carried, sizeof *loop->carried);
  return import_ok(im);
}

void onnx_loop(node *node) {
  importer *im = node->im;
  loop loop = {.node = node, .first_result = 1};
  value *limit = node_input(node, 0), *condition = node_input(node, 1);
  if (!begin_loop(&loop, node->n_inputs - 2, node->n_inputs)) return;
  for (int i = 0; i < loop.n_carried; i++) {
    loop.carried[i] = node_required(node, 2 + i);
    if (!loop.carried[i]) return;
  }
  value **made = import_alloc(im, loop.graph->n_outputs + 2, sizeof *made);
  const number *known = value_known(im, condition);
  const bool starts = !condition || (known && !known[0].id && known[0].i);
  const bool counted =
      limit && starts && is_always_true(node, loop.graph, loop.graph->outputs[0].name, 0);
  if (!made || !import_ok(im)) return;
  if (counted ? run_counted(&loop, value_scalar(im, limit, "M"), made)
              : run_conditional(&loop, condition, limit, made))
    for (int i = 0; i < node->n_outputs; i++) node_set(node, i, made[i]);
}

/* ---------------------------------------------------------------- Scan */

/* Reads a list of directions or axes, one for each item; 0 by default. */
static bool read_per_item(node *node, const char *name, int n, int64_t *out) {
  if (n > MAX_SCANNED) {
    import_unsupported(node->im, "a scan of %d tensors", n);
    return false;
  }
  for (int i = 0; i < n; i++) out[i] = 0;
  const int given = node_ints(node, name, out, n);
  if (given >= 0 && given != n)
    import_invalid(node->im, "%s has %d numbers, expected %d", name, given, n);
  return import_ok(node->im);
}

/* Moves axis `from` to `to`. */
static value *move_axis(importer *im, value *input, int from, int to) {
  int order[CLAVE_MAX_RANK], n = 0;
  if (!input) return NULL;
  for (int d = 0; d < input->rank; d++) {
    if (n == to) order[n++] = from;
    if (d != from) order[n++] = d;
  }
  if (n == to) order[n++] = from;
  return emit_permute(im, input, order);
}

static bool scan_inputs(loop *loop, int n_xs, value **xs, int *arguments, number *count) {
  node *node = loop->node;
  int64_t axes[MAX_SCANNED], backwards[MAX_SCANNED];
  if (!read_per_item(node, "scan_input_axes", n_xs, axes) ||
      !read_per_item(node, "scan_input_directions", n_xs, backwards))
    return false;
  for (int i = 0; i < n_xs; i++) {
    value *x = node_required(node, loop->n_carried + i);
    const int axis = x ? emit_axis(node->im, axes[i], x->rank) : 0;
    xs[i] = move_axis(node->im, x, axis, 0);
    if (backwards[i]) xs[i] = emit_flip(node->im, xs[i], 0);
    if (!xs[i]) return false;
    arguments[i] = loop->n_carried + i;
    *count = xs[0]->dims[0];
  }
  return import_ok(node->im);
}

static void scan_outputs(loop *loop, value **made) {
  node *node = loop->node;
  int64_t axes[MAX_SCANNED], backwards[MAX_SCANNED];
  if (!read_per_item(node, "scan_output_axes", loop->n_stacked, axes) ||
      !read_per_item(node, "scan_output_directions", loop->n_stacked, backwards))
    return;
  for (int i = 0; i < node->n_outputs; i++) {
    const int k = i - loop->n_carried;
    value *out = made[i];
    if (k >= 0 && backwards[k]) out = emit_flip(node->im, out, 0);
    if (k >= 0 && out) out = move_axis(node->im, out, 0, emit_axis(node->im, axes[k], out->rank));
    node_set(node, i, out);
  }
}

void onnx_scan(node *node) {
  importer *im = node->im;
  loop loop = {.node = node};
  const int64_t n_xs = node_int(node, "num_scan_inputs", 0);
  value *xs[MAX_SCANNED];
  int arguments[MAX_SCANNED];
  number count;
  if (n_xs < 1 || n_xs > MAX_SCANNED || n_xs > node->n_inputs) {
    import_unsupported(im, "num_scan_inputs = %lld", (long long)n_xs);
    return;
  }
  if (!begin_loop(&loop, node->n_inputs - (int)n_xs, node->n_inputs)) return;
  for (int i = 0; i < loop.n_carried; i++) {
    loop.carried[i] = node_required(node, i);
    if (!loop.carried[i]) return;
  }
  value **made = import_alloc(im, loop.graph->n_outputs + 1, sizeof *made);
  if (!made || !scan_inputs(&loop, (int)n_xs, xs, arguments, &count)) return;
  if (emit_scan_of_body(&loop, 0, xs, arguments, (int)n_xs, count, made)) scan_outputs(&loop, made);
}
