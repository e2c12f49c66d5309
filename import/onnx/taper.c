/* HannWindow, HammingWindow and BlackmanWindow: sums of cosines. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

static const struct {
  const char *kind;
  double terms[3]; /* factors of cos(2 pi n i / N), with alternating signs */
} tapers[] = {
    {"hann", {0.5, 0.5, 0}},
    {"hamming", {25.0 / 46.0, 1 - 25.0 / 46.0, 0}},
    {"blackman", {0.42, 0.5, 0.08}},
};

/* A periodic window is one element shorter than a symmetric one of which it is the start. */
void onnx_taper(node *node) {
  importer *im = node->im;
  const bool periodic = node_int(node, "periodic", 1);
  const clave_dtype type = node_dtype(node, (int32_t)node_int(node, "output_datatype", 1));
  const number size = value_scalar(im, node_required(node, 0), "size");
  const double *terms = tapers[0].terms;
  if (!import_ok(im)) return;
  for (size_t i = 0; i < sizeof tapers / sizeof *tapers; i++)
    if (strcmp(tapers[i].kind, node->kind) == 0) terms = tapers[i].terms;
  const clave_dtype wide = type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32;
  const number period = periodic ? size : number_sub(im, size, number_int(1));
  value *at = emit_arange(im, wide, number_float(0), number_float(1), size);
  value *angle = emit_binary(im, "div", emit_binary_float(im, "mul", at, 6.283185307179586),
                             value_of_number(im, wide, number_to_float(im, period)));
  value *first = emit_binary_float(im, "mul", emit_unary(im, "cos", angle), -terms[1]);
  value *out = emit_binary_float(im, "add", first, terms[0]);
  if (terms[2] != 0) {
    value *twice = emit_unary(im, "cos", emit_binary_float(im, "mul", angle, 2));
    out = emit_binary(im, "add", out, emit_binary_float(im, "mul", twice, terms[2]));
  }
  node_set(node, 0, emit_cast(im, out, type));
}
