/* Resizing of images, and moves between channels, batch and space. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/tflite/converters.h"

enum { MAX_SIZE = 1 << 20, UNIT = 1 << 10 }; /* positions of codes are in units of 1 / UNIT */

/* Reads the new height and width. Returns false after an error. */
static bool new_size(operation *op, const value *input, number *sizes) {
  const int n = tflite_sizes(op, 1, "size", sizes);
  if (!input || !import_ok(op->im)) return false;
  if (n != 2 || input->rank != 4) import_invalid(op->im, "%d sizes for rank %d", n, input->rank);
  return import_ok(op->im);
}

static value *emit_upsample(importer *im, value *input, const number *sizes, const char *mode,
                            bool align) {
  number dims[CLAVE_MAX_RANK];
  if (!emit_prepare(im, input)) return NULL;
  for (int d = 0; d < 4; d++) dims[d] = d < 2 ? input->dims[d] : sizes[d - 2];
  value *out = emit_begin(im, "Upsample", input->type, 4, dims);
  if (!out) return NULL;
  emit_set_tensor(im, "x", input);
  clave_builder_set_text(im->builder, "mode", mode);
  clave_builder_set_bool(im->builder, "align_corners", align);
  return out;
}

/* Selects the rows along a dimension that are nearest to the results with align_corners: i * scale,
 * computed in F32 as in TFLite and rounded. */
static value *select_nearest(importer *im, value *input, int d, number to, bool half_pixels) {
  if (!input || to.id || input->dims[d].id || to.i < 0 || to.i > MAX_SIZE ||
      input->dims[d].i == 0) {
    import_unsupported(im, "align_corners and sizes that are open, 0 or more than %d", MAX_SIZE);
    return NULL;
  }
  const int64_t from = input->dims[d].i, dims[1] = {to.i};
  const float scale = to.i > 1 ? (float)(from - 1) / (float)(to.i - 1) : (float)from / (float)to.i;
  int64_t *index = import_alloc(im, (size_t)to.i + 1, sizeof *index);
  for (int64_t i = 0; index && i < to.i; i++) {
    index[i] = number_truncated((double)roundf(((float)i + (half_pixels ? 0.5F : 0)) * scale));
    if (index[i] > from - 1) index[i] = from - 1;
  }
  return index ? emit_index_select(im, input, d, value_constant(im, "", CLAVE_I64, 1, dims, index))
               : NULL;
}

/* The op knows only unsigned bytes and floats. */
static value *upsample_codes(importer *im, value *input, const number *sizes, const char *mode) {
  if (!input || input->type != CLAVE_I8) return emit_upsample(im, input, sizes, mode, false);
  value *out = emit_upsample(im, emit_bitcast(im, input, CLAVE_U8), sizes, mode, false);
  return emit_bitcast(im, out, CLAVE_I8);
}

void tflite_resize_nearest(operation *op) {
  value *x = tflite_required(op, 0);
  number sizes[CLAVE_MAX_RANK];
  const bool align = flat_bool(&op->options, 0), half_pixels = flat_bool(&op->options, 1);
  if (!new_size(op, x, sizes)) return;
  if (align)
    for (int d = 0; d < 2; d++) x = select_nearest(op->im, x, 2 + d, sizes[d], half_pixels);
  else
    x = upsample_codes(op->im, x, sizes, half_pixels ? "nearest_exact" : "nearest");
  tflite_set(op, 0, x);
}

/* A result is between two rows: low + share * (high - low). */
typedef struct resize {
  bool align, half_pixels, is_fixed; /* is_fixed: positions of codes, computed in integers */
  int64_t *low, *high;
  float *share;
} resize;

/* Sets the rows of result i. Codes are blended as TFLite blends them, in steps of 1 / UNIT. */
static void set_position(const resize *resize, int64_t i, int64_t from, int64_t to) {
  int64_t low;
  if (resize->is_fixed) {
    const bool align = resize->align && to > 1;
    const int64_t a = align ? from - 1 : from, b = align ? to - 1 : to;
    const int64_t scale = (UNIT * a + b / 2) / b;
    const int64_t at = i * scale + (resize->half_pixels ? scale / 2 - UNIT / 2 : 0);
    low = at < 0 ? 0 : at / UNIT;
    resize->share[i] = at < 0 ? 0 : (float)(at - low * UNIT) / (float)UNIT;
  } else {
    const float at = (float)i * ((float)from / (float)to);
    low = (int64_t)at;
    resize->share[i] = at - (float)low;
  }
  resize->low[i] = low < from - 1 ? low : from - 1;
  resize->high[i] = low + 1 < from ? low + 1 : from - 1;
}

static value *blend(importer *im, value *input, int d, number to, resize *resize) {
  if (!input || !import_ok(im)) return NULL;
  if (to.id || input->dims[d].id || to.i > MAX_SIZE || to.i <= 0 || input->dims[d].i == 0 ||
      input->dims[d].i > MAX_SIZE) {
    import_unsupported(im, "sizes that are open, 0 or more than %d", MAX_SIZE);
    return NULL;
  }
  const int64_t dims[1] = {to.i};
  int64_t column[CLAVE_MAX_RANK];
  resize->low = import_alloc(im, (size_t)to.i, sizeof *resize->low);
  resize->high = import_alloc(im, (size_t)to.i, sizeof *resize->high);
  resize->share = import_alloc(im, (size_t)to.i, sizeof *resize->share);
  if (!resize->low || !resize->high || !resize->share) return NULL;
  for (int64_t i = 0; i < to.i; i++) set_position(resize, i, input->dims[d].i, to.i);
  for (int k = 0; k < input->rank; k++) column[k] = k == d ? to.i : 1;
  value *a = emit_index_select(im, input, d,
                               value_constant(im, "", CLAVE_I64, 1, dims, resize->low)),
        *b = emit_index_select(im, input, d,
                               value_constant(im, "", CLAVE_I64, 1, dims, resize->high));
  value *share = value_constant(im, "", CLAVE_F32, input->rank, column, resize->share);
  value *difference = emit_binary(im, "mul", emit_binary(im, "sub", b, a), share);
  return emit_binary(im, "add", a, difference);
}

void tflite_resize_bilinear(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  number sizes[CLAVE_MAX_RANK];
  resize resize = {.align = flat_bool(&op->options, 2), .half_pixels = flat_bool(&op->options, 3)};
  if (!new_size(op, x, sizes)) return;
  const clave_dtype type = x->type;
  const bool is_code = op->as_codes && (type == CLAVE_I8 || type == CLAVE_U8);
  resize.is_fixed = op->as_codes && type == CLAVE_I8;
  if (type != CLAVE_F32 && !is_code) import_unsupported(im, "dtype %s", clave_dtype_name(type));
  if (resize.align && resize.half_pixels)
    import_invalid(im, "align_corners with half_pixel_centers");
  value *out = emit_cast(im, x, CLAVE_F32);
  if (!resize.is_fixed && (resize.align || resize.half_pixels))
    out = emit_upsample(im, out, sizes, "linear", resize.align);
  else
    out = blend(im, blend(im, out, 2, sizes[0], &resize), 3, sizes[1], &resize);
  if (is_code) out = tflite_saturated(im, tflite_rounded(im, out), type);
  tflite_set(op, 0, out);
}

/* ---------------------------------------------------------------- channels and space */

/* (N, H, W, C) in blocks: (N, H / b, W / b, b * b * C), or back; channels last. */
void tflite_block(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  const int64_t block = flat_int(&op->options, 0, 4, 0);
  const bool to_depth = strcmp(op->kind, "to depth") == 0;
  if (!x) return;
  if (x->rank != 4 || block <= 0)
    import_invalid(im, "rank %d, block %lld", x->rank, (long long)block);
  const number size = number_int(block), area = number_mul(im, size, size);
  const number n = x->dims[0], h = x->dims[1], w = x->dims[2], c = x->dims[3];
  if (!import_ok(im)) return;
  if (to_depth) {
    const number rows = number_floor_div(im, h, size), columns = number_floor_div(im, w, size);
    const number split[] = {n, rows, size, columns, size, c},
                 joined[] = {n, rows, columns, number_mul(im, c, area)};
    x = emit_permute(im, emit_reshape(im, x, 6, split), (int[]){0, 1, 3, 2, 4, 5});
    tflite_set(op, 0, emit_reshape(im, x, 4, joined));
  } else {
    const number depth = number_floor_div(im, c, area);
    const number split[] = {n, h, w, size, size, depth},
                 joined[] = {n, number_mul(im, h, size), number_mul(im, w, size), depth};
    x = emit_permute(im, emit_reshape(im, x, 6, split), (int[]){0, 1, 3, 2, 4, 5});
    tflite_set(op, 0, emit_reshape(im, x, 4, joined));
  }
}

/* ---------------------------------------------------------------- batch and space */

typedef struct blocks {
  int n; /* spatial dimensions, from 1 on */
  int64_t size[CLAVE_MAX_RANK], edges[2 * CLAVE_MAX_RANK];
} blocks;

/* Reads the sizes of blocks, and what is cropped from, or added to, each dimension. */
static bool read_batch_blocks(operation *op, const value *input, blocks *out) {
  importer *im = op->im;
  out->n =
      value_constant_ints(im, tflite_parameter(op, 1), "block_shape", out->size, CLAVE_MAX_RANK);
  const int edges =
      value_constant_ints(im, tflite_parameter(op, 2), "paddings", out->edges, 2 * CLAVE_MAX_RANK);
  if (!input || !import_ok(im)) return false;
  if (edges != 2 * out->n || input->rank < out->n + 1 ||
      2 * out->n + input->rank - out->n > CLAVE_MAX_RANK)
    import_unsupported(im, "%d blocks for rank %d", out->n, input->rank);
  for (int i = 0; i < out->n; i++)
    if (out->size[i] <= 0 || out->edges[2 * i] < 0 || out->edges[2 * i + 1] < 0)
      import_invalid(im, "a block or padding is negative");
  return import_ok(im);
}

void tflite_space_to_batch(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  blocks blocks;
  number before[CLAVE_MAX_RANK], after[CLAVE_MAX_RANK], split[CLAVE_MAX_RANK], dims[CLAVE_MAX_RANK];
  int order[CLAVE_MAX_RANK], rank = 0, at = 0;
  if (!read_batch_blocks(op, x, &blocks)) return;
  const operand *in = tflite_operand(op, 0);
  for (int d = 0; d < x->rank; d++) before[d] = after[d] = number_int(0);
  for (int i = 0; i < blocks.n; i++) {
    before[1 + i] = number_int(blocks.edges[2 * i]);
    after[1 + i] = number_int(blocks.edges[2 * i + 1]);
  }
  x = emit_pad(im, x, before, after, "constant",
               op->as_codes && tflite_is_quantized(in) ? in->zero : 0);
  if (!x) return;
  /* (N, rows, b, columns, b, C) to (b, b, N, rows, columns, C) */
  split[rank++] = dims[0] = x->dims[0];
  for (int i = 0; i < blocks.n; i++) {
    const number size = number_int(blocks.size[i]);
    dims[0] = number_mul(im, dims[0], size);
    dims[1 + i] = split[rank++] = number_floor_div(im, x->dims[1 + i], size);
    split[rank++] = size;
  }
  for (int d = blocks.n + 1; d < x->rank; d++) dims[d] = split[rank++] = x->dims[d];
  for (int i = 0; i < blocks.n; i++) order[at++] = 2 + 2 * i;
  order[at++] = 0;
  for (int i = 0; i < blocks.n; i++) order[at++] = 1 + 2 * i;
  for (; at < rank; at++) order[at] = at;
  value *parts = emit_permute(im, emit_reshape(im, x, rank, split), order);
  tflite_set(op, 0, emit_reshape(im, parts, x->rank, dims));
}

void tflite_batch_to_space(operation *op) {
  importer *im = op->im;
  value *x = tflite_required(op, 0);
  blocks blocks;
  number split[CLAVE_MAX_RANK], dims[CLAVE_MAX_RANK];
  int order[CLAVE_MAX_RANK], rank = 0, at = 0;
  if (!read_batch_blocks(op, x, &blocks)) return;
  /* (b, b, N, rows, columns, C) to (N, rows, b, columns, b, C) */
  number batch = x->dims[0];
  for (int i = 0; i < blocks.n; i++) {
    split[rank++] = number_int(blocks.size[i]);
    batch = number_floor_div(im, batch, number_int(blocks.size[i]));
    dims[1 + i] = number_mul(im, x->dims[1 + i], number_int(blocks.size[i]));
  }
  split[rank++] = dims[0] = batch;
  for (int d = 1; d < x->rank; d++) {
    split[rank++] = x->dims[d];
    if (d > blocks.n) dims[d] = x->dims[d];
  }
  order[at++] = blocks.n;
  for (int i = 0; i < blocks.n; i++) {
    order[at++] = blocks.n + 1 + i;
    order[at++] = i;
  }
  for (; at < rank; at++) order[at] = at;
  value *out =
      emit_reshape(im, emit_permute(im, emit_reshape(im, x, rank, split), order), x->rank, dims);
  for (int i = 0; i < blocks.n && out; i++) {
    const number begin = number_int(blocks.edges[2 * i]),
                 end = number_sub(im, out->dims[1 + i], number_int(blocks.edges[2 * i + 1]));
    out = emit_slice(im, out, 1 + i, begin, end);
  }
  tflite_set(op, 0, out);
}
