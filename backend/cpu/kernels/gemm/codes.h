#ifndef BACKEND_CPU_KERNELS_GEMM_CODES_H
#define BACKEND_CPU_KERNELS_GEMM_CODES_H
/* Products with an encoded constant b in panels of codes (base/code_panels.h): packs them,
 * multiplies a few rows of a by the codes in place, and converts columns to floats for gemm.c. */
#include "backend/cpu/kernels/gemm/gemm.h"
#include "base/code_panels.h"

/* 1 in a compiled program whose products neither read codes nor round operands, so that the linker
 * drops the code for codes and rounding. */
#ifndef KERNEL_PLAIN
#define KERNEL_PLAIN 0
#endif
static inline bool is_encoded(const encoding *encoding) { return !KERNEL_PLAIN && encoding->kind; }

/* Packs b, n rows of k > 0 elements, as panels. */
size_t codes_panels_bytes(const code_panels *panels, int64_t n);
void codes_pack(const kernel_context *ctx, const encoding *encoding, const void *b, int64_t n,
                int64_t k, char *to /* (codes_panels_bytes) */);

/* A product of at most codes_few_rows rows, whose pack_b is not called. codes_bytes returns the
 * size of `memory`, a multiple of 64. */
typedef struct codes_product {
  const kgemm *g;
  const void *panels;
  code_panels of;
} codes_product;
/* Returns the maximum number of rows of a that codes_run accepts. */
int64_t codes_few_rows(void);
size_t codes_bytes(const kernel_context *ctx, const codes_product *product);
void codes_run(const kernel_context *ctx, const codes_product *product, char *memory);

/* Decodes elements [32 part, 32 part + 32) of row `row` of b. The bits are those of encoding_decode
 * if groups have no zero points. */
void codes_decode(const code_panels *code_panels, const void *panels, int64_t row, int64_t part,
                  float *x);

/* Packs columns [lane, lane + lanes) as a gemm_pack does; k is a multiple of DECODED_AT_ONCE. */
void codes_widen(const codes_product *product, int64_t lane, int64_t lanes, int64_t k, int64_t kn,
                 int64_t width, float *to);

/* Like codes_widen, laid out for gemm_strips, height 1, 2, 4, 8 or 16. product->g is unused. */
void codes_strips(const codes_product *product, int64_t lane, int64_t lanes, int64_t k, int64_t kn,
                  int64_t height, float *to);

/* Arguments of the inner kernels: some rows of a times a panel. */
typedef struct codes_rows {
  const code_panels *p;
  const char *panel;
  const float *a;    /* (parts * DECODED_AT_ONCE, rows) */
  const float *sums; /* (parts * spans, rows): sums of a over spans, for panels with lows */
  float *out;        /* (rows, CODE_PANEL), rows ldc apart */
  int64_t ldc;
} codes_rows;
typedef struct codes_kernel {
  int max_rows;
  void (*run)(const codes_rows *codes_rows, int rows); /* 1 <= rows <= max_rows */
  /* Converts a part of a block to (DECODED_AT_ONCE, CODE_PANEL) floats, rows `stride` apart. */
  void (*widen)(const code_panels *panels, const char *block, int part, float *to, int64_t stride);
} codes_kernel;
codes_kernel codes_kernel_for(void);

#endif
