#ifndef BACKEND_CPU_KERNELS_GEMM_DOTS_H
#define BACKEND_CPU_KERNELS_GEMM_DOTS_H
/* Products of rows that are rounded to 8 bits (base/rounded.h) with panels of codes, as integers:
 * of any number of rows. Sums over a span are exact; they are scaled and added in f32 in the order
 * of spans, so that no bit depends on the processor, and all are those of
 * kernels_cl/gemm/. */
#include "backend/cpu/kernels/gemm/codes.h"

/* g's pack_b is not called; memory: of dots_bytes, a multiple of 64. */
size_t dots_bytes(const kernel_context *ctx, const codes_product *product);
void dots_run(const kernel_context *ctx, const codes_product *product, char *memory);

/* Rows side by side are a tile. It has for each part of k, `rows` words each: 8 words of rounded
 * elements, in the order of the codes that they meet: of 8 bits, byte j of word i is k = 4 i + j;
 * of 4 bits, words 2 v and 2 v + 1 meet the low and the high codes of the bytes of vector v, byte j
 * being k = 8 v + 2 j and 8 v + 2 j + 1. Then the scales, as floats. Then for each span sums of
 * elements: times the scale, as floats, for panels with lows; else times `least`, as integers. */
enum { DOT_WORDS = DECODED_AT_ONCE / 4 };
static inline int64_t dots_part_words(const code_panels *panels, int rows) {
  return (int64_t)(DOT_WORDS + 1 + panels->spans) * rows;
}

/* The inner kernels: a tile by blocks of panels side by side. */
enum { MOST_DOT_PANELS = 4 };
typedef struct dots_tile {
  const code_panels *p;
  const char *block[MOST_DOT_PANELS]; /* of each panel */
  int n;                              /* parts of it */
  const int32_t *a;                   /* those parts */
  float *factors; /* (n, spans, 2 with lows, panels, CODE_PANEL): their d * s and m * l, by
                     read_factors */
  float *sums;    /* (rows, panels, CODE_PANEL), which are added to */
  int64_t ld;     /* from a row of them to the next */
} dots_tile;
static inline int64_t dots_part_factors(const code_panels *code_panels, int panels) {
  return (int64_t)code_panels->spans * (code_panels->has_lows ? 2 : 1) * panels * CODE_PANEL;
}
typedef struct dots_kernel {
  int most_rows;
  int in_order; /* rows of a tile that reads factors itself, among the codes; at most so many */
  int (*panels)(int rows); /* side by side */
  void (*read_factors)(const dots_tile *tile, int panels, float *to);
  void (*run)(const dots_tile *tile, int rows);
} dots_kernel;
dots_kernel dots_kernel_for(void);

#endif
