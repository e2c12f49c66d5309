/* Mixtures of experts, as in build_moe_ffn of llama.cpp's llama-graph.cpp. */
#include "import/emit_experts.h"

#include "import/gguf/decoder_parts.h"

/* Chooses the experts of each token, and their shares. input: (L, size) */
static void choose_by_router(decoder *decoder, value *input, int64_t layer, expert_choices *out) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  const char *bias = layer_name(decoder, layer, "exp_probs_b.bias");
  const int last = 1;
  value *chosen;
  value *scores = decoder_linear(decoder, input, layer_name(decoder, layer, "ffn_gate_inp"),
                                 n->n_experts, n->size);
  value *shares = n->gating == GATING_CHOSEN    ? scores
                  : n->gating == GATING_SIGMOID ? emit_unary(im, "sigmoid", scores)
                                                : emit_softmax(im, scores, 1, false);
  value *ranked = shares;
  if (gguf_has_tensor(decoder->file, bias))
    ranked = emit_binary(im, "add", shares, gguf_vector_value(decoder->file, bias, n->n_experts));
  emit_sort(im, ranked, 1, out->k, true, &chosen);
  shares = emit_gather(im, shares, 1, chosen);
  if (n->gating == GATING_CHOSEN) shares = emit_softmax(im, shares, 1, false);
  if (n->normalizes_shares)
    shares = emit_binary(im, "div", shares, emit_reduce(im, "sum", shares, &last, 1, true));
  out->shares =
      n->shares_scale == 1 ? shares : emit_binary_float(im, "mul", shares, n->shares_scale);
  emit_sort_choices(im, chosen, number_int(n->n_experts), out);
}

/* Returns the products of the chosen rows with the experts' weights. rows, columns: -1 for any. */
static value *expert_linear(decoder *decoder, const expert_choices *choices, value *input,
                            int64_t layer, const char *part, int64_t rows, int64_t columns) {
  const char *name = layer_name(decoder, layer, part);
  value *weight = gguf_stack(decoder->file, import_text(decoder->im, "%s.weight", name),
                             decoder->n->n_experts, rows, columns);
  decoder->im->node = name;
  value *out = emit_expert_product(decoder->im, choices, input, weight);
  name = import_text(decoder->im, "%s.bias", name);
  if (!out || !gguf_has_tensor(decoder->file, name)) return out;
  value *bias = gguf_matrix(decoder->file, name, decoder->n->n_experts, out->dims[1].i);
  return emit_binary(decoder->im, "add", out,
                     emit_index_select(decoder->im, bias, 0, choices->experts));
}

/* Returns the result of the expert that all tokens share, or NULL. */
static value *shared_expert(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const int64_t size = decoder->n->size;
  if (!layer_has(decoder, layer, "ffn_up_shexp")) return NULL;
  value *out = decoder_network(decoder, input, layer, "_shexp", -1);
  if (!decoder->n->architecture->gated_shared) return out;
  const char *name = layer_name(decoder, layer, "ffn_gate_inp_shexp.weight");
  value *gate = gguf_vector_value(decoder->file, name, size);
  gate = emit_reshape(im, gate, 2, (const number[]){number_int(size), number_int(1)});
  im->node = name;
  return emit_binary(im, "mul", out,
                     emit_unary(im, "sigmoid", emit_matmul(im, input, gate, NULL, 1, 1)));
}

value *decoder_experts(decoder *decoder, value *input, int64_t layer) {
  importer *im = decoder->im;
  const gguf_numbers *n = decoder->n;
  expert_choices choices = {.tokens = decoder->n_tokens, .k = number_int(n->n_used)};
  const number flat[] = {decoder->n_tokens, number_int(n->size)};
  value *tokens = emit_reshape(im, input, 2, flat);
  choose_by_router(decoder, tokens, layer, &choices);
  value *rows = emit_chosen_rows(im, &choices, tokens);
  value *up = expert_linear(decoder, &choices, rows, layer, "ffn_up_exps", -1, n->size);
  if (!up) return NULL;
  const int64_t hidden = up->dims[1].i;
  value *inner = n->architecture->ungated
                     ? decoder_activate(decoder, up)
                     : decoder_gate(decoder,
                                    expert_linear(decoder, &choices, rows, layer, "ffn_gate_exps",
                                                  hidden, n->size),
                                    up);
  if (!inner) return NULL;
  value *out = expert_linear(decoder, &choices, inner, layer, "ffn_down_exps", n->size, hidden);
  out = emit_join_choices(im, &choices, out);
  value *shared = shared_expert(decoder, tokens, layer);
  if (shared) out = emit_binary(im, "add", out, shared);
  return emit_reshape(im, out, 3,
                      (const number[]){number_int(1), decoder->n_tokens, number_int(n->size)});
}
