/* NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
 * loss[n, d...] = -w[t] * x[n, t, d...] for the class t = target[n, d...]; targets equal to
 * ignore_index have the loss 0 and the weight 0. The mean is the sum of losses divided by the sum
 * of weights. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

/* Returns the weight of each target, in x's dtype. *skip receives which targets are ignored, which
 * are replaced by 0 in *target; NULL: none. */
static value *target_weights(node *node, clave_dtype type, value *weights, value **target,
                             value **skip) {
  importer *im = node->im;
  const bool ignores = node_has(node, "ignore_index");
  const int64_t ignored = node_int(node, "ignore_index", -100);
  value *given = emit_cast(im, *target, CLAVE_I64);
  value *mark = ignores ? value_of_number(im, CLAVE_I64, number_int(ignored)) : NULL;
  *skip = ignores ? emit_binary(im, "eq", given, mark) : NULL;
  *target =
      *skip ? emit_where(im, *skip, value_of_number(im, CLAVE_I64, number_int(0)), given) : given;
  if (!*target) return NULL;
  value *found = weights ? emit_index_select(im, weights, 0, *target)
                         : emit_full(im, type, (*target)->rank, (*target)->dims, number_float(1));
  return *skip ? emit_where(im, *skip, value_of_float(im, type, 0), found) : found;
}

/* Sets result 0 to the loss of log probabilities input. */
static void set_loss(node *node, value *input, value *target, value *weights) {
  static const char *const reductions[] = {"mean", "sum", "none"};
  importer *im = node->im;
  const int reduction = node_choice(node, "reduction", reductions, 3);
  if (!input || !target) return;
  if (input->rank < 2 || target->rank != input->rank - 1) {
    import_invalid(im, "scores of rank %d and targets of rank %d", input->rank, target->rank);
    return;
  }
  value *skip, *weight = target_weights(node, input->type, weights, &target, &skip);
  value *chosen = emit_squeeze(im, emit_gather(im, input, 1, emit_unsqueeze(im, target, 1)), 1);
  value *loss = emit_unary(im, "neg", emit_binary(im, "mul", chosen, weight));
  if (skip)
    loss = emit_where(im, skip, value_of_float(im, input->type, 0), loss); /* 0 * -inf is NaN */
  if (reduction < 2) loss = emit_reduce(im, "sum", loss, NULL, 0, false);
  if (reduction == 0)
    loss = emit_binary(im, "div", loss, emit_reduce(im, "sum", weight, NULL, 0, false));
  node_set(node, 0, loss);
}

void onnx_nll_loss(node *node) {
  set_loss(node, node_required(node, 0), node_required(node, 1), node_input(node, 2));
}

void onnx_cross_entropy_loss(node *node) {
  value *x = node_required(node, 0);
  value *log = x ? emit_softmax(node->im, x, emit_axis(node->im, 1, x->rank), true) : NULL;
  set_loss(node, log, node_required(node, 1), node_input(node, 2));
  node_set(node, 1, log);
}
