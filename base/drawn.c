/* Pseudo-random tensors, and digests of results. */
#include "base/drawn.h"

#include <string.h>

static double draw_uniform(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return (double)(*seed >> 11) / 9007199254740992.0; /* in [0, 1) */
}

/* Returns a number of mean 0 and variance 1, computed as a sum of uniform numbers. It calls no
 * maths function, because libraries round those differently. */
static double draw_normal(uint64_t *seed) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += draw_uniform(seed);
  return sum;
}

static void drawn_store(dtype t, double value, char *to) {
  const float f = (float)value;
  uint16_t half = t == DTYPE_F16 ? f32_to_f16(f) : f32_to_bf16(f);
  uint8_t byte = t == DTYPE_F8_E4M3 ? f32_to_f8_e4m3(f) : f32_to_f8_e5m2(f);
  const void *from = t == DTYPE_F64       ? (const void *)&value
                     : t == DTYPE_F32     ? (const void *)&f
                     : dtype_size(t) == 2 ? (const void *)&half
                                          : (const void *)&byte;
  memcpy(to, from, dtype_size(t));
}

void draw_elements(dtype t, size_t n, void *to, uint64_t *seed) {
  const size_t unit = dtype_size(t);
  memset(to, 0, n * unit);
  for (size_t i = 0; dtype_has_fractions(t) && i < n; i++)
    drawn_store(t, draw_normal(seed), (char *)to + i * unit);
}

int64_t drawn_size(int64_t min, int64_t max) {
  const int64_t low = min > 1 ? min : 1;
  return low < max ? low : max;
}

/* ---------------------------------------------------------------- digests */

/* An element is a NaN if its bits without the sign (`mask`) exceed `max_number`. */
typedef struct nan_bits {
  dtype t;
  uint64_t mask, max_number;
} nan_bits;
static const nan_bits all_nans[] = {
    {DTYPE_F32, 0x7fffffff, 0x7f800000},
    {DTYPE_F64, UINT64_C(0x7fffffffffffffff), UINT64_C(0x7ff0000000000000)},
    {DTYPE_F16, 0x7fff, 0x7c00},
    {DTYPE_BF16, 0x7fff, 0x7f80},
    {DTYPE_F8_E4M3, 0x7f, 0x7e},
    {DTYPE_F8_E5M2, 0x7f, 0x7c}};

static const nan_bits *nans_of(dtype t) {
  for (size_t i = 0; i < sizeof all_nans / sizeof *all_nans; i++)
    if (all_nans[i].t == t) return &all_nans[i];
  return NULL;
}

static uint64_t without_nan(const nan_bits *nan, uint64_t bits) {
  return nan && (bits & nan->mask) > nan->max_number ? nan->mask : bits;
}

/* Needs a little-endian host, as files do. */
void digest_elements(dtype t, size_t n, const void *data, char hex[SHA256_TEXT]) {
  enum { AT_ONCE = 512 };
  const size_t unit = dtype_size(t);
  const nan_bits *nan = nans_of(t);
  unsigned char part[AT_ONCE * 8];
  sha256 sha256;
  sha256_begin(&sha256);
  for (size_t i = 0; i < n;) {
    size_t filled = 0;
    for (; filled < AT_ONCE && i < n; i++, filled++) {
      uint64_t bits = 0;
      memcpy(&bits, (const char *)data + i * unit, unit);
      bits = without_nan(nan, bits);
      memcpy(part + filled * unit, &bits, unit);
    }
    sha256_add(&sha256, part, filled * unit);
  }
  sha256_end(&sha256, hex);
}
