#ifndef BACKEND_CPU_KERNELS_GEMM_PAIRS_H
#define BACKEND_CPU_KERNELS_GEMM_PAIRS_H
/* Products of floats that are rounded to BF16 first, two k at a time: gemm.c's of words, whose low
 * and high 16 bits are an even k and the next, 0 beyond the last. Terms of a pair are added to the
 * sum in f32, the odd one first, each with one rounding at most; by aarch64's instruction to each
 * other first, and their sum, which it rounds to odd. Of subnormals a processor may make zeros. */
#include "backend/cpu/kernels/gemm/gemm.h"

static inline int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

/* n words: of neighbours; of two rows, whose second may be NULL for zeros. */
void pairs_round(const float *x /* (2 n) */, int64_t n, uint32_t *to);
void pairs_join(const float *even, const float *odd, int64_t n, uint32_t *to);

/* Of neighbouring rows of x (rows, n), `step` apart, in panels (pairs_of(rows), width). */
void pairs_join_panels(const float *x, int64_t step, int64_t rows, int64_t n, int64_t width,
                       uint32_t *to);

/* A gemm_pack of words [word, word + n) of a strided matrix with k columns: element (lane, k) of
 * floats up to F32 is data[lane * lane_stride + k * k_stride]. */
typedef struct pairs_source {
  dtype type;
  const void *data;
  int64_t k, lane_stride, k_stride;
} pairs_source;
void pairs_pack(const pairs_source *source, int64_t lane, int64_t lanes, int64_t word, int64_t n,
                int64_t width, uint32_t *to);

/* The same in blocks (n / PAIRS_DEEP, width, PAIRS_DEEP) of neighbouring words, those behind the
 * last as zeros. */
enum { PAIRS_DEEP = 16 };
void pairs_pack_blocks(const pairs_source *source, int64_t lane, int64_t lanes, int64_t word,
                       int64_t n, int64_t width, uint32_t *to);

/* In panels (pairs_of(k), columns) as gemm_pack_b's of F32, which gemm_b_panel finds with that many
 * k. */
size_t pairs_b_bytes(const gemm_b *b);
void pairs_pack_b(const kernel_context *ctx, const gemm_b *b, char *to /* (pairs_b_bytes) */);

/* k counts words. The second, for m rows, has blocks where the processor multiplies them, which
 * pairs_pack_blocks packs. */
gemm_kernel pairs_kernel(void);
gemm_kernel pairs_kernel_for(int64_t m);
bool pairs_are_fast(void); /* by the processor's own instructions */

#endif
