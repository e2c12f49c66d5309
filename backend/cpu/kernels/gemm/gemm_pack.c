/* Packs panels of matrices: strips of strided ones, and all of a b of floats. */
#include <string.h>

#include "backend/cpu/kernels/gemm/gemm.h"
#include "base/counts.h"

enum { PACK_GRAIN = 16 << 10 /* elements that justify waking a thread */ };

/* Packs float panels from rows along k, by transposing blocks of 8 by 8 in registers. Returns the k
 * up to which it packed. */
static int64_t gemm_pack_transposed(const float *from, int64_t lane_stride, int64_t lanes,
                                    int64_t kn, int64_t width, float *to) {
  int64_t k = 0;
  for (; k + 8 <= kn; k += 8) {
    int64_t lane = 0;
    for (; lane + 8 <= lanes; lane += 8)
      transpose_8x8(from + lane * lane_stride + k, lane_stride, to + k * width + lane, width);
    if (lane > 0 && lane < lanes) { /* the last 8 overlap the 8 before */
      lane = lanes - 8;
      transpose_8x8(from + lane * lane_stride + k, lane_stride, to + k * width + lane, width);
      continue;
    }
    for (; lane < lanes; lane++)
      for (int64_t i = k; i < k + 8; i++) to[i * width + lane] = from[lane * lane_stride + i];
  }
  return k;
}

/* Scatters a row of class c to elements that are `stride` apart. */
static void scatter_row(compute_type c, int64_t n, const void *from, void *to, int64_t stride) {
  const float *x4 = from;
  const uint64_t *x8 = from;
  float *y4 = to;
  uint64_t *y8 = to;
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) y4[i * stride] = x4[i];
  else
    for (int64_t i = 0; i < n; i++) y8[i * stride] = x8[i];
}

void gemm_pack_strided(compute_type c, dtype t, const void *data, int64_t lane_stride,
                       int64_t k_stride, int64_t lanes, int64_t kn, int64_t width, void *to) {
  int64_t size = (int64_t)compute_size(c);
  if (width == 1) {
    load_row(c, t, data, k_stride, kn, to);
    return;
  }
  if (k_stride != 1) {
    for (int64_t k = 0; k < kn; k++)
      load_row(c, t, element_at(data, t, k * k_stride), lane_stride, lanes,
               (char *)to + k * width * size);
    return;
  }
  int64_t first =
      t == DTYPE_F32 ? gemm_pack_transposed(data, lane_stride, lanes, kn, width, to) : 0;
  row_block block;
  for (int64_t lane = 0; lane < lanes; lane++)
    for (int64_t k = first; k < kn; k += ROW_BLOCK) {
      int64_t n = min_i64(ROW_BLOCK, kn - k);
      load_row(c, t, element_at(data, t, lane * lane_stride + k), 1, n, &block);
      scatter_row(c, n, &block, (char *)to + (k * width + lane) * size, width);
    }
}

/* ---------------------------------------------------------------- panels of b */

typedef struct b_packing {
  const gemm_b *b;
  char *to;
} b_packing;

static int64_t panel_width(const gemm_b *b) { return gemm_kernel_for(COMPUTE_F32, b->type).nr; }
static int64_t gemm_pack_panel_count(const gemm_b *b) {
  return (b->n + panel_width(b) - 1) / panel_width(b);
}

size_t gemm_b_bytes(const gemm_b *b) {
  return (size_t)(gemm_pack_panel_count(b) * panel_width(b) * b->k) * dtype_size(b->type);
}

const void *gemm_b_panel(const gemm_b *b, const void *packed, int64_t column, int64_t k) {
  return element_at(packed, b->type, column * b->k + k * panel_width(b));
}

void gemm_b_column(const gemm_b *b, const void *packed, int64_t column, void *to) {
  const int64_t width = panel_width(b), lane = column % width;
  const void *from = element_at(gemm_b_panel(b, packed, column - lane, 0), b->type, lane);
  const uint32_t *x4 = from;
  const uint16_t *x2 = from;
  for (int64_t k = 0; k < b->k && b->type == DTYPE_F32; k++) ((uint32_t *)to)[k] = x4[k * width];
  for (int64_t k = 0; k < b->k && b->type != DTYPE_F32; k++) ((uint16_t *)to)[k] = x2[k * width];
}

/* Packs b like gemm_pack_strided, for 16-bit elements that are not converted. Packs a few k of all
 * columns at a time, so that the written data stays in the cache. */
static void pack_halves(const gemm_b *b, const uint16_t *from, int64_t lanes, int64_t width,
                        uint16_t *to) {
  enum { DEEP = 32 };
  if (b->n_stride == 1) {
    for (int64_t k = 0; k < b->k; k++)
      memcpy(to + k * width, from + k * b->k_stride, (size_t)lanes * sizeof *to);
    return;
  }
  for (int64_t k = 0; k < b->k; k += DEEP)
    for (int64_t lane = 0; lane < lanes; lane++) {
      const uint16_t *column = from + lane * b->n_stride + k * b->k_stride;
      for (int64_t i = 0; i < min_i64(DEEP, b->k - k); i++)
        to[(k + i) * width + lane] = column[i * b->k_stride];
    }
}

static void pack_b_panels(void *ctx, int64_t begin, int64_t end) {
  const b_packing *packing = ctx;
  const gemm_b *gemm_b = packing->b;
  int64_t width = panel_width(gemm_b);
  for (int64_t i = begin; i < end; i++) {
    int64_t lanes = min_i64(width, gemm_b->n - i * width);
    const void *from = element_at(gemm_b->data, gemm_b->type, i * width * gemm_b->n_stride);
    void *to = element_at(packing->to, gemm_b->type, i * width * gemm_b->k);
    if (lanes < width) memset(to, 0, (size_t)(gemm_b->k * width) * dtype_size(gemm_b->type));
    if (gemm_b->type == DTYPE_F32)
      gemm_pack_strided(COMPUTE_F32, gemm_b->type, from, gemm_b->n_stride, gemm_b->k_stride, lanes,
                        gemm_b->k, width, to);
    else
      pack_halves(gemm_b, from, lanes, width, to);
  }
}

void gemm_pack_b(const kernel_context *ctx, const gemm_b *b, char *to) {
  b_packing packing = {b, to};
  ctx->parallel_for(ctx->pool, gemm_pack_panel_count(b), PACK_GRAIN / (b->k * panel_width(b)) + 1,
                    pack_b_panels, &packing);
}
