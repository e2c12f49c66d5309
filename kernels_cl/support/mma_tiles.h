/* Tiles of F16 or BF16 in local memory that asynchronous copies fill while the units for matrices
 * (mma.h) multiply others: NVIDIA GPUs of compute capability 8.0 or later, cp.async and ldmatrix.
 *
 * A tile holds texels of 8 elements along the operand's contiguous axis: lines of TILE_DEPTH k
 * (order 1), or of `rows` rows (order 0), which ldmatrix transposes. The texels of a line are
 * permuted, so that the same texel of 8 neighbouring lines is in different banks.
 *
 * The copies of a work-item complete in groups: copies_commit ends a group, copies_wait(n) waits
 * for all groups but the last n. MMA_EMULATED, for tests, fills a texel with NaN when its copy
 * begins, and with the elements when the copy must be complete; fragments are those that ldmatrix
 * would load. */
#ifndef MMA_TILES_H
#define MMA_TILES_H
#include "fetch.h"
#include "mma.h"
#define TILE_DEPTH 32 /* k of a tile */
#if MMA == MMA_LDMATRIX

/* A tile is texels[lines * length]. order: see above; a compile-time constant. */
typedef struct tile {
  __local uint4 *texels;
  int length, order; /* texels of a line */
} tile;
#define TILE_TEXELS(rows) ((rows)*TILE_DEPTH / 8)
#define TILE_AT(texels, rows, order) \
  { texels, ((order) ? TILE_DEPTH : (rows)) / 8, order }

/* Returns the texel that has element (row, k) of the operand. */
static inline __local uint4 *texel_of(const tile *of, int row, int k) {
  const int line = of->order ? row : k, i = (of->order ? k : row) / 8;
  return of->texels + line * of->length + (i ^ (of->length == 4 ? line / 2 % 4 : line % 8));
}

/* ---------------------------------------------------------------- copies */

#if MMA_EMULATED
#define MAX_COPIES 16
typedef struct copies {
  __local uint4 *to[MAX_COPIES];
  uint4 texels[MAX_COPIES];
  int n, groups, ends[4]; /* copies that are not complete; groups of them; the end of each */
} copies;
static inline void copies_add(copies *all, const __global ushort *from, __local uint4 *to) {
  *to = (uint4)(0x7fff7fffu);
  all->to[all->n] = to;
  all->texels[all->n++] = *(const __global uint4 *)from;
}
static inline void copies_commit(copies *all) { all->ends[all->groups++] = all->n; }
static inline void copies_wait(copies *all, int groups) {
  int done = 0;
  if (all->groups <= groups) return;
  done = all->ends[all->groups - groups - 1];
  for (int i = 0; i < done; i++) *all->to[i] = all->texels[i];
  for (int i = done; i < all->n; i++)
    all->to[i - done] = all->to[i], all->texels[i - done] = all->texels[i];
  for (int i = 0; i < groups; i++) all->ends[i] = all->ends[all->groups - groups + i] - done;
  all->n -= done;
  all->groups = groups;
}
#else
typedef struct copies {
  int unused; /* the hardware counts them */
} copies;
static inline void copies_add(copies *all, const __global ushort *from, __local uint4 *to) {
  (void)all;
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :
                   : "r"(SHARED_ADDRESS(to)), "l"(from)
                   : "memory");
}
#define copies_commit(all) __asm__ volatile("cp.async.commit_group;" : : : "memory")
#define copies_wait(all, groups) \
  __asm__ volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory")
#endif

/* Begins to copy the elements of an operand from k0 on to a tile of `rows` rows. Elements outside
 * of the operand are 0. A texel that is not aligned, or not whole, is stored at once. items: the
 * number of work-items that share the tile. */
static inline void begin_tile(copies *all, const operand *source, index_t k0, const tile *to,
                              int rows, int item, int items) {
  UNROLL_MMA
  for (int i = 0; i < TILE_TEXELS(rows) / items; i++) {
    const int texel = item + i * items, line = texel / to->length, first = texel % to->length * 8;
    const int row = source->order ? line : first, k = source->order ? first : line;
    const index_t n = source->order ? source->depth - k0 - k : source->rows - row;
    const __global ushort *from =
        source->p + row * source->row_stride + (k0 + k) * source->k_stride;
    if (row < source->rows && k0 + k < source->depth && n >= 8 && ((size_t)from & 15) == 0)
      copies_add(all, from, texel_of(to, row, k));
    else
      *texel_of(to, row, k) = fetch_at(source, row, k0 + k);
  }
}

/* ---------------------------------------------------------------- fragments */

/* ldmatrix loads matrices of 8 x 8 from the texels that the lanes name, 8 lanes a matrix: rows and
 * columns of the operand, or their transposed matrix if its order is 0. These functions return the
 * texel that a lane names, for the block from (row, k) on. Rows of b are columns. */
static inline __local uint4 *a_texel(const tile *of, int row, int k, int lane) {
  const int line = lane % 8, next_row = lane / 8 % 2 * 8, next_k = lane / 16 * 8;
  return of->order ? texel_of(of, row + next_row + line, k + next_k)
                   : texel_of(of, row + next_row, k + next_k + line);
}
static inline __local uint4 *b_texel(const tile *of, int row, int k, int lane) {
  const int line = lane % 8, next_k = lane / 8 % 2 * 8;
  return of->order ? texel_of(of, row + line, k + next_k) : texel_of(of, row, k + next_k + line);
}

/* tile_a and tile_b load a lane's fragment of the block from (row, k) on. MULTIPLY_TILES(T, c, x,
 * y, lane) computes c += x * y. */
#if MMA_EMULATED
typedef struct tile_fragment {
  const tile *from;
  int row, k;
} tile_fragment;
typedef tile_fragment tile_a_fragment;
typedef tile_fragment tile_b_fragment;
#define tile_a(of, row, k, lane) ((tile_fragment){of, row, k})
#define tile_b tile_a
/* DEFINE_WORD(x) returns word w of a row of a block: the item of the lane that has it. */
#define DEFINE_WORD(x, ITEM)                                                                       \
  static inline uint PASTE(x, _word)(const tile_fragment *f, int row, int w) {                     \
    const int lane = row % 8 * 4 + w % 4, first = 8 * (ITEM), order = f->from->order,              \
              even = first + (order ? lane / 4 : lane % 4 * 2), odd = even + !order,               \
              i = order ? lane % 4 * 2 : lane / 4;                                                 \
    const __local ushort *p = (const __local ushort *)PASTE(x, _texel)(f->from, f->row, f->k,      \
                                                                       even),                      \
                         *q =                                                                      \
                             (const __local ushort *)PASTE(x, _texel)(f->from, f->row, f->k, odd); \
    return p[i] | (uint)q[i + order] << 16;                                                        \
  }
DEFINE_WORD(a, row / 8 + w / 4 * 2)
DEFINE_WORD(b, w / 4)
#define DEFINE_MULTIPLY_TILES(T)                                                           \
  static inline void PASTE(multiply_tiles_, T)(float *c, tile_fragment x, tile_fragment y, \
                                               int lane) {                                 \
    for (int i = 0; i < SUMS; i++)                                                         \
      for (int w = 0; w < MMA_WORDS; w++) {                                                \
        const float2 p = PASTE(unpair_, T)(a_word(&x, SUM_ROW(lane, i), w)),               \
                     q = PASTE(unpair_, T)(b_word(&y, SUM_COLUMN(lane, i), w));            \
        c[i] = FMA(p.y, q.y, FMA(p.x, q.x, c[i]));                                         \
      }                                                                                    \
  }
DEFINE_MULTIPLY_TILES(F16)
DEFINE_MULTIPLY_TILES(BF16)
#define MULTIPLY_TILES(T, c, x, y, lane) PASTE(multiply_tiles_, T)(c, x, y, lane)
#else
typedef a_fragment tile_a_fragment;
typedef b_fragment tile_b_fragment;
#define LOAD_2(items, from, transposed)                                                    \
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x2" transposed ".shared.b16 {%0,%1}, [%2];" \
                   : "=r"((items)[0]), "=r"((items)[1])                                    \
                   : "r"(SHARED_ADDRESS(from))                                             \
                   : "memory")
#define LOAD_4(items, from, transposed)                                                          \
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0,%1,%2,%3}, [%4];" \
                   : "=r"((items)[0]), "=r"((items)[1]), "=r"((items)[2]), "=r"((items)[3])      \
                   : "r"(SHARED_ADDRESS(from))                                                   \
                   : "memory")
static inline tile_a_fragment tile_a(const tile *of, int row, int k, int lane) {
  a_fragment x;
  if (of->order)
    LOAD_4(x.items, a_texel(of, row, k, lane), "");
  else
    LOAD_4(x.items, a_texel(of, row, k, lane), ".trans");
  return x;
}
static inline tile_b_fragment tile_b(const tile *of, int row, int k, int lane) {
  b_fragment y;
  if (of->order)
    LOAD_2(y.items, b_texel(of, row, k, lane), "");
  else
    LOAD_2(y.items, b_texel(of, row, k, lane), ".trans");
  return y;
}
#define MULTIPLY_TILES MULTIPLY
#endif
#endif
#endif
