/* TFLite_Detection_PostProcess: boxes from their encodings, and the best detections. */
#include <math.h>

#include "import/emit_index.h"
#include "import/emit_nms.h"
#include "import/tflite/converters.h"
#include "import/tflite/flexbuffer.h"

typedef struct detection {
  double scale[4]; /* divisors of encoded y, x, height and width */
  double score, overlap;
  int64_t max, per_class, n_classes;
  bool by_class; /* suppresses boxes of each class separately */
} detection;

static double detection_option(operation *op, const char *name, double missing) {
  const span options = {(const char *)flat_bytes(&op->custom), op->custom.count};
  double found;
  return flex_number(options, name, &found) ? found : missing;
}

static bool read_detection(operation *op, detection *out) {
  enum { MOST = 1 << 20 };
  static const char *const scales[] = {"y_scale", "x_scale", "h_scale", "w_scale"};
  bool good = true;
  for (int i = 0; i < 4; i++) {
    out->scale[i] = detection_option(op, scales[i], 0);
    good = good && out->scale[i] > 0;
  }
  const double max = detection_option(op, "max_detections", 0),
               n_classes = detection_option(op, "num_classes", 0),
               per_class = detection_option(op, "detections_per_class", 100);
  out->score = detection_option(op, "nms_score_threshold", 0);
  out->overlap = detection_option(op, "nms_iou_threshold", 0);
  out->by_class = detection_option(op, "use_regular_nms", 0) != 0;
  good = good && max >= 1 && max <= MOST && n_classes >= 1 && n_classes <= MOST && per_class >= 1 &&
         per_class <= MOST;
  if (!good) import_invalid(op->im, "wrong options");
  if (!out->by_class && detection_option(op, "max_classes_per_detection", 1) != 1)
    import_unsupported(op->im, "several classes for one detection");
  if (!import_ok(op->im)) return false;
  out->max = (int64_t)max;
  out->n_classes = (int64_t)n_classes;
  out->per_class = (int64_t)per_class;
  return true;
}

/* Returns the boxes (1, N, 4): y, x of two corners. encodings: (1, N, 4) or more columns: y, x,
 * height and width, relative to anchors (N, 4). */
static value *decoded_boxes(importer *im, const detection *detection, value *encodings,
                            value *anchors) {
  value *center[2], *half[2], *corners[4];
  for (int i = 0; i < 2; i++) {
    value *parts[4];
    for (int k = 0; k < 2; k++) {
      parts[k] = emit_select(im, encodings, 2, number_int(i + 2 * k));
      parts[k] = emit_binary_float(im, "div", parts[k], detection->scale[i + 2 * k]);
      parts[2 + k] = emit_unsqueeze(im, emit_select(im, anchors, 1, number_int(i + 2 * k)), 0);
    }
    center[i] = emit_binary(im, "add", emit_binary(im, "mul", parts[0], parts[3]), parts[2]);
    half[i] = emit_binary(im, "mul", emit_unary(im, "exp", parts[1]), parts[3]);
    half[i] = emit_binary_float(im, "mul", half[i], 0.5);
  }
  for (int i = 0; i < 2; i++) {
    corners[i] = emit_unsqueeze(im, emit_binary(im, "sub", center[i], half[i]), 2);
    corners[2 + i] = emit_unsqueeze(im, emit_binary(im, "add", center[i], half[i]), 2);
  }
  return emit_cat(im, corners, 4, 2);
}

/* Returns the scores of each list (1, L, N): of each class, or each box's best one, whose classes
 * are then in *classes (N). */
static value *listed_scores(importer *im, const detection *detection, value *predictions,
                            value **classes) {
  const number n = predictions->dims[2],
               first = number_sub(im, n, number_int(detection->n_classes));
  value *scores = emit_slice(im, predictions, 2, first, n), *best;
  *classes = NULL;
  if (detection->by_class) return emit_transpose(im, scores, 1, 2);
  scores = emit_sort(im, scores, 2, number_int(1), true, &best);
  if (scores) *classes = emit_reshape(im, best, 1, &predictions->dims[1]);
  return emit_transpose(im, scores, 1, 2);
}

/* Returns which boxes of each list are detected, in its order: BOOL (L, N). */
static value *detected_boxes(importer *im, const detection *detection, value *boxes, value *sorted,
                             value *order) {
  const number dims[] = {sorted->dims[1], sorted->dims[2]};
  value *low = value_of_float(im, CLAVE_F32, detection->score);
  value *gone = emit_reshape(im, emit_binary(im, "lt", sorted, low), 2, dims);
  value *kept =
      emit_nms(im, boxes, false, order, gone, value_of_float(im, CLAVE_F32, detection->overlap));
  if (!detection->by_class) return kept;
  value *count = emit_cumulate(im, "sum", kept ? emit_cast(im, kept, CLAVE_I64) : NULL, 1);
  value *limit = value_of_float(im, CLAVE_I64, (double)detection->per_class);
  return emit_binary(im, "logical_and", kept, count ? emit_binary(im, "le", count, limit) : NULL);
}

/* Sets result i: input (1, n) or (1, n, 4) where a detection is found, else zeros, also from n on.
 */
static void set_detections(operation *op, int i, value *input, value *found, int64_t max) {
  importer *im = op->im;
  if (!input || !found || !import_ok(im)) return;
  const number none = number_int(0), n = input->dims[1], one = number_int(1),
               flags[] = {one, n, one}, before[] = {none, none, none},
               after[] = {none, number_sub(im, number_int(max), n), none};
  found = emit_reshape(im, found, input->rank, flags);
  value *out = emit_where(im, found, input, value_of_float(im, CLAVE_F32, 0));
  tflite_set(op, i, emit_pad(im, out, before, after, "constant", 0));
}

/* Sets the results from the n best detections: `at` (n) is each one's place in all lists. classes:
 * of boxes, or NULL if each list has a class. */
static void set_results(operation *op, const detection *detection, value *boxes, value *order,
                        value *classes, value *scores, value *found, value *at) {
  importer *im = op->im;
  const number all = value_numel(im, order), row[] = {number_int(1), at->dims[0]},
               one = number_int(1);
  value *box = emit_index_select(im, emit_reshape(im, order, 1, &all), 0, at), *class;
  if (classes)
    class = emit_index_select(im, classes, 0, box);
  else
    class = emit_binary(im, "floor_divide", at, value_of_number(im, CLAVE_I64, order->dims[2]));
  if (!class || !box || !import_ok(im)) return;
  set_detections(op, 0, emit_index_select(im, boxes, 1, box), found, detection->max);
  class = emit_reshape(im, emit_cast(im, class, CLAVE_F32), 2, row);
  set_detections(op, 1, class, found, detection->max);
  set_detections(op, 2, emit_reshape(im, scores, 2, row), found, detection->max);
  value *count = emit_reduce(im, "sum", emit_cast(im, found, CLAVE_F32), NULL, 0, false);
  tflite_set(op, 3, emit_reshape(im, count, 1, &one));
}

void tflite_detection(operation *op) {
  importer *im = op->im;
  value *encodings = tflite_required(op, 0), *predictions = tflite_required(op, 1),
        *anchors = tflite_parameter(op, 2), *classes, *order, *at;
  detection detection = {0};
  if (!encodings || !predictions || !anchors || !read_detection(op, &detection)) return;
  if (encodings->rank != 3 || predictions->rank != 3 || anchors->rank != 2 ||
      !number_is(encodings->dims[0], 1)) {
    import_unsupported(im, "a batch, or wrong ranks");
    return;
  }
  value *boxes = decoded_boxes(im, &detection, encodings, anchors),
        *scores = listed_scores(im, &detection, predictions, &classes);
  value *sorted = scores ? emit_sort(im, scores, 2, scores->dims[2], true, &order) : NULL;
  if (!boxes || !sorted || !order) return;
  value *kept = detected_boxes(im, &detection, boxes, sorted, order);
  const number all = value_numel(im, order), n = number_min(im, all, number_int(detection.max));
  kept = emit_reshape(im, kept, 1, &all);
  value *least = value_of_float(im, CLAVE_F32, -INFINITY),
        *key = emit_where(im, kept, emit_reshape(im, sorted, 1, &all), least);
  value *best = emit_sort(im, key, 0, n, true, &at);
  value *found = best ? emit_index_select(im, kept, 0, at) : NULL;
  if (found) set_results(op, &detection, boxes, order, classes, best, found, at);
}
