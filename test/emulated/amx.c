/* Emulates AMX's tiles in plain C, on a processor that has all instruction sets of x86-64
 * (features.h). Follows the pseudocode of Intel's manual: TDPBF16PS sums the products of even and
 * of odd elements separately, and adds both sums to the tile. */
#include <assert.h>

#include "backend/cpu/kernels/support/features.h"

enum { ROWS = 16, WORDS = 16, ROW_BYTES = 64 };

typedef union tile {
  float f32[ROWS][WORDS];
  int32_t i32[ROWS][WORDS];
  uint16_t bf16[ROWS][2 * WORDS];
  int8_t i8[ROWS][ROW_BYTES];
  uint8_t u8[ROWS][ROW_BYTES];
} tile;
static _Thread_local tile tiles[8];
static _Thread_local bool is_configured;

static tile *tile_of(int i) {
  assert(is_configured); /* otherwise a processor faults */
  return &tiles[i];
}

/* All kernels use whole tiles. */
void _tile_loadconfig(const void *configuration) {
  const uint8_t *palette = configuration, *row_bytes = palette + 16, *rows = palette + 48;
  assert(*palette == 1);
  for (int i = 0; i < 8; i++) assert(row_bytes[2 * i] == ROW_BYTES && rows[i] == ROWS);
  is_configured = true;
}
void _tile_release(void) { is_configured = false; }
void _tile_zero(int to) { memset(tile_of(to), 0, sizeof(tile)); }
void _tile_loadd(int to, const void *from, int64_t step) {
  for (int i = 0; i < ROWS; i++)
    memcpy(tile_of(to)->u8[i], (const char *)from + i * step, ROW_BYTES);
}
void _tile_stored(int from, void *to, int64_t step) {
  for (int i = 0; i < ROWS; i++) memcpy((char *)to + i * step, tile_of(from)->u8[i], ROW_BYTES);
}

void _tile_dpbf16ps(int to, int a, int b) {
  for (int m = 0; m < ROWS; m++) {
    float sums[2 * WORDS] = {0}, *c = tile_of(to)->f32[m];
    for (int k = 0; k < WORDS; k++)
      for (int n = 0; n < 2 * WORDS; n++)
        sums[n] = flushed(fmaf(from_bf16(tile_of(a)->bf16[m][2 * k + n % 2]),
                               from_bf16(tile_of(b)->bf16[k][n]), sums[n]));
    for (int n = 0; n < WORDS; n++)
      c[n] = flushed(flushed(c[n]) + flushed(sums[2 * n] + sums[2 * n + 1]));
  }
}

/* Products of bytes with or without signs, whose sums wrap around. */
#define BYTES(name, of_a, of_b)                                                    \
  void name(int to, int a, int b) {                                                \
    const tile *x = tile_of(a), *y = tile_of(b);                                   \
    for (int m = 0; m < ROWS; m++)                                                 \
      for (int k = 0; k < ROW_BYTES; k++)                                          \
        for (int n = 0; n < WORDS; n++)                                            \
          tile_of(to)->i32[m][n] += x->of_a[m][k] * y->of_b[k / 4][4 * n + k % 4]; \
  }
BYTES(_tile_dpbssd, i8, i8)
BYTES(_tile_dpbsud, i8, u8)
BYTES(_tile_dpbusd, u8, i8)

/* ---------------------------------------------------------------- the processor */

static int most = CPU_AMX;
static _Thread_local int kind = KIND_OWN;
static bool has(cpu_level level, cpu_kind least) {
  return kind == KIND_OWN ? most >= (int)level : kind >= (int)least;
}
void cpu_use_at_most(cpu_level level) { most = (int)level; }
void cpu_pretend(cpu_kind pretended) { kind = pretended; }
bool cpu_allows_amx(void) { return true; }
bool cpu_has_avx2(void) { return has(CPU_AVX2, KIND_AVX2); }
bool cpu_has_avx512(void) { return has(CPU_AVX512, KIND_AVX512); }
bool cpu_has_avx512_vnni(void) { return has(CPU_AVX512, KIND_AVX512_ALL); }
bool cpu_has_avx512_bf16(void) { return has(CPU_AVX512, KIND_AVX512_ALL); }
bool cpu_has_amx(void) { return has(CPU_AMX, KIND_ALL); }
bool cpu_has_dotprod(void) { return false; }
bool cpu_has_i8mm(void) { return false; }
bool cpu_has_arm_bf16(void) { return false; }
const char *cpu_level_name(void) {
  return cpu_has_avx512() ? "x86-64 avx512" : cpu_has_avx2() ? "x86-64 avx2" : "portable";
}
