/* Products by AMX's tiles, of 16 rows of 16 words: sums c (16, 16) += a (16 rows, 16 words) times b
 * (16 words, 16 columns), whose words are pairs.h's. AMX:
 *   AMX_NONE
 *   AMX_ASM    tiles 0 to 3 are sums of 32 rows and columns, 4 and 5 a's, 6 and 7 b's. A work-item
 *              says amx_begin first and amx_end last (measured on Sapphire Rapids: both together
 *              56 ns). The compiler knows of no tiles, so each statement is volatile.
 *   AMX_LOCAL  the same sums in OpenCL C, on any device: for tests
 * b is in B_SPACE, sums in SUMS_SPACE. */
#ifndef AMX_H
#define AMX_H
#define AMX_NONE 0
#define AMX_ASM 1
#define AMX_LOCAL 2
#ifndef AMX
#define AMX AMX_NONE
#endif
#define AMX_SIDE 16 /* rows, words, columns */
#define AMX_WHOLE(n) (((n) + AMX_SIDE - 1) / AMX_SIDE * AMX_SIDE)

#if AMX
/* One or two panels of a, a_panel apart, each a tile of 16 words after the other, and of b rows of
 * 32 words, b_row apart, or of their first 16. next: what is read later, asked for meanwhile,
 * `lines` of 16 floats with each step of 16 words, of taps in both panels; or 0 and none. taps:
 * each 16 rows of b are multiplied at so many places, `offsets` from where they are, by as many
 * tiles of a; or 0, where they are alone. start: what sums of a panel's rows begin with, 16 columns
 * that are alike, panel behind panel; or 0, then 0. */
typedef struct tiles {
  const __global float *a;
  index_t a_panel;
  int panels, b_row, lines;
  B_SPACE const float *b;
  const __global float *next;
  bool is_half;
  int taps;
  const int *offsets;
  const float *start;
} tiles;
#endif

#if AMX == AMX_ASM
typedef struct __attribute__((aligned(64))) amx_configuration {
  uchar palette, start_row, reserved[14];
  ushort row_bytes[16];
  uchar rows[16];
} amx_configuration;

/* words: of a row of a, and rows of b. */
static inline void amx_configure(int words) {
  amx_configuration c = {.palette = 1};
  for (int i = 0; i < 8; i++) c.row_bytes[i] = 4 * AMX_SIDE, c.rows[i] = AMX_SIDE;
  c.row_bytes[4] = c.row_bytes[5] = (ushort)(4 * words);
  c.rows[6] = c.rows[7] = (uchar)words;
  __asm__ volatile("ldtilecfg %0" : : "m"(c) : "memory");
}
static inline void amx_begin(void) { amx_configure(AMX_SIDE); }
static inline void amx_end(void) { __asm__ volatile("tilerelease" : : : "memory"); }

/* Rows are `bytes` apart. */
#define TILE_LOAD(tile, p, bytes)                        \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile    \
                   :                                     \
                   : "r"((ulong)(p)), "r"((long)(bytes)) \
                   : "memory")
#define TILE_STORE(tile, p, bytes)                        \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" \
                   :                                      \
                   : "r"((ulong)(p)), "r"((long)(bytes))  \
                   : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : : : "memory")
#define TILE_MULTIPLY(c, a, b) \
  __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : : "memory")

static inline void load_sums(const tiles *t, SUMS_SPACE float *sums, int pitch) {
  SUMS_SPACE float *below = sums + AMX_SIDE * pitch;
  TILE_LOAD(0, sums, 4 * pitch);
  if (!t->is_half) TILE_LOAD(1, sums + AMX_SIDE, 4 * pitch);
  if (t->panels == 1) return;
  TILE_LOAD(2, below, 4 * pitch);
  if (!t->is_half) TILE_LOAD(3, below + AMX_SIDE, 4 * pitch);
}

static inline void store_sums_of(const tiles *t, SUMS_SPACE float *sums, int pitch) {
  SUMS_SPACE float *below = sums + AMX_SIDE * pitch;
  TILE_STORE(0, sums, 4 * pitch);
  if (!t->is_half) TILE_STORE(1, sums + AMX_SIDE, 4 * pitch);
  if (t->panels == 1) return;
  TILE_STORE(2, below, 4 * pitch);
  if (!t->is_half) TILE_STORE(3, below + AMX_SIDE, 4 * pitch);
}

static inline void multiply_step(const tiles *t, const __global float *a, B_SPACE const float *b) {
  TILE_LOAD(6, b, 4 * t->b_row);
  TILE_LOAD(4, a, 4 * AMX_SIDE);
  if (!t->is_half) TILE_LOAD(7, b + AMX_SIDE, 4 * t->b_row);
  TILE_MULTIPLY(0, 4, 6);
  if (!t->is_half) TILE_MULTIPLY(1, 4, 7);
  if (t->panels == 1) return;
  TILE_LOAD(5, a + t->a_panel, 4 * AMX_SIDE);
  TILE_MULTIPLY(2, 5, 6);
  if (!t->is_half) TILE_MULTIPLY(3, 5, 7);
}

/* sums = the products of `steps` times 16 rows of b from word `from` on, of which the last may be
 * fewer, as configured; on top of what they were, or if `first` of what they begin with. */
static inline void multiply_steps(const tiles *t, int from, int steps, SUMS_SPACE float *sums,
                                  int pitch, bool first) {
  const __global float *a = t->a + from * AMX_SIDE, *next = t->next;
  B_SPACE const float *b = t->b + from * t->b_row;
  if (first && t->start) {
    const float *other = t->start + (t->panels - 1) * AMX_SIDE * AMX_SIDE;
    TILE_LOAD(0, t->start, 4 * AMX_SIDE);
    TILE_LOAD(1, t->start, 4 * AMX_SIDE);
    TILE_LOAD(2, other, 4 * AMX_SIDE);
    TILE_LOAD(3, other, 4 * AMX_SIDE);
  } else if (first) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
  } else {
    load_sums(t, sums, pitch);
  }
  for (int i = 0; i < steps; i++, b += AMX_SIDE * t->b_row)
    for (int tap = 0; tap == 0 || tap < t->taps; tap++, a += AMX_SIDE * AMX_SIDE) {
      for (int l = 0; l < t->lines; l++, next += AMX_SIDE) {
        ASK_FOR(next);
        if (t->taps && t->panels > 1) ASK_FOR(next + t->a_panel);
      }
      multiply_step(t, a, t->taps ? b + t->offsets[tap] : b);
    }
  store_sums_of(t, sums, pitch);
}
#else
static inline void amx_begin(void) {}
static inline void amx_end(void) {}
#endif

#if AMX
/* sums (16 rows of each panel, 32), rows `pitch` apart, = the panels by `words` rows of b, on top
 * of what they were, or if `first` of what they begin with. What a's tiles have beyond the words is
 * not read; of taps all words are. */
static inline void multiply_tiles(const tiles *t, int words, SUMS_SPACE float *sums, int pitch,
                                  bool first) {
#if AMX == AMX_ASM
  const int whole = words / AMX_SIDE * AMX_SIDE;
  if (whole) multiply_steps(t, 0, whole / AMX_SIDE, sums, pitch, first);
  if (whole == words) return;
  amx_configure(words - whole);
  multiply_steps(t, whole, 1, sums, pitch, first && whole == 0);
  amx_configure(AMX_SIDE);
#else
  for (int r = 0; r < t->panels * AMX_SIDE; r++) {
    const __global float *row = t->a + r / AMX_SIDE * t->a_panel + r % AMX_SIDE * AMX_SIDE;
    for (int j = 0; j < (t->is_half ? 1 : 2) * AMX_SIDE; j++) {
      float sum = !first ? sums[r * pitch + j] : t->start ? t->start[r * AMX_SIDE] : 0;
      const int taps = max(t->taps, 1), last = (words + AMX_SIDE - 1) / AMX_SIDE * taps * AMX_SIDE;
      for (int k = 0; k < last; k++) {
        const int step = k / AMX_SIDE, i = step / taps * AMX_SIDE + k % AMX_SIDE;
        if (i >= words) continue;
        const int at = i * t->b_row + j + (t->taps ? t->offsets[step % taps] : 0);
        const uint x = as_uint(row[step * AMX_SIDE * AMX_SIDE + k % AMX_SIDE]),
                   y = as_uint(t->b[at]);
        sum = fma(as_float(x << 16), as_float(y << 16), sum);
        sum = fma(as_float(x & 0xffff0000u), as_float(y & 0xffff0000u), sum);
      }
      sums[r * pitch + j] = sum;
    }
  }
#endif
}
#endif
#endif
