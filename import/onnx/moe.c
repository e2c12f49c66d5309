/* MoE and QMoE of com.microsoft. */
#include "import/emit_experts.h"
#include "import/onnx/converters.h"
#include "import/onnx/nbits.h"

/* Where the inputs of a product of experts are. */
typedef struct expert_inputs {
  int weight, scales, bias, zeros;
  const char *bits; /* attribute: overrides expert_weight_bits */
} expert_inputs;

/* ---------------------------------------------------------------- routing */

/* QMoE normalises over the chosen experts in any case, as onnxruntime's CPU provider does. */
static void choose_experts(node *node, value *scores, expert_choices *out) {
  importer *im = node->im;
  value *chosen, *weights = node_input(node, 14);
  const bool normalises = node_int(node, "normalize_routing_weights", 0);
  value *best = emit_sort(im, scores, 1, out->k, true, &chosen);
  if (weights && weights->rank == 2) {
    out->shares = emit_gather(im, weights, 1, chosen);
    const int axis = 1;
    if (normalises)
      out->shares =
          emit_binary(im, "div", out->shares, emit_reduce(im, "sum", out->shares, &axis, 1, true));
  } else if (normalises || node->kind[0] == 'q') {
    out->shares = emit_softmax(im, best, 1, false);
  } else {
    out->shares = emit_gather(im, emit_softmax(im, scores, 1, false), 1, chosen);
  }
  emit_sort_choices(im, chosen, scores->dims[1], out);
}

/* ---------------------------------------------------------------- products */

/* Reads a quantised weight, (E, N, K * bits / 8). */
static value *quantised_experts(node *node, const expert_inputs *inputs) {
  importer *im = node->im;
  const value *codes = node_required(node, inputs->weight),
              *scales = node_required(node, inputs->scales),
              *zeros = node_input(node, inputs->zeros);
  nbits weight = {.bits =
                      (int)node_int(node, inputs->bits, node_int(node, "expert_weight_bits", 4))};
  int64_t block = node_int(node, "block_size", 0);
  if (!codes || !scales || !import_ok(im)) return NULL;
  if (weight.bits != 2 && weight.bits != 4 && weight.bits != 8)
    import_unsupported(im, "%d bits (2, 4 or 8)", weight.bits);
  if (codes->rank != 3 || codes->type != CLAVE_U8 || value_count(codes) < 1)
    import_unsupported(im, "weights that are not U8 of rank 3 and fixed size");
  if (scales->type != CLAVE_F32 && scales->type != CLAVE_F16 && scales->type != CLAVE_BF16)
    import_unsupported(im, "scales of dtype %s", clave_dtype_name(scales->type));
  if (!import_ok(im)) return NULL;
  const int64_t dims[] = {codes->dims[0].i, codes->dims[1].i, codes->dims[2].i * 8 / weight.bits};
  if (block <= 0 || scales->rank == 2) block = dims[2];
  if (dims[2] % block || (block != dims[2] && block % 16)) {
    import_unsupported(im, "blocks of %lld for rows of %lld", (long long)block, (long long)dims[2]);
    return NULL;
  }
  weight.n = dims[0] * dims[1];
  weight.k = dims[2];
  weight.block = block;
  weight.blocks = dims[2] / block;
  weight.type = scales->type;
  weight.columns = zeros && zeros->rank == 2 ? dims[1] : 0;
  weight.codes = nbits_constant(node, inputs->weight, value_count(codes));
  weight.scales = nbits_constant(node, inputs->scales, weight.n * weight.blocks);
  const int64_t packed = weight.columns ? dims[0] * ((dims[1] * weight.bits + 7) / 8)
                                        : weight.n * ((weight.blocks * weight.bits + 7) / 8);
  if (zeros) weight.zeros = nbits_constant(node, inputs->zeros, packed);
  return import_ok(im) ? nbits_value(im, &weight, 3, dims) : NULL;
}

/* The product of input with each row's expert, plus its bias. */
static value *expert_product(node *node, const expert_choices *choices, const expert_inputs *inputs,
                             value *input) {
  importer *im = node->im;
  value *bias = node_input(node, inputs->bias);
  value *weight =
      inputs->scales < 0 ? node_required(node, inputs->weight) : quantised_experts(node, inputs);
  if (!input || !weight) return NULL;
  if (weight->rank != 3) import_invalid(im, "weights of rank %d, expected 3", weight->rank);
  if (!import_ok(im)) return NULL;
  value *out = emit_expert_product(im, choices, input, emit_cast(im, weight, input->type));
  if (!bias || !out) return out;
  bias = emit_index_select(im, emit_cast(im, bias, input->type), 0, choices->experts);
  return emit_binary(im, "add", out, bias);
}

/* ---------------------------------------------------------------- activations */

/* Splits the columns into gate and linear parts, which alternate or are halves. */
static void split_gate(importer *im, value *input, bool alternate, value **gate, value **linear) {
  const number size = input->dims[1], half = number_floor_div(im, size, number_int(2));
  if (!alternate) {
    *gate = emit_slice(im, input, 1, number_int(0), half);
    *linear = emit_slice(im, input, 1, half, size);
    return;
  }
  value *pairs = emit_reshape(im, input, 3, (const number[]){input->dims[0], half, number_int(2)});
  *gate = pairs ? emit_select(im, pairs, 2, number_int(0)) : NULL;
  *linear = pairs ? emit_select(im, pairs, 2, number_int(1)) : NULL;
}

/* gate * sigmoid(alpha * gate) * (linear + beta), after limits */
static value *swiglu(node *node, value *gate, value *linear) {
  importer *im = node->im;
  const double alpha = node_float(node, "activation_alpha", 1),
               beta = node_float(node, "activation_beta", 0);
  if (!gate || !linear) return NULL;
  if (node_int(node, "swiglu_limit_after_activation", 0))
    import_unsupported(im, "swiglu_limit_after_activation");
  if (node_has(node, "swiglu_limit")) {
    const double limit = node_float(node, "swiglu_limit", 0);
    gate = emit_binary_float(im, "minimum", gate, limit);
    linear = emit_binary_float(im, "minimum", linear, limit);
    linear = linear ? emit_binary_float(im, "maximum", linear, -limit) : NULL;
  }
  value *share = emit_unary(im, "sigmoid", emit_binary_float(im, "mul", gate, alpha));
  return emit_binary(im, "mul", emit_binary(im, "mul", gate, share),
                     emit_binary_float(im, "add", linear, beta));
}

static value *activated_experts(node *node, const expert_choices *choices,
                                const expert_inputs *third, value *input, value *hidden) {
  static const char *const names[] = {"relu", "gelu", "silu", "identity", "swiglu"};
  static const char *const steps[] = {"relu", "gelu_tanh", "silu"};
  importer *im = node->im;
  const int kind = node_choice(node, "activation_type", names, 5);
  const int64_t fusion = node_int(node, "swiglu_fusion", 0);
  value *gate = hidden, *linear = NULL;
  if (kind < 4 && node_input(node, third->weight))
    import_unsupported(im, "fc3 with %s", names[kind]);
  if (!hidden || !import_ok(im)) return NULL;
  if (kind == 3) return hidden;
  if (kind < 3) return emit_unary(im, steps[kind], hidden);
  if (fusion < 0 || fusion > 2) import_unsupported(im, "swiglu_fusion = %lld", (long long)fusion);
  if (fusion == 0)
    linear = expert_product(node, choices, third, input);
  else
    split_gate(im, hidden, fusion == 1, &gate, &linear);
  return swiglu(node, gate, linear);
}

/* ---------------------------------------------------------------- the op */

static void refuse_moe_variants(node *node, bool quantised) {
  static const char *const types[] = {"int"};
  importer *im = node->im;
  if (node_int(node, "use_sparse_mixer", 0)) import_unsupported(im, "use_sparse_mixer");
  if (!quantised) return;
  (void)node_choice(node, "quant_type", types, 1);
  (void)node_int(node, "accuracy_level", 0);
  if (node_int(node, "weights_prepacked", 0)) import_unsupported(im, "prepacked weights");
  for (int i = 15; i < node->n_inputs; i++)
    if (node_input(node, i)) import_unsupported(im, "input %d", i);
}

/* kind: "q" for quantised weights */
void onnx_moe(node *node) {
  static const expert_inputs plain[] = {{2, -1, 3, -1, ""}, {4, -1, 5, -1, ""}, {6, -1, 7, -1, ""}};
  static const expert_inputs coded[] = {{2, 3, 4, 11, "fc1_expert_weight_bits"},
                                        {5, 6, 7, 12, "fc2_expert_weight_bits"},
                                        {8, 9, 10, 13, "fc3_expert_weight_bits"}};
  importer *im = node->im;
  const bool quantised = node->kind[0] == 'q';
  const expert_inputs *inputs = quantised ? coded : plain;
  value *x = node_required(node, 0), *scores = node_required(node, 1);
  const int64_t k = node_int(node, "k", 1);
  refuse_moe_variants(node, quantised);
  if (!x || !scores || !import_ok(im)) return;
  if (scores->rank != 2 || x->rank < 2 || k < 1 || (!scores->dims[1].id && k > scores->dims[1].i)) {
    import_invalid(im, "scores of rank %d, input of rank %d, k is %lld", scores->rank, x->rank,
                   (long long)k);
    return;
  }
  expert_choices choices = {.tokens = scores->dims[0], .k = number_int(k)};
  choose_experts(node, scores, &choices);
  const number flat[] = {choices.tokens, x->dims[x->rank - 1]};
  value *rows = emit_chosen_rows(im, &choices, emit_reshape(im, x, 2, flat));
  value *hidden = expert_product(node, &choices, &inputs[0], rows);
  hidden = activated_experts(node, &choices, &inputs[2], rows, hidden);
  value *out = emit_join_choices(im, &choices, expert_product(node, &choices, &inputs[1], hidden));
  node_set(node, 0, out ? emit_reshape(im, out, x->rank, x->dims) : NULL);
}
