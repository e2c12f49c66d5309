#ifndef BACKEND_CPU_KERNELS_GEMM_CODES_H
#define BACKEND_CPU_KERNELS_GEMM_CODES_H
/* Products with an encoded constant b in panels of codes (base/code_panels.h): packing, a few rows
 * of a multiplied by codes as they lie, columns made floats for gemm.c. */
#include "backend/cpu/kernels/gemm/gemm.h"
#include "base/code_panels.h"

/* 1: built into a program whose products read no codes and round nothing: what only those need is
 * not referred to, and the linker leaves it out. */
#ifndef KERNEL_PLAIN
#define KERNEL_PLAIN 0
#endif
static inline bool is_encoded(const encoding *encoding) { return !KERNEL_PLAIN && encoding->kind; }

/* Makes the panels of b, n rows of k > 0 elements. */
size_t codes_panels_bytes(const code_panels *panels, int64_t n);
void codes_pack(const kernel_context *ctx, const encoding *encoding, const void *b, int64_t n,
                int64_t k, char *to /* (codes_panels_bytes) */);

/* A product of at most codes_few_rows rows; g's pack_b is not called. memory: of codes_bytes, a
 * multiple of 64. */
typedef struct codes_product {
  const kgemm *g;
  const void *panels;
  code_panels of;
} codes_product;
int64_t codes_few_rows(void);
size_t codes_bytes(const kernel_context *ctx, const codes_product *product);
void codes_run(const kernel_context *ctx, const codes_product *product, char *memory);

/* Elements [32 part, 32 part + 32) of row `row` of b, bit for bit as encoding_decode has them where
 * groups have no zeros. */
void codes_decode(const code_panels *code_panels, const void *panels, int64_t row, int64_t part,
                  float *x);

/* What gemm_pack wants of columns [lane, lane + lanes), k a multiple of DECODED_AT_ONCE. */
void codes_widen(const codes_product *product, int64_t lane, int64_t lanes, int64_t k, int64_t kn,
                 int64_t width, float *to);

/* The same as gemm_strips wants them, of height 1, 2, 4, 8 or 16; product's g is not read. */
void codes_strips(const codes_product *product, int64_t lane, int64_t lanes, int64_t k, int64_t kn,
                  int64_t height, float *to);

/* The inner kernels: some rows of a by a panel. */
typedef struct codes_rows {
  const code_panels *p;
  const char *panel;
  const float *a;    /* (parts * DECODED_AT_ONCE, rows) */
  const float *sums; /* (parts * spans, rows): of the spans of a, for panels with lows */
  float *out;        /* (rows, CODE_PANEL), ldc apart */
  int64_t ldc;
} codes_rows;
typedef struct codes_kernel {
  int most_rows;
  void (*run)(const codes_rows *codes_rows, int rows); /* 1 <= rows <= most_rows */
  /* to (DECODED_AT_ONCE, CODE_PANEL), `step` apart: a part of a block. */
  void (*widen)(const code_panels *panels, const char *block, int part, float *to, int64_t step);
} codes_kernel;
codes_kernel codes_kernel_for(void);

#endif
