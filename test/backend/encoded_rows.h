#ifndef TEST_BACKEND_ENCODED_ROWS_H
#define TEST_BACKEND_ENCODED_ROWS_H
/* Makes encoded matrices with arbitrary codes and the caller's scales. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/kernels/support/rows.h"
#include "base/encoding.h"

typedef struct encoded {
  const char *name; /* as encoding_parse reads it */
  int64_t k;
  int d_at, m_at; /* offsets of the factors in blocks */
} encoded;

static uint32_t seed;
static uint32_t random_number(void) { return seed = seed * 1664525U + 1013904223U, seed >> 8; }

static void put_factors(const encoding *encoding, uint8_t *at, int64_t n, float (*factor)(void)) {
  for (int64_t i = 0; i < n; i++) {
    float f = factor();
    store_row(COMPUTE_F32, (dtype)encoding->scale, element_at(at, (dtype)encoding->scale, i), 1, 1,
              &f);
  }
}

static void fill_groups(const encoding *encoding, uint8_t *row, int64_t k, float (*factor)(void)) {
  int64_t parts = (k + 31) / 32,
          groups = encoding->group ? (k + encoding->group - 1) / encoding->group : 1;
  int64_t codes = parts * 4 * encoding->bits;
  for (int64_t i = 0; i < codes; i++) row[i] = (uint8_t)random_number();
  put_factors(encoding, row + codes, groups * (encoding->has_zeros ? 2 : 1), factor);
}

static void put_half(uint8_t *at, float (*factor)(void)) {
  uint16_t half = f32_to_f16(factor());
  memcpy(at, &half, sizeof half);
}

static void fill_blocks(const encoded *encoded, const block_format *format, uint8_t *row,
                        float (*factor)(void)) {
  for (int64_t b = 0; b < encoded->k / format->elements; b++, row += format->bytes) {
    for (int i = 0; i < format->bytes; i++) row[i] = (uint8_t)random_number();
    put_half(row + encoded->d_at, factor);
    if (encoded->m_at >= 0) put_half(row + encoded->m_at, factor);
  }
}

/* Returns n encoded rows of k elements; the caller frees them. */
static uint8_t *make_encoded(const encoded *encoded, const encoding *encoding, int64_t n,
                             float (*factor)(void)) {
  size_t bytes = encoding_row_bytes(encoding, encoded->k);
  uint8_t *rows = calloc((size_t)n + 1, bytes);
  assert_non_null(rows);
  for (int64_t i = 0; i < n; i++)
    if (encoding->kind == ENCODING_GROUPS)
      fill_groups(encoding, rows + (size_t)i * bytes, encoded->k, factor);
    else
      fill_blocks(encoded, block_format_at(encoding->format), rows + (size_t)i * bytes, factor);
  return rows;
}

#endif
