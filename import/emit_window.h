#ifndef IMPORT_EMIT_WINDOW_H
#define IMPORT_EMIT_WINDOW_H
/* Emits ops that slide a window over the spatial dimensions of input: (N, C, spatial...). */
#include "import/emit.h"

enum { MAX_SPATIAL = 3 };

typedef struct window {
  int n; /* spatial dimensions, 1 to MAX_SPATIAL */
  int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
  int64_t padding[MAX_SPATIAL]; /* before and after each dimension */
  bool ceil_mode;
} window;

/* Sets dims[2...] to the number of the window's positions. */
void emit_window_dims(importer *im, const value *input, const window *window, number *dims);
/* weight: (O, C / groups, kernel...); bias: (O) or NULL */
value *emit_conv(importer *im, value *input, value *weight, value *bias, const window *window,
                 int64_t groups);
/* kind: "max" or "avg"; *indices (max only, may be NULL): I64, positions in the input's plane */
value *emit_pool(importer *im, const char *kind, value *input, const window *window,
                 bool count_include_pad, value **indices);

/* Sums of the elements in each window, which may be dilated; input is F32 or F64. */
value *emit_window_sum(importer *im, value *input, const window *window);
/* The transpose of emit_conv, with `output_padding` further positions after each dimension. weight:
 * (C, O / groups, kernel...) */
value *emit_conv_transpose(importer *im, value *input, value *weight, value *bias,
                           const window *window, const int64_t *output_padding, int64_t groups);

#endif
