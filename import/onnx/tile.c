/* Tile, DepthToSpace, SpaceToDepth: elements in another arrangement. */
#include "import/emit_index.h"
#include "import/onnx/converters.h"

void onnx_tile(node *node) {
  value *x = node_required(node, 0), *input = node_required(node, 1);
  number repeats[CLAVE_MAX_RANK];
  const int n = onnx_sizes(node, input, "repeats", repeats);
  if (!x || n < 0) return;
  if (n != x->rank) import_invalid(node->im, "%d repeats for rank %d", n, x->rank);
  if (import_ok(node->im)) node_set(node, 0, emit_tile(node->im, x, repeats));
}

/* Splits and joins dimensions of (N, C, H, W): reshape to `split`, permute, reshape to `joined`. */
static value *tile_rearranged(importer *im, value *input, const number *split, const int *order,
                              const number *joined) {
  value *parts = emit_permute(im, emit_reshape(im, input, 6, split), order);
  return emit_reshape(im, parts, 4, joined);
}

static value *tile_image(node *node, number *block) {
  value *x = node_required(node, 0);
  const int64_t size = node_int(node, "blocksize", 0);
  *block = number_int(size);
  if (size < 1 || size > INT32_MAX) import_invalid(node->im, "blocksize is %lld", (long long)size);
  if (x && x->rank != 4) import_invalid(node->im, "expected rank 4, got %d", x->rank);
  return import_ok(node->im) ? x : NULL;
}

static const char *const modes[] = {"DCR", "CRD"};

void onnx_depth_to_space(node *node) {
  static const int orders[2][6] = {{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}};
  importer *im = node->im;
  number b;
  value *x = tile_image(node, &b);
  const int mode = node->version >= 11 ? node_choice(node, "mode", modes, 2) : 0;
  if (!x) return;
  const number channels = number_floor_div(im, x->dims[1], number_mul(im, b, b));
  const number splits[2][6] = {{x->dims[0], b, b, channels, x->dims[2], x->dims[3]},
                               {x->dims[0], channels, b, b, x->dims[2], x->dims[3]}};
  const number joined[4] = {x->dims[0], channels, number_mul(im, x->dims[2], b),
                            number_mul(im, x->dims[3], b)};
  node_set(node, 0, tile_rearranged(im, x, splits[mode], orders[mode], joined));
}

void onnx_space_to_depth(node *node) {
  static const int orders[2][6] = {{0, 3, 5, 1, 2, 4}, {0, 1, 3, 5, 2, 4}};
  importer *im = node->im;
  number b;
  value *x = tile_image(node, &b);
  const int mode = node->version >= 28 ? node_choice(node, "mode", modes, 2) : 0;
  if (!x) return;
  const number rows = number_floor_div(im, x->dims[2], b),
               columns = number_floor_div(im, x->dims[3], b);
  const number split[6] = {x->dims[0], x->dims[1], rows, b, columns, b};
  const number joined[4] = {x->dims[0], number_mul(im, x->dims[1], number_mul(im, b, b)), rows,
                            columns};
  node_set(node, 0, tile_rearranged(im, x, split, orders[mode], joined));
}
