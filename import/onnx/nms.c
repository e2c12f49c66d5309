/* NonMaxSuppression. */
#include "import/emit_index.h"
#include "import/emit_nms.h"
#include "import/onnx/converters.h"

/* Returns the rows (batch, class, box) of kept boxes. kept, order: (B, C, N) */
static value *nms_rows(importer *im, value *kept, value *order) {
  number count;
  value *found = emit_nonzero(im, kept, &count), *columns[3];
  if (!found) return NULL;
  for (int i = 0; i < 3; i++) columns[i] = emit_select(im, found, 1, number_int(i));
  const number all = value_numel(im, order);
  value *place = emit_ravel_index(im, columns, 3, order->dims);
  columns[2] = emit_index_select(im, emit_reshape(im, order, 1, &all), 0, place);
  for (int i = 0; i < 3; i++) columns[i] = emit_unsqueeze(im, columns[i], 1);
  return emit_cat(im, columns, 3, 1);
}

/* Returns a scalar input, or a number if it is absent. */
static value *nms_scalar(node *node, int i, clave_dtype type) {
  value *input = node_input(node, i);
  if (!input) return value_of_float(node->im, type, 0);
  return emit_cast(node->im, emit_reshape(node->im, input, 0, NULL), type);
}

void onnx_nms(node *node) {
  importer *im = node->im;
  value *boxes = node_required(node, 0), *scores = node_required(node, 1), *order;
  const bool center = node_int(node, "center_point_box", 0);
  if (!boxes || !scores) return;
  if (boxes->rank != 3 || scores->rank != 3) {
    import_invalid(im, "boxes of rank %d and scores of rank %d", boxes->rank, scores->rank);
    return;
  }
  const number *shape = scores->dims, lists = number_mul(im, shape[0], shape[1]);
  const number dims[2] = {lists, shape[2]};
  value *sorted = emit_sort(im, scores, 2, shape[2], true, &order);
  if (!sorted || !order) return;
  value *gone = emit_full(im, CLAVE_BOOL, 2, dims, number_bool(false));
  if (node_input(node, 4)) {
    value *enough = emit_binary(im, "gt", sorted, nms_scalar(node, 4, CLAVE_F32));
    gone = emit_reshape(im, emit_unary(im, "logical_not", enough), 2, dims);
  }
  value *kept = emit_nms(im, boxes, center, order, gone, nms_scalar(node, 3, CLAVE_F32));
  value *number_kept = emit_cumulate(im, "sum", emit_cast(im, kept, CLAVE_I64), 1);
  value *within = emit_binary(im, "le", number_kept, nms_scalar(node, 2, CLAVE_I64));
  kept = emit_reshape(im, emit_binary(im, "logical_and", kept, within), 3, shape);
  node_set(node, 0, nms_rows(im, kept, order));
}
