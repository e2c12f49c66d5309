/* Non-maximum suppression: a Scan over the boxes of each list in the order of their scores. A box
 * that is not suppressed itself suppresses those after it that it overlaps. */
#include "import/emit_nms.h"

#include "import/emit_index.h"

enum { NMS_Y1, NMS_X1, NMS_Y2, NMS_X2, NMS_AREA, NMS_FIELDS };

/* lists: each has all boxes of a batch, the best first. */
typedef struct nms {
  number lists, boxes;
  value *field[NMS_FIELDS]; /* (lists, boxes) */
  value *threshold;         /* () */
  value *positions;         /* (1, boxes) */
} nms;

/* Sets corners to (B * N) each: y1, x1, y2, x2. boxes: (B, N, 4) */
static void nms_corners(importer *im, value *boxes, bool center, number count, value **corners) {
  value *side[4];
  for (int i = 0; i < 4; i++) {
    side[i] = emit_select(im, boxes, 2, number_int(i));
    side[i] = emit_reshape(im, side[i], 1, &count);
  }
  for (int i = 0; i < 2; i++) {
    if (center) { /* x, y, width, height */
      value *half = emit_binary_float(im, "mul", side[3 - i], 0.5);
      corners[i] = emit_binary(im, "sub", side[1 - i], half);
      corners[2 + i] = emit_binary(im, "add", side[1 - i], half);
    } else { /* two opposite corners */
      corners[i] = emit_binary(im, "minimum", side[i], side[2 + i]);
      corners[2 + i] = emit_binary(im, "maximum", side[i], side[2 + i]);
    }
  }
}

/* Reads the fields of boxes in the order of their scores. order: (B, C, N) */
static void nms_read(importer *im, value *boxes, value *order, bool center, nms *nms) {
  value *corners[4];
  const number batch = order->dims[0], n = order->dims[2], count = number_mul(im, batch, n);
  const number dims[2] = {nms->lists, n};
  value *first = emit_binary_number(im, "mul", emit_positions(im, batch, 0, 3), n);
  value *at = emit_reshape(im, emit_binary(im, "add", order, first), 2, dims);
  nms_corners(im, boxes, center, count, corners);
  for (int i = 0; i < 4; i++) nms->field[i] = emit_index_select(im, corners[i], 0, at);
  nms->field[NMS_AREA] =
      emit_binary(im, "mul", emit_binary(im, "sub", nms->field[NMS_Y2], nms->field[NMS_Y1]),
                  emit_binary(im, "sub", nms->field[NMS_X2], nms->field[NMS_X1]));
}

/* The length that boxes share along one axis. low, high: fields; own: of one box of each list. */
static value *nms_shared(importer *im, const nms *nms, value *const *own, int low, int high) {
  value *begin = emit_binary(im, "maximum", nms->field[low], own[low]);
  value *end = emit_binary(im, "minimum", nms->field[high], own[high]);
  return emit_binary_float(im, "maximum", emit_binary(im, "sub", end, begin), 0);
}

/* Returns `gone` (lists, boxes) after one box of each list, at `place`. fields: (lists) each */
static value *nms_step(importer *im, const nms *nms, value *gone, value *const *fields,
                       value *place) {
  value *own[NMS_FIELDS];
  for (int i = 0; i < NMS_FIELDS; i++) own[i] = emit_unsqueeze(im, fields[i], 1);
  value *shared = emit_binary(im, "mul", nms_shared(im, nms, own, NMS_Y1, NMS_Y2),
                              nms_shared(im, nms, own, NMS_X1, NMS_X2));
  value *both = emit_binary(im, "add", own[NMS_AREA], nms->field[NMS_AREA]);
  value *part = emit_binary(im, "div", shared, emit_binary(im, "sub", both, shared));
  value *over = emit_binary(im, "gt", part, nms->threshold);
  over = emit_binary(im, "logical_and", over, emit_binary(im, "gt", nms->positions, place));
  value *is_gone = emit_unsqueeze(im, emit_index_select(im, gone, 1, place), 1);
  over = emit_binary(im, "logical_and", over, emit_unary(im, "logical_not", is_gone));
  return emit_binary(im, "logical_or", gone, over);
}

/* Scans over the boxes. gone: (lists, boxes), BOOL: boxes without a sufficient score. */
static value *nms_scan(importer *im, const nms *nms, value *gone) {
  enum { N_XS = NMS_FIELDS + 1 };
  const number dims[2] = {nms->lists, nms->boxes};
  value *args[1 + N_XS];
  clave_id ids[1 + N_XS], xs[N_XS];
  value *out = emit_declare(im, CLAVE_BOOL, 2, dims);
  for (int i = 0; i < N_XS; i++) {
    value *x = i < NMS_FIELDS ? emit_transpose(im, nms->field[i], 0, 1)
                              : emit_reshape(im, nms->positions, 1, &nms->boxes);
    xs[i] = value_tensor(im, x);
  }
  if (!emit_prepare(im, gone) || !emit_prepare(im, nms->positions) ||
      !emit_prepare(im, nms->threshold) || !out)
    return NULL;
  args[0] = emit_declare(im, CLAVE_BOOL, 2, dims);
  for (int i = 0; i < N_XS; i++)
    args[1 + i] = i < NMS_FIELDS ? emit_declare(im, CLAVE_F32, 1, dims)
                                 : emit_declare(im, CLAVE_I64, 0, NULL);
  for (int i = 0; i < 1 + N_XS; i++) ids[i] = args[i] ? args[i]->tensor : 0;
  if (!import_ok(im)) return NULL;
  const clave_id body = import_begin_body(im, "box", ids, 1 + N_XS);
  for (int i = 0; i < 1 + N_XS; i++) args[i]->scope = import_scope(im);
  value *next = nms_step(im, nms, args[0], args + 1, args[1 + NMS_FIELDS]);
  const clave_id result = value_tensor(im, next);
  import_end_body(im, &result, 1);
  clave_builder_op(im->builder, "Scan", im->node);
  clave_builder_set_body(im->builder, "body_chain", body);
  clave_builder_set_tensors(im->builder, "carries", &gone->tensor, 1);
  clave_builder_set_tensors(im->builder, "xs", xs, N_XS);
  clave_builder_set_tensors(im->builder, "results", &out->tensor, 1);
  return out;
}

value *emit_nms(importer *im, value *boxes, bool center, value *order, value *gone,
                value *threshold) {
  if (!boxes || !order || !import_ok(im)) return NULL;
  nms nms = {.lists = number_mul(im, order->dims[0], order->dims[1]),
             .boxes = order->dims[2],
             .threshold = threshold};
  nms.positions = emit_positions(im, nms.boxes, 1, 2);
  nms_read(im, boxes, order, center, &nms);
  return emit_unary(im, "logical_not", nms_scan(im, &nms, gone));
}
