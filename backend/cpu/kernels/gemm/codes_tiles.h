/* Kernels of codes_kernels.c: products with panels of codes, and their columns as floats. Include
 * it once per instruction set, after defining
 *   TILE_SET   instruction set of the vectors (tile_vectors.h)
 *   TILE(name)   names of the functions; it also expects
 *     TILE(constants), TILE(constants_of)(storage, panels)   constants that convert codes
 *     TILE(code)(storage, words, j, constants)   code j of each word as a float
 *   TILE_ROWS   most rows
 *   TILE_WORDS, TILE_LOAD_WORDS(from)   a vector of words
 *   TILE_FACTORS(panels, block, at, subs_at, span, vector)   d or m of a span, with subs
 * A vector is a part of a panel's columns: the only one, or one of two. */

#include "backend/cpu/kernels/support/tile_vectors.h"

enum { TILE(width) = (int)(sizeof(TILE_VECTOR) / sizeof(float)) };
enum { TILE(vectors) = CODE_PANEL / TILE(width), TILE(max_rows) = TILE_ROWS };

/* Computes sums (rows) of the products of a span. */
TILE_TARGET KERNEL_INLINE void TILE(sum)(code_storage storage, int rows, int vectors,
                                         const char *words, const float *inputs,
                                         const TILE(constants) * constants, TILE_VECTOR *sums) {
  const int chains = chains_of(rows), codes = 32 / codes_kernels_bits_of(storage);
  TILE_VECTOR sum[TILE_ROWS];
#pragma GCC unroll 12
  for (int i = 0; i < rows * chains; i++) sum[i] = TILE_FILL(0);
  for (int v = 0; v < vectors; v++, words += VECTOR, inputs += codes * rows) {
    const TILE_WORDS w = TILE_LOAD_WORDS(words);
    prefetch_line(words, AHEAD);
#pragma GCC unroll 8
    for (int j = 0; j < codes; j++) {
      const TILE_VECTOR x = TILE(code)(storage, w, j, constants);
#pragma GCC unroll 12
      for (int r = 0; r < rows; r++) {
        const int i = r * chains + j % chains;
        sum[i] = TILE_ADD(TILE_FILL(inputs[j * rows + r]), x, sum[i]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
    sums[r] = sum[r * chains];
#pragma GCC unroll 4
    for (int c = 1; c < chains; c++) sums[r] += sum[r * chains + c];
  }
}

/* total (rows) += the scaled products of a span, and its lows, for one vector of the columns. */
TILE_TARGET KERNEL_INLINE void TILE(add_span)(code_storage storage, int rows,
                                              const code_panels *panels,
                                              const TILE(constants) * constants,
                                              const block_place *place, int span, int vector,
                                              TILE_VECTOR *total) {
  const char *words = words_of(panels, place->block, span) + vector * (int)sizeof(TILE_VECTOR);
  const float *inputs = place->a + span * (DECODED_AT_ONCE / panels->spans * rows);
  TILE_VECTOR sums[TILE_ROWS];
  TILE(sum)(storage, rows, vectors_of(panels), words, inputs, constants, sums);
  const TILE_VECTOR scale =
      TILE_FACTORS(panels, place->block, panels->d_at, panels->s_at, span, vector);
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) total[r] = TILE_ADD(sums[r], scale, total[r]);
  if (!panels->has_lows) return;
  const TILE_VECTOR low =
      TILE_FACTORS(panels, place->block, panels->m_at, panels->l_at, span, vector);
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++)
    total[r] = TILE_ADD(TILE_FILL(place->sums[span * rows + r]), low, total[r]);
}

TILE_TARGET KERNEL_INLINE void TILE(multiply)(code_storage storage, int rows,
                                              const codes_rows *task) {
  const code_panels *panels = task->p;
  const TILE(constants) constants = TILE(constants_of)(storage, panels);
  TILE_VECTOR total[TILE(vectors) * TILE_ROWS];
#pragma GCC unroll 16
  for (int i = 0; i < TILE(vectors) * rows; i++) total[i] = TILE_FILL(0);
  for (int64_t at = 0; at < panels->parts; at += panels->block) {
    const block_place place = block_at(task, rows, at);
    for (int i = 0; i < TILE(vectors) * place.spans; i++) {
      const int span = i / TILE(vectors), vector = i % TILE(vectors);
      TILE_VECTOR *sums = total + vector * rows;
      TILE(add_span)(storage, rows, panels, &constants, &place, span, vector, sums);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < TILE(vectors) * rows; i++)
    memcpy(task->out + i % rows * task->ldc + i / rows * TILE(width), &total[i], sizeof *total);
}

TILE_TARGET KERNEL_INLINE void TILE(run_codes)(code_storage storage, int rows,
                                               const codes_rows *task){
#define TILE_CASE(n) TILE(multiply)(storage, n, task)
#include "backend/cpu/kernels/support/tile_rows.h"
}

TILE_TARGET static void TILE(run)(const codes_rows *task, int rows) {
  const code_storage storage = codes_kernels_storage_of(task->p);
  if (storage == NIBBLES) TILE(run_codes)(NIBBLES, rows, task);
  if (storage == BYTES) TILE(run_codes)(BYTES, rows, task);
  if (storage == FLOATS) TILE(run_codes)(FLOATS, rows, task);
}

/* Converts a part of a block to floats. first: first of the panel's columns. */
TILE_TARGET KERNEL_INLINE void TILE(widen_codes)(code_storage storage, const code_panels *panels,
                                                 const char *block, int part, int first, float *to,
                                                 int64_t stride) {
  const TILE(constants) constants = TILE(constants_of)(storage, panels);
  for (int span = part * panels->spans; span < (part + 1) * panels->spans; span++) {
    TILE_VECTOR low = TILE_FILL(-0.0F); /* adding -0.0 changes nothing */
    const TILE_VECTOR scale =
        TILE_FACTORS(panels, block, panels->d_at, panels->s_at, span, first / TILE(width));
    if (panels->has_lows)
      low = TILE_FACTORS(panels, block, panels->m_at, panels->l_at, span, first / TILE(width));
    const char *words = words_of(panels, block, span) + first * 4;
    for (int v = 0; v < vectors_of(panels); v++, words += VECTOR) {
      const TILE_WORDS w = TILE_LOAD_WORDS(words);
#pragma GCC unroll 8
      for (int j = 0; j < 32 / codes_kernels_bits_of(storage); j++, to += stride) {
        const TILE_VECTOR x = TILE_ADD(TILE(code)(storage, w, j, &constants), scale, low);
        memcpy(to, &x, sizeof x);
      }
    }
  }
}

TILE_TARGET static void TILE(widen)(const code_panels *panels, const char *block, int part,
                                    float *to, int64_t stride) {
  const code_storage storage = codes_kernels_storage_of(panels);
#pragma GCC unroll 2
  for (int at = 0; at < CODE_PANEL; at += TILE(width)) {
    if (storage == NIBBLES) TILE(widen_codes)(NIBBLES, panels, block, part, at, to + at, stride);
    if (storage == BYTES) TILE(widen_codes)(BYTES, panels, block, part, at, to + at, stride);
    if (storage == FLOATS) TILE(widen_codes)(FLOATS, panels, block, part, at, to + at, stride);
  }
}

#undef TILE
#undef TILE_ROWS
#undef TILE_WORDS
#undef TILE_LOAD_WORDS
#undef TILE_FACTORS
