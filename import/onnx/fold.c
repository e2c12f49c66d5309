/* Col2Im, for one to three spatial dimensions. */
#include "import/emit_index.h"
#include "import/emit_window.h"
#include "import/onnx/converters.h"

typedef struct fold {
  int n; /* spatial dimensions */
  number size[MAX_SPATIAL], positions[MAX_SPATIAL];
  int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL], pads[2 * MAX_SPATIAL];
} fold;

static void fold_list(node *node, const char *name, int n, int64_t missing, int64_t *out) {
  const int given = node_ints(node, name, out, 2 * MAX_SPATIAL);
  if (given >= 0 && given != n) import_invalid(node->im, "%s has %d numbers", name, given);
  for (int i = 0; i < n && given < 0; i++) out[i] = missing;
  for (int i = 0; i < n && given == n; i++)
    if (out[i] < missing || out[i] > INT32_MAX)
      import_unsupported(node->im, "%s of %lld", name, (long long)out[i]);
}

/* Reads the attributes and sizes. False after an error. */
static bool fold_read(node *node, fold *fold) {
  importer *im = node->im;
  value *size = node_required(node, 1), *block = node_required(node, 2);
  int64_t list[2 * MAX_SPATIAL];
  if (!size || !block) return false;
  fold->n = (int)value_count(size);
  if (fold->n < 1 || fold->n > MAX_SPATIAL) {
    import_unsupported(im, "%d spatial dimensions (1 to %d)", fold->n, MAX_SPATIAL);
    return false;
  }
  if (onnx_sizes(node, size, "image_shape", fold->size) < 0) return false;
  if (value_constant_ints(im, block, "block_shape", fold->kernel, MAX_SPATIAL) != fold->n)
    import_invalid(im, "block_shape and image_shape have different lengths");
  fold_list(node, "strides", fold->n, 1, list);
  for (int d = 0; d < fold->n; d++) fold->stride[d] = list[d];
  fold_list(node, "dilations", fold->n, 1, list);
  for (int d = 0; d < fold->n; d++) fold->dilation[d] = list[d];
  fold_list(node, "pads", 2 * fold->n, 0, fold->pads);
  for (int d = 0; d < fold->n && import_ok(im); d++) {
    if (fold->kernel[d] < 1 || fold->kernel[d] > INT32_MAX)
      import_invalid(im, "the block is empty");
    const int64_t extent = fold->dilation[d] * (fold->kernel[d] - 1) + 1;
    fold->size[d] =
        number_add(im, fold->size[d], number_int(fold->pads[d] + fold->pads[fold->n + d]));
    fold->size[d].no_sign = true;
    const number steps = number_floor_div(im, number_sub(im, fold->size[d], number_int(extent)),
                                          number_int(fold->stride[d]));
    fold->positions[d] = number_add(im, steps, number_int(1));
  }
  return import_ok(im);
}

/* Adds blocks (planes, kernel, positions) to the padded planes (planes, 1, rows, columns). Row
 * dimension -1: one row. */
static value *fold_planes(importer *im, value *input, const fold *fold, int row, int column) {
  const int at[2] = {row, column};
  number dims[4] = {input ? input->dims[0] : number_int(0), number_int(1)};
  int64_t kernel[2], stride[2], dilation[2], padding[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    const bool real = at[i] >= 0;
    dims[2 + i] = real ? fold->size[at[i]] : number_int(1);
    kernel[i] = real ? fold->kernel[at[i]] : 1;
    stride[i] = real ? fold->stride[at[i]] : 1;
    dilation[i] = real ? fold->dilation[at[i]] : 1;
  }
  if (!emit_prepare(im, input)) return NULL;
  value *out = emit_begin(im, "Col2im", input->type, 4, dims);
  emit_set_tensor(im, "x", input);
  emit_set_ints(im, "kernel", kernel, 2);
  emit_set_ints(im, "stride", stride, 2);
  emit_set_ints(im, "padding", padding, 2);
  emit_set_ints(im, "dilation", dilation, 2);
  return out;
}

/* Folds the last two dimensions, then the first: input: (planes, k0 k1 k2, p0 p1 p2). */
static value *fold_volume(importer *im, value *input, const fold *fold, number planes) {
  static const int order[5] = {0, 1, 3, 2, 4};
  const number k0 = number_int(fold->kernel[0]), p0 = fold->positions[0],
               k12 = number_int(fold->kernel[1] * fold->kernel[2]),
               p12 = number_mul(im, fold->positions[1], fold->positions[2]),
               outer = number_mul(im, planes, number_mul(im, k0, p0)),
               area = number_mul(im, fold->size[1], fold->size[2]);
  const number split[5] = {planes, k0, k12, p0, p12};
  const number blocks[3] = {outer, k12, p12}, middle[3] = {planes, number_mul(im, k0, p0), area},
               last[3] = {number_mul(im, planes, area), k0, p0},
               flat[3] = {planes, area, fold->size[0]};
  value *parts = emit_permute(im, emit_reshape(im, input, 5, split), order);
  value *areas = fold_planes(im, emit_reshape(im, parts, 3, blocks), fold, 1, 2);
  value *columns = emit_transpose(im, emit_reshape(im, areas, 3, middle), 1, 2);
  value *lines = fold_planes(im, emit_reshape(im, columns, 3, last), fold, -1, 0);
  return emit_transpose(im, emit_reshape(im, lines, 3, flat), 1, 2);
}

void onnx_col2im(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  fold fold = {0};
  if (!x || !fold_read(node, &fold)) return;
  const int n = fold.n;
  number kernel = number_int(1), positions = number_int(1), dims[2 + MAX_SPATIAL];
  for (int d = 0; d < n; d++) {
    kernel = number_mul(im, kernel, number_int(fold.kernel[d]));
    positions = number_mul(im, positions, fold.positions[d]);
    dims[2 + d] = fold.size[d];
  }
  if (x->rank != 3) import_invalid(im, "expected rank 3, got %d", x->rank);
  if (!import_ok(im)) return;
  dims[0] = x->dims[0];
  dims[1] = number_floor_div(im, x->dims[1], kernel);
  const number planes = number_mul(im, dims[0], dims[1]), blocks[3] = {planes, kernel, positions};
  x = emit_reshape(im, x, 3, blocks);
  value *out = n == 3 ? fold_volume(im, x, &fold, planes)
                      : fold_planes(im, x, &fold, n == 2 ? 0 : -1, n - 1);
  out = emit_reshape(im, out, 2 + n, dims);
  for (int d = 0; d < n; d++)
    out = emit_slice(im, out, 2 + d, number_int(fold.pads[d]),
                     number_sub(im, fold.size[d], number_int(fold.pads[n + d])));
  node_set(node, 0, out);
}
