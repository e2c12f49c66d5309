/* Parts of weights of any type up to F32, and of codes. */
#include "backend/cpu/kernels/conv/conv_weight.h"

#include <string.h>

#include "backend/cpu/kernels/dequantize.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/rows.h"

static void load_codes(const conv_weight *w, int64_t row, int64_t at, int64_t n, float *to) {
  const code_bytes from =
      (code_bytes)w->data + (size_t)row * encoding_row_bytes(&w->encoding, w->row);
  float some[DECODED_AT_ONCE];
  for (int64_t m; n > 0; n -= m, at += m, to += m) {
    const int64_t skipped = at % DECODED_AT_ONCE;
    encoding_decode(&w->encoding, from, w->row, at / DECODED_AT_ONCE, some);
    m = least(n, DECODED_AT_ONCE - skipped);
    memcpy(to, some + skipped, (size_t)m * sizeof *to);
  }
}

void conv_weight_load(const conv_weight *w, int64_t row, int64_t at, int64_t n, float *to) {
  if (is_encoded(&w->encoding))
    load_codes(w, row, at, n, to);
  else
    load_row(COMPUTE_F32, w->type, element_at(w->data, w->type, row * w->row + at), 1, n, to);
}

bool conv_decodes(const conv_args *p) { return is_encoded(&p->encoding) && !p->is_packed; }

size_t conv_decoded_bytes(const conv_args *p) {
  if (!conv_decodes(p)) return 0;
  return ((size_t)(conv_weight_rows(p) * conv_weight_row(p)) * sizeof(float) + 63) / 64 * 64;
}

void conv_decode(const kernel_context *ctx, const conv_args *p, void *to) {
  const dequantize_args rows = {.x = p->weight,
                                .out = to,
                                .type = DTYPE_F32,
                                .encoding = p->encoding,
                                .rows = conv_weight_rows(p),
                                .row = conv_weight_row(p),
                                .n_picks = conv_weight_rows(p)};
  (void)kernel_dequantize.run(ctx, &rows);
}

conv_args conv_decoded(const conv_args *p, char *to) {
  conv_args plain = *p;
  plain.encoding = (encoding){0};
  plain.weight = to;
  plain.weight_type = DTYPE_F32;
  return plain;
}
