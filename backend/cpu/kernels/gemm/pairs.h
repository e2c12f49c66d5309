#ifndef BACKEND_CPU_KERNELS_GEMM_PAIRS_H
#define BACKEND_CPU_KERNELS_GEMM_PAIRS_H
/* Products of floats that are first rounded to BF16, two k at a time. A word holds an even k in its
 * low 16 bits and the next k, or 0, in its high ones. Both terms are added to the sum in f32, the
 * odd one first, each with at most one rounding. The instruction of aarch64 instead adds both terms
 * first and rounds their sum to odd. Some processors flush subnormals to zero. */
#include "backend/cpu/kernels/gemm/gemm.h"

/* Returns the number of words of k elements. */
static inline int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

/* Round floats and join them to n words. pairs_round joins neighbours of a row, pairs_join elements
 * of two rows. odd may be NULL for zeros. */
void pairs_round(const float *x /* (2 n) */, int64_t n, uint32_t *to);
void pairs_join(const float *even, const float *odd, int64_t n, uint32_t *to);

/* Joins neighbouring rows of x (rows, n), `stride` apart, to panels (pairs_of(rows), width). */
void pairs_join_panels(const float *x, int64_t stride, int64_t rows, int64_t n, int64_t width,
                       uint32_t *to);

/* Packs, as a gemm_pack, words [word, word + n) of a strided matrix with k columns. Its element
 * (lane, k), of floats up to F32, is data[lane * lane_stride + k * k_stride]. */
typedef struct pairs_source {
  dtype type;
  const void *data;
  int64_t k, lane_stride, k_stride;
} pairs_source;
void pairs_pack(const pairs_source *source, int64_t lane, int64_t lanes, int64_t word, int64_t n,
                int64_t width, uint32_t *to);

/* Works like pairs_pack, but writes blocks (n / PAIRS_DEEP, width, PAIRS_DEEP) of neighbouring
 * words, padded with zeros. */
enum { PAIRS_DEEP = 16 };
void pairs_pack_blocks(const pairs_source *source, int64_t lane, int64_t lanes, int64_t word,
                       int64_t n, int64_t width, uint32_t *to);

/* Packs b as panels (pairs_of(k), columns), like gemm_pack_b for F32 with that many k; gemm_b_panel
 * finds them. */
size_t pairs_b_bytes(const gemm_b *b);
void pairs_pack_b(const kernel_context *ctx, const gemm_b *b, char *to /* (pairs_b_bytes) */);

/* Return kernels whose k counts words. The second returns the best kernel for m rows; on some
 * processors it has blocks, which pairs_pack_blocks packs. */
gemm_kernel pairs_kernel(void);
gemm_kernel pairs_kernel_for(int64_t m);
bool pairs_are_fast(void); /* true if the processor has instructions for pairs */

#endif
