/* out[z][m][n] = alpha * sum_k a[z][m][k] * b[n][k] + beta * bias[z][m][n] for an encoded b and few
 * rows, M rows of a at a time. CPU: a work-item computes `each` neighbours of n.
 *
 * GPU: a group of GROUP work-items computes GROUP / LANES neighbours of n. LANES work-items share
 * one n, each computes every LANES-th part, and their sums are added. So neighbours read
 * neighbouring parts of a row, and all rows read the same part of a from the cache; with few parts
 * no work-item is idle. With 4 bits and k = 4096 the codes of 32 neighbours are 512 contiguous
 * bytes, 4 loads of a word for each (not measured on a GPU). GROUPED: z is a tile of the rows of a,
 * each with its own n_size rows of b. */
#include "encoded.h"
#include "matmul.h"
#ifndef M
#define M 1
#endif
#ifndef A_ORDER
#define A_ORDER 1 /* 1: k is contiguous */
#endif
#ifndef WHOLE
#define WHOLE 0 /* 1: k_size is a multiple of PART, and w and x stay in registers */
#endif
#define GROUP 64
#ifndef LANES
#define LANES 64
#endif

/* Loads PART elements of a row of a from k on, padded with zeros. */
static inline void load_part(__global const STORAGE(A_TYPE) * a, index_t a_k, index_t k, index_t n,
                             float *x) {
#if A_ORDER == 1
  if (WHOLE || k + PART <= n) {
    vstore16(LOAD16F(A_TYPE, a + k), 0, x);
    vstore16(LOAD16F(A_TYPE, a + k + 16), 1, x);
    return;
  }
#endif
  for (int i = 0; i < PART; i++) x[i] = WHOLE || k + i < n ? LOADF(A_TYPE, a, (k + i) * a_k) : 0;
}

static inline float fold(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}

/* sums[m] = row m of a times a row of b, over the parts first, first + stride and so on. */
static inline void dot_parts(__global const STORAGE(A_TYPE) * a, index_t a_m, index_t a_k, int last,
                             code_bytes row, long scales_at, index_t groups, index_t group,
                             index_t k_size, index_t first, index_t stride, float *sums) {
  float16 sum[M];
#pragma unroll
  for (int m = 0; m < M; m++) sum[m] = 0;
  for (index_t part = first; part * PART < k_size; part += stride) {
    float w[PART];
    decode_part(row, part, scales_at, groups, group, w);
#if !WHOLE
    for (int i = (int)min(k_size - part * PART, (index_t)PART); i < PART; i++) w[i] = 0;
#endif
    const float16 w0 = vload16(0, w), w1 = vload16(1, w);
#pragma unroll
    for (int m = 0; m < M; m++) {
      float x[PART];
      load_part(a + min(m, last) * a_m, a_k, part * PART, k_size, x);
      sum[m] = FMA(w0, vload16(0, x), sum[m]);
      sum[m] = FMA(w1, vload16(1, x), sum[m]);
    }
  }
#pragma unroll
  for (int m = 0; m < M; m++) sums[m] = fold(sum[m]);
}

__kernel void gemv_encoded(GEMM_PARAMS, ENCODED_PARAMS, const int each, __local float *scratch) {
  const index_t z = (index_t)get_global_id(2), m0 = (index_t)get_global_id(1) * M;
  const index8 b_batch = (index8)(GROUPED ? n_size : 0);
  const product p = PRODUCT_AT(z);
  const int rows = (int)min((index_t)M, p.rows - m0), last = max(rows - 1, 0);
  a += a_offset + p.a + m0 * a_m;
  codes += codes_offset + (long)p.b * row_bytes;
  bias += bias_offset + strided_offset(z, batch_dims, bias_batch) + m0 * bias_m;
  out += out_offset + p.out + (long)m0 * n_size;
  float sums[M];
#if ON_CPU
  const index_t n0 = (index_t)get_global_id(0) * each, n1 = min(n0 + each, n_size);
  for (index_t n = n0; n < n1; n++) {
    dot_parts(a, a_m, a_k, last, codes + n * row_bytes, scales_at, groups, group, p.depth, 0, 1,
              sums);
    for (int m = 0; m < rows; m++)
      STORE(OUT_TYPE, out, m * n_size + n,
            finish(sums[m], bias, m * bias_m + n * bias_n, alpha, beta));
  }
  for (int m = 0; m < rows; m++)
    EPILOGUE(out + m * n_size + n0, (index_t)p.out + (m0 + m) * n_size + n0, n1 - n0);
#else
  const int item = (int)get_local_id(0), lane = item % LANES;
  const index_t n = (index_t)get_group_id(0) * (GROUP / LANES) + item / LANES;
  dot_parts(a, a_m, a_k, last, codes + min(n, n_size - 1) * row_bytes, scales_at, groups, group,
            p.depth, lane, LANES, sums);
#pragma unroll
  for (int m = 0; m < M; m++) scratch[m * GROUP + item] = sums[m];
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int m = 0; m < M && lane < distance; m++)
      scratch[m * GROUP + item] += scratch[m * GROUP + item + distance];
  }
  for (int m = 0; m < rows && lane == 0 && n < n_size; m++) {
    STORE(OUT_TYPE, out, m * n_size + n,
          finish(scratch[m * GROUP + item], bias, m * bias_m + n * bias_n, alpha, beta));
    EPILOGUE(out + m * n_size + n, (index_t)p.out + (m0 + m) * n_size + n, 1);
  }
#endif
}
