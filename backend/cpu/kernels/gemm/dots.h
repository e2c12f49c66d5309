#ifndef BACKEND_CPU_KERNELS_GEMM_DOTS_H
#define BACKEND_CPU_KERNELS_GEMM_DOTS_H
/* Integer products of rows rounded to 8 bits (base/rounded.h) with panels of codes, for any number
 * of rows. Sums over a span are exact. They are scaled and added in f32 in the order of spans, so
 * that the bits are the same on all processors and in kernels_cl/gemm/. */
#include "backend/cpu/kernels/gemm/codes.h"

/* Runs a product, whose pack_b is not called. dots_bytes returns the size of `memory`, a multiple
 * of 64. */
size_t dots_bytes(const kernel_context *ctx, const codes_product *product);
void dots_run(const kernel_context *ctx, const codes_product *product, char *memory);

/* A tile is several rows, packed side by side. For each part of k it has, with `rows` words each:
 *   8 words of rounded elements, in the order of the codes that they multiply. For 8 bits, byte j
 *     of word i is k = 4 i + j. For 4 bits, words 2 v and 2 v + 1 multiply the low and the high
 *     codes of the bytes of vector v; their bytes j are k = 8 v + 2 j and 8 v + 2 j + 1.
 *   the scales, as floats.
 *   per span, a sum of elements: times the scale, as a float, for panels with lows; otherwise
 *     times `least`, as an integer. */
enum { DOT_WORDS = DECODED_AT_ONCE / 4 };
static inline int64_t dots_part_words(const code_panels *panels, int rows) {
  return (int64_t)(DOT_WORDS + 1 + panels->spans) * rows;
}

/* Arguments of the inner kernels: a tile times one block of each of several panels. */
enum { MAX_DOT_PANELS = 4 };
typedef struct dots_tile {
  const code_panels *p;
  const char *block[MAX_DOT_PANELS]; /* the current block of each panel */
  int n;                             /* parts of the block */
  const int32_t *a;                  /* the same parts of the tile */
  float *factors; /* (n, spans, 2 with lows, panels, CODE_PANEL): d * s, then m * l, from
                     read_factors */
  float *sums;    /* (rows, panels, CODE_PANEL), added to */
  int64_t ld;     /* floats between rows of sums */
} dots_tile;
static inline int64_t dots_part_factors(const code_panels *code_panels, int panels) {
  return (int64_t)code_panels->spans * (code_panels->has_lows ? 2 : 1) * panels * CODE_PANEL;
}
typedef struct dots_kernel {
  int max_rows;
  int in_order; /* tiles with at most so many rows read factors in place, among the codes */
  int (*panels)(int rows); /* panels per tile with so many rows */
  void (*read_factors)(const dots_tile *tile, int panels, float *to);
  void (*run)(const dots_tile *tile, int rows);
} dots_kernel;
dots_kernel dots_kernel_for(void);

#endif
