/* Opens subgraphs, and converts their operators. */
#include <math.h>
#include <string.h>

#include "import/tflite/converters.h"

/* ---------------------------------------------------------------- operands */

enum { BLOCKWISE = 2 }; /* in the union QuantizationDetails */

static void read_quantization(importer *im, operand *tensor) {
  const flat_table table = flat_child(&tensor->table, 4);
  const flat_vector scales = flat_list(&table, 2, 4), zeros = flat_list(&table, 3, 8);
  const bool ints = tensor->dtype == CLAVE_I8 || tensor->dtype == CLAVE_U8 ||
                    tensor->dtype == CLAVE_I16 || tensor->dtype == CLAVE_I32;
  const int64_t details = flat_int(&table, 4, 1, 0);
  if (details > 1) tensor->n_scales = -1; /* by blocks, or along several axes */
  if (details == BLOCKWISE) {
    const flat_table blocks = flat_child(&table, 5);
    tensor->block_scales = flat_int(&blocks, 0, 4, 0);
    tensor->block_zeros = flat_int(&blocks, 1, 4, 0);
    tensor->block = flat_int(&blocks, 2, 4, 0);
  }
  if (!scales.count || !ints || tensor->type == TFLITE_RESOURCE || tensor->n_scales < 0) return;
  tensor->n_scales = (int)scales.count;
  tensor->scale = flat_float_at(&scales, 0);
  tensor->axis = (int)flat_int(&table, 6, 4, 0);
  const int64_t zero = flat_int_at(&zeros, 0);
  for (uint32_t i = 0; i < zeros.count; i++)
    tensor->has_zeros = tensor->has_zeros || flat_int_at(&zeros, i);
  for (uint32_t i = 0; i < scales.count; i++) {
    const float scale = flat_float_at(&scales, i);
    if (!(scale > 0) || !isfinite(scale)) tensor->n_scales = i == 0 && scale == 0 ? 0 : -2;
  }
  tensor->zero = (int)zero;
  if (zero < -32768 || zero > 32767 || (zeros.count > 1 && zeros.count != scales.count))
    import_invalid(im, "tensor '%.100s' has wrong zero points", tensor->name);
}

static void read_tensor(importer *im, const flat_table *table, operand *tensor) {
  tensor->table = *table;
  tensor->type = (int)flat_int(table, 1, 1, 0);
  tensor->name = flat_text(table, 3);
  if (tflite_dtype(tensor->type, &tensor->dtype)) read_quantization(im, tensor);
}

bool tflite_open_subgraph(tflite_import *tflite, int64_t index, subgraph *out) {
  importer *im = tflite->im;
  *out = (subgraph){0};
  if (index < 0 || index >= tflite->subgraphs.count) {
    import_invalid(im, "subgraph %lld of %u", (long long)index, tflite->subgraphs.count);
    return false;
  }
  const flat_table table = flat_table_at(&tflite->subgraphs, (uint32_t)index);
  const flat_vector tensors = flat_list(&table, 0, 4);
  out->inputs = flat_list(&table, 1, 4);
  out->outputs = flat_list(&table, 2, 4);
  out->operators = flat_list(&table, 3, 4);
  out->name = flat_text(&table, 4);
  out->n = tensors.count;
  out->operands = import_ok(im) ? import_alloc(im, tensors.count, sizeof *out->operands) : NULL;
  for (uint32_t i = 0; out->operands && import_ok(im) && i < tensors.count; i++) {
    const flat_table tensor = flat_table_at(&tensors, i);
    read_tensor(im, &tensor, &out->operands[i]);
  }
  return out->operands && import_ok(im);
}

void tflite_bind(operand *tensor, value *bound) {
  tensor->is_bound = true;
  tensor->values[LAST] = bound;
}

/* ---------------------------------------------------------------- operators */

/* Fails unless all operands are tensors of the subgraph, and no result has another producer. */
static void check_operands(operation *op) {
  for (int i = 0; i < op->n_inputs + op->n_outputs && import_ok(op->im); i++) {
    const bool is_input = i < op->n_inputs;
    const int64_t t = is_input ? flat_int_at(&op->inputs, (uint32_t)i)
                               : flat_int_at(&op->outputs, (uint32_t)(i - op->n_inputs));
    if (t == -1 && is_input) continue;
    if (t < 0 || t >= op->graph->n)
      import_invalid(op->im, "operand %lld of %u", (long long)t, op->graph->n);
    else if (!is_input && op->graph->operands[t].is_bound)
      import_invalid(op->im, "'%.100s' has two producers", op->graph->operands[t].name);
  }
}

/* Binds an input that is a constant. Refuses what no converter reads. */
static void check_input(operation *op, operand *input, int flags) {
  if (!input->is_bound && tflite_is_constant(op->tflite, input))
    tflite_bind(input, tflite_constant(op->tflite, input));
  else if (!input->is_bound && flat_bool(&input->table, 5))
    import_unsupported(op->im, "a variable tensor");
  else if (!input->is_bound)
    import_invalid(op->im, "input '%.100s' is the result of no operator", input->name);
  if (input->type == TFLITE_COMPLEX64 && !(flags & COMPLEX))
    import_unsupported(op->im, "an input of dtype COMPLEX64");
  if (input->n_scales < 0 && !(input->block > 0 && flags & BLOCKS))
    import_unsupported(op->im, input->n_scales == -1 ? "blockwise quantisation"
                                                     : "a scale that is not a positive number");
}

/* Makes constants. False: an input is unknown because of an earlier unsupported operator, or is
 * wrong. */
static bool find_operands(operation *op, int flags) {
  bool known = true;
  for (int i = 0; i < op->n_inputs && import_ok(op->im); i++) {
    operand *input = tflite_operand(op, i);
    if (!input) continue;
    check_input(op, input, flags);
    known = known && (input->values[LAST] || input->values[FIRST] || input->variable);
  }
  return known && import_ok(op->im);
}

static value *any_value(operation *op, int i) {
  const operand *x = tflite_operand(op, i);
  return !x ? NULL : x->values[LAST] ? x->values[LAST] : x->values[FIRST];
}

/* An operator of any layout computes channels first if it has an image that exists only so. */
static void choose_layout(operation *op, int flags) {
  const int n = flags & IMAGE ? 1 : op->n_inputs;
  bool first = false;
  for (int i = 0; i < op->n_inputs; i++) {
    const operand *x = tflite_operand(op, i);
    const value *known = any_value(op, i);
    if (known && i < n && known->rank > op->rank) op->rank = known->rank;
    first = first || (known && !x->values[LAST] && known->rank >= op->rank);
  }
  if ((flags & ANY) && first && (op->rank == 4 || op->rank == 5)) op->layout = FIRST;
  if (flags & IMAGE) op->layout = FIRST;
}

/* Codes are moved as they are if all of the operator's have the same scale and zero. */
static bool moves_codes(operation *op, int flags) {
  const operand *first = NULL;
  if (flags & RAW) return true;
  for (int i = 0; i < op->n_inputs + op->n_outputs && (flags & CODES); i++) {
    const operand *x =
        i < op->n_inputs ? tflite_operand(op, i) : tflite_result(op, i - op->n_inputs);
    if (!x || !tflite_is_quantized(x)) continue;
    if (first && !tflite_same_codes(first, x)) return false;
    first = x;
  }
  return (flags & CODES) != 0;
}

static void convert_operation(operation *op, const tflite_op *row) {
  check_operands(op);
  if (!import_end_node(op->im, op->name)) return;
  if (!row) {
    import_report(op->im, op->name);
    return;
  }
  if (find_operands(op, row->flags)) {
    op->kind = row->kind;
    choose_layout(op, row->flags);
    op->as_codes = moves_codes(op, row->flags);
    row->convert(op);
  }
  if (import_end_node(op->im, op->name)) return;
  for (int i = 0; i < op->n_outputs && !op->im->fatal; i++) {
    operand *x = tflite_result(op, i);
    if (x) x->values[LAST] = x->values[FIRST] = NULL;
  }
}

/* Reads the operator's tables; its name in the program is that of its first result. */
static operation open_operation(tflite_import *tflite, subgraph *graph, uint32_t index) {
  importer *im = tflite->im;
  const flat_table table = flat_table_at(&graph->operators, index);
  const uint32_t code = (uint32_t)flat_int(&table, 0, 4, 0);
  const flat_table row = flat_table_at(&tflite->codes, code);
  const int64_t old = flat_int(&row, 0, 1, 0), new = flat_int(&row, 3, 4, 0);
  operation op = {.tflite = tflite,
                  .graph = graph,
                  .im = im,
                  .name = tflite_op_name(im, old > new ? old : new, flat_text(&row, 1)),
                  .options = flat_child(&table, 4),
                  .options2 = flat_child(&table, 12),
                  .custom = flat_list(&table, 5, 1),
                  .inputs = flat_list(&table, 1, 4),
                  .outputs = flat_list(&table, 2, 4)};
  if (code >= tflite->codes.count) import_invalid(im, "operator code %u", code);
  op.n_inputs = (int)op.inputs.count;
  op.n_outputs = (int)op.outputs.count;
  const int64_t out = flat_int_at(&op.outputs, 0);
  im->node = op.n_outputs && out >= 0 && out < graph->n
                 ? graph->operands[out].name
                 : import_text(im, "%.60s_%u", op.name, index);
  return op;
}

void tflite_convert_operators(tflite_import *tflite, subgraph *graph) {
  importer *im = tflite->im;
  const char *outer = im->node;
  for (uint32_t i = 0; i < graph->operators.count && !im->fatal; i++) {
    operation op = open_operation(tflite, graph, i);
    if (++tflite->n_converted > MAX_OPERATORS)
      import_invalid(im, "subgraphs call each other for more than %d operators", MAX_OPERATORS);
    if (!import_end_node(im, "operator")) return;
    convert_operation(&op, tflite_find_op(op.name));
    for (int k = 0; k < op.n_outputs && !im->fatal; k++) {
      const int64_t t = flat_int_at(&op.outputs, (uint32_t)k);
      if (t >= 0 && t < graph->n) graph->operands[t].is_bound = true;
    }
    im->node = outer;
  }
}
