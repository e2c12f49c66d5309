/* Random numbers. They are clave's own, from the session's seed; a node's seed is not used. */
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

/* Returns numbers of F32 or F64 in [0, 1) or with mean 0 and deviation 1. */
static value *draw(importer *im, const char *kind, clave_dtype type, int rank, const number *dims) {
  value *out = emit_begin(im, "Random", type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32, rank, dims);
  if (!out) return NULL;
  clave_builder_set_text(im->builder, "kind", kind);
  clave_builder_set_int(im->builder, "stream", im->n_streams++);
  return out;
}

static clave_dtype random_type(node *node, clave_dtype missing) {
  (void)node_float(node, "seed", 0);
  return node_has(node, "dtype") ? node_dtype(node, (int32_t)node_int(node, "dtype", 1)) : missing;
}

/* Computes offset + scale * u. */
static void set_random(node *node, clave_dtype type, int rank, const number *dims) {
  importer *im = node->im;
  const bool normal = strcmp(node->kind, "normal") == 0;
  const double offset = normal ? node_float(node, "mean", 0) : node_float(node, "low", 0);
  const double scale = normal ? node_float(node, "scale", 1) : node_float(node, "high", 1) - offset;
  if (import_ok(im) && !dtype_is_float((dtype)type))
    import_unsupported(im, "random numbers of dtype %s", clave_dtype_name(type));
  value *u = draw(im, node->kind, type, rank, dims);
  value *out = emit_binary_float(im, "add", emit_binary_float(im, "mul", u, scale), offset);
  node_set(node, 0, emit_cast(im, out, type));
}

void onnx_random(node *node) {
  int64_t sizes[CLAVE_MAX_RANK];
  number dims[CLAVE_MAX_RANK];
  const clave_dtype type = random_type(node, CLAVE_F32);
  const int rank = node_ints(node, "shape", sizes, CLAVE_MAX_RANK);
  if (rank < 0) import_invalid(node->im, "attribute 'shape' is missing");
  for (int d = 0; d < rank; d++) {
    dims[d] = number_int(sizes[d]);
    if (sizes[d] < 0) import_invalid(node->im, "a size of %lld", (long long)sizes[d]);
  }
  set_random(node, type, rank, dims);
}

void onnx_random_like(node *node) {
  value *like = node_required(node, 0);
  if (like) set_random(node, random_type(node, like->type), like->rank, like->dims);
}

/* Draws 1 with the probability x, else 0. */
void onnx_bernoulli(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const clave_dtype type = random_type(node, x ? x->type : CLAVE_F32);
  if (!x) return;
  value *u = draw(im, "uniform", x->type, x->rank, x->dims);
  value *hit = u ? emit_binary(im, "lt", u, emit_cast(im, x, u->type)) : NULL;
  node_set(node, 0, emit_cast(im, hit, type));
}

/* Draws classes by searching the running sums of the weights for u times their total. A class
 * without weight repeats the sum before it, so that it is never drawn. */
void onnx_multinomial(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const clave_dtype type = random_type(node, CLAVE_I32);
  const int64_t count = node_int(node, "sample_size", 1);
  if (!x) return;
  if (x->rank != 2 || count < 1 || (type != CLAVE_I32 && type != CLAVE_I64)) {
    import_invalid(im, "expected an input of rank 2, a sample_size from 1 on and an integer dtype");
    return;
  }
  const number last = number_sub(im, x->dims[1], number_int(1));
  const number dims[2] = {x->dims[0], number_int(count)};
  value *wide = emit_cast(im, x, x->type == CLAVE_F64 ? CLAVE_F64 : CLAVE_F32);
  value *weights = emit_softmax(im, wide, 1, false);
  value *sums = emit_cumulate(im, "sum", weights, 1);
  if (!sums) return;
  sums = emit_where(im, emit_binary_float(im, "gt", weights, 0), sums,
                    value_of_float(im, sums->type, 0));
  sums = emit_cumulate(im, "max", sums, 1);
  value *total = sums ? emit_slice(im, sums, 1, last, x->dims[1]) : NULL;
  value *at = emit_binary(im, "mul", draw(im, "uniform", x->type, 2, dims), total);
  if (!emit_prepare(im, at) || !emit_prepare(im, sums)) return;
  value *found = emit_begin(im, "SearchSorted", CLAVE_I64, 2, dims);
  emit_set_tensor(im, "boundaries", sums);
  emit_set_tensor(im, "x", at);
  if (found) clave_builder_set_bool(im->builder, "right", true);
  value *limit = value_of_number(im, CLAVE_I64, last);
  node_set(node, 0, emit_cast(im, emit_binary(im, "minimum", found, limit), type));
}
