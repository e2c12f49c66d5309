/* Tensors, products and norms of a decoder. */
#include "import/gguf/decoder_parts.h"

const char *layer_name(decoder *decoder, int64_t layer, const char *part) {
  return import_text(decoder->im, "blk.%lld.%s", (long long)layer, part);
}

bool layer_has(decoder *decoder, int64_t layer, const char *part) {
  return gguf_has_tensor(decoder->file,
                         layer_name(decoder, layer, import_text(decoder->im, "%s.weight", part)));
}

value *decoder_bias(decoder *decoder, const char *name, int64_t size) {
  const char *bias = import_text(decoder->im, "%s.bias", name);
  return gguf_has_tensor(decoder->file, bias) ? gguf_vector_value(decoder->file, bias, size) : NULL;
}

value *decoder_linear(decoder *decoder, value *input, const char *name, int64_t rows,
                      int64_t columns) {
  importer *im = decoder->im;
  value *weight = gguf_matrix(decoder->file, import_text(im, "%s.weight", name), rows, columns);
  im->node = name;
  if (!weight) return NULL;
  value *bias = decoder_bias(decoder, name, weight->dims[0].i);
  return emit_matmul(im, input, emit_transpose(im, weight, 0, 1), bias, 1, 1);
}

value *decoder_norm(decoder *decoder, value *input, const char *name, int64_t size) {
  importer *im = decoder->im;
  const bool is_layer = decoder->n->architecture->norm == NORM_LAYER;
  const char *full = import_text(im, "%s.weight", name); /* Falcon H1's files also have `name` */
  const bool bare = gguf_has_tensor(decoder->file, name);
  value *weight = gguf_vector_value(decoder->file, bare ? name : full, size);
  value *bias = is_layer ? decoder_bias(decoder, name, size) : NULL;
  im->node = name;
  if (!emit_prepare(im, input) || !emit_prepare(im, weight) || (bias && !emit_prepare(im, bias)))
    return NULL;
  value *out =
      emit_begin_move(im, is_layer ? "LayerNorm" : "RmsNorm", input, input->rank, input->dims);
  emit_set_tensor(im, "weight", weight);
  if (bias) emit_set_tensor(im, "bias", bias);
  if (out) clave_builder_set_float(im->builder, "eps", decoder->n->eps);
  return out;
}
