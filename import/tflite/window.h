#ifndef IMPORT_TFLITE_WINDOW_H
#define IMPORT_TFLITE_WINDOW_H
/* Padding of windows that slide over images: SAME or VALID. */
#include "import/tflite/node.h"

typedef struct same_padding {
  number before[MAX_SPATIAL], after[MAX_SPATIAL];
} same_padding;

/* Sets stride, kernel and dilation first. padding: of the schema. Sizes are those of input,
 * channels first, from dimension 2 on. */
same_padding tflite_padding(operation *op, const value *input, const window *window,
                            int64_t padding);
/* Moves padding that is constant and equal before and after to the window. Pads input for the
 * others.
 */
value *tflite_padded(operation *op, value *input, const same_padding *padding, window *window,
                     double fill);
/* Refuses kernels, strides and dilations that are not positive. */
bool tflite_check_window(operation *op, const window *window);

#endif
