/* Loads parts of weights of any type up to F32, or of codes, as floats. */
#include "backend/cpu/kernels/conv/conv_weight.h"

#include <string.h>

#include "backend/cpu/kernels/dequantize.h"
#include "backend/cpu/kernels/gemm/codes.h"
#include "backend/cpu/kernels/support/rows.h"
#include "base/counts.h"

static void load_codes(const conv_weight *weight, int64_t row, int64_t at, int64_t n, float *to) {
  const code_bytes from =
      (code_bytes)weight->data + (size_t)row * encoding_row_bytes(&weight->encoding, weight->row);
  float some[DECODED_AT_ONCE];
  for (int64_t m; n > 0; n -= m, at += m, to += m) {
    const int64_t skipped = at % DECODED_AT_ONCE;
    encoding_decode(&weight->encoding, from, weight->row, at / DECODED_AT_ONCE, some);
    m = min_i64(n, DECODED_AT_ONCE - skipped);
    memcpy(to, some + skipped, (size_t)m * sizeof *to);
  }
}

void conv_weight_load(const conv_weight *weight, int64_t row, int64_t at, int64_t n, float *to) {
  if (is_encoded(&weight->encoding))
    load_codes(weight, row, at, n, to);
  else
    load_row(COMPUTE_F32, weight->type,
             element_at(weight->data, weight->type, row * weight->row + at), 1, n, to);
}

bool conv_decodes(const conv_args *args) { return is_encoded(&args->encoding) && !args->is_packed; }

size_t conv_decoded_bytes(const conv_args *args) {
  if (!conv_decodes(args)) return 0;
  return ((size_t)(conv_weight_rows(args) * conv_weight_row(args)) * sizeof(float) + 63) / 64 * 64;
}

void conv_decode(const kernel_context *ctx, const conv_args *args, void *to) {
  const dequantize_args rows = {.x = args->weight,
                                .out = to,
                                .type = DTYPE_F32,
                                .encoding = args->encoding,
                                .rows = conv_weight_rows(args),
                                .row = conv_weight_row(args),
                                .n_picks = conv_weight_rows(args)};
  (void)kernel_dequantize.run(ctx, &rows);
}

conv_args conv_decoded(const conv_args *args, char *to) {
  conv_args plain = *args;
  plain.encoding = (encoding){0};
  plain.weight = to;
  plain.weight_type = DTYPE_F32;
  return plain;
}
