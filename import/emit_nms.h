#ifndef IMPORT_EMIT_NMS_H
#define IMPORT_EMIT_NMS_H
/* Emits non-maximum suppression. */
#include "import/emit.h"

/* boxes: (B, N, 4), two opposite corners (y, x, y, x) or, if `center`, x, y, width and height.
 * order: (B, L, N), I64: the boxes of each list, the best first. gone: BOOL (B * L, N): boxes that
 * do not count. A box is suppressed if a better one shares more than `threshold` (F32, rank 0) of
 * the area of both. Returns the boxes that are kept, in the lists' order: BOOL (B * L, N). */
value *emit_nms(importer *im, value *boxes, bool center, value *order, value *gone,
                value *threshold);

#endif
