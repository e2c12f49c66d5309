/* GridSample and AffineGrid. */
#include "base/dtype.h"
#include "import/onnx/converters.h"

/* Casts 16-bit floats to F32, in which positions are computed. */
static value *grid_wide(node *node, value *input) {
  if (!input) return NULL;
  if (!dtype_is_float((dtype)input->type))
    import_unsupported(node->im, "dtype %s", clave_dtype_name(input->type));
  return input->type == CLAVE_F64 ? input : emit_cast(node->im, input, CLAVE_F32);
}

/* Makes a row of pixels an image of one row, which is sampled at its only y, 0. */
static void grid_add_row(importer *im, value **input, value **grid) {
  *input = emit_unsqueeze(im, *input, 2);
  *grid = emit_unsqueeze(im, *grid, 1);
  if (!*grid) return;
  value *zero = emit_full(im, (*grid)->type, (*grid)->rank, (*grid)->dims, number_float(0));
  *grid = emit_cat(im, (value *[]){*grid, zero}, 2, (*grid)->rank - 1);
}

void onnx_grid_sample(node *node) {
  static const char *const modes[] = {"bilinear", "nearest", "bicubic", "linear", "cubic"},
                           *const own_modes[] = {"bilinear", "nearest", "bicubic", "bilinear",
                                                 "bicubic"},
                           *const paddings[] = {"zeros", "border", "reflection"};
  importer *im = node->im;
  value *x = node_required(node, 0), *grid = node_required(node, 1), *in = grid_wide(node, x);
  number dims[CLAVE_MAX_RANK];
  const int mode = node_choice(node, "mode", modes, 5),
            padding = node_choice(node, "padding_mode", paddings, 3);
  const bool align = node_int(node, "align_corners", 0);
  if (!in || !grid || !import_ok(im)) return;
  const bool row = x->rank == 3 && grid->rank == 3, cubic = mode == 2 || mode == 4;
  if (x->rank < 3 || x->rank > 5 || grid->rank != x->rank)
    import_unsupported(im, "an input of rank %d and a grid of rank %d", x->rank, grid->rank);
  if (cubic && x->rank != 4) import_unsupported(im, "cubic with %d dimensions", x->rank - 2);
  grid = emit_cast(im, grid, in->type);
  if (row) grid_add_row(im, &in, &grid);
  if (!emit_prepare(im, in) || !emit_prepare(im, grid)) return;
  dims[0] = in->dims[0].id ? grid->dims[0] : in->dims[0];
  dims[1] = in->dims[1];
  for (int d = 2; d < in->rank; d++) dims[d] = grid->dims[d - 1];
  value *out = emit_begin(im, "GridSample", in->type, in->rank, dims);
  if (!out) return;
  emit_set_tensor(im, "x", in);
  emit_set_tensor(im, "grid", grid);
  clave_builder_set_text(im->builder, "mode", own_modes[mode]);
  clave_builder_set_text(im->builder, "padding", paddings[padding]);
  clave_builder_set_bool(im->builder, "align_corners", align);
  node_set(node, 0, emit_cast(im, row ? emit_squeeze(im, out, 2) : out, x->type));
}

/* ---------------------------------------------------------------- AffineGrid */

/* Returns the coordinates of `size` pixels in [-1, 1], shaped to dimension d of `rank`. */
static value *coordinates(importer *im, clave_dtype type, number size, bool align, int d,
                          int rank) {
  const number one = number_int(1), last = number_max(im, number_sub(im, size, one), one);
  number dims[CLAVE_MAX_RANK];
  value *at = emit_cast(im, emit_arange(im, CLAVE_I64, number_int(0), one, size), type);
  at = emit_binary_float(im, "mul", at, 2);
  if (!align) at = emit_binary_float(im, "add", at, 1);
  value *extent = value_of_number(im, type, number_to_float(im, align ? last : size));
  at = emit_binary_float(im, "add", emit_binary(im, "div", at, extent), -1);
  for (int k = 0; k < rank; k++) dims[k] = k == d ? size : one;
  return emit_reshape(im, at, rank, dims);
}

/* Each position of the grid is theta times (x, y, 1) or (x, y, z, 1). */
void onnx_affine_grid(node *node) {
  importer *im = node->im;
  value *theta = node_required(node, 0), *size = node_required(node, 1);
  value *wide = grid_wide(node, theta);
  number sizes[CLAVE_MAX_RANK];
  const bool align = node_int(node, "align_corners", 0);
  const int rank = onnx_sizes(node, size, "size", sizes), n = rank - 2;
  if (!wide || rank < 0) return;
  if ((n != 2 && n != 3) || theta->rank != 3) {
    import_unsupported(im, "a grid of %d dimensions", n);
    return;
  }
  number_check(im, NUMBER_EQ, theta->dims[1], number_int(n), "theta has another number of rows");
  number_check(im, NUMBER_EQ, theta->dims[2], number_int(n + 1),
               "theta has another number of columns");
  for (int d = 0; d < n; d++) wide = emit_unsqueeze(im, wide, 1); /* (N, 1, ..., n, n + 1) */
  value *out = emit_select(im, wide, n + 2, number_int(n));
  for (int k = 0; k < n; k++) {
    sizes[rank - 1 - k].no_sign = true;
    if (align) /* runtimes place a single pixel at -1, 0 or 1 */
      number_check(im, NUMBER_NE, sizes[rank - 1 - k], number_int(1),
                   "align_corners of a size of 1");
    value *at =
        coordinates(im, wide ? wide->type : CLAVE_F32, sizes[rank - 1 - k], align, n - k, n + 2);
    value *factor = emit_select(im, wide, n + 2, number_int(k));
    out = emit_binary(im, "add", out, emit_binary(im, "mul", factor, at));
  }
  node_set(node, 0, emit_cast(im, out, theta->type));
}
