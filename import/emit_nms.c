/* Non-maximum suppression: a Scan over the boxes of each list in the order of their scores. A box
 * that is not suppressed itself suppresses those after it that it overlaps. */
#include "import/emit_nms.h"

#include "import/emit_index.h"
#include "import/emit_scan.h"

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

/* A step of the scan: one box of each list, at its position. */
static value *nms_box(void *ctx, importer *im, value *const *xs, value **carries) {
  carries[0] = nms_step(im, ctx, carries[0], xs, xs[NMS_FIELDS]);
  return NULL;
}

/* Scans over the boxes. gone: (lists, boxes), BOOL: boxes without a sufficient score. */
static value *nms_scan(importer *im, nms *nms, value *gone) {
  enum { N_XS = NMS_FIELDS + 1 };
  value *xs[N_XS];
  for (int i = 0; i < NMS_FIELDS; i++) {
    if (!emit_prepare(im, nms->field[i])) return NULL;
    xs[i] = emit_transpose(im, nms->field[i], 0, 1);
  }
  xs[NMS_FIELDS] = emit_reshape(im, nms->positions, 1, &nms->boxes);
  if (!emit_prepare(im, nms->positions) || !emit_prepare(im, nms->threshold)) return NULL;
  const scan_call call = {"box", xs, &gone, N_XS, 1, nms_box, nms};
  (void)emit_scan_steps(im, &call);
  return gone;
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
