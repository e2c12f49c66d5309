/* Transposes 16 vectors of 16 lanes, floats unless LANES16 is another type, in registers. */
#ifndef TRANSPOSE_H
#define TRANSPOSE_H
#ifndef LANES16
#define LANES16 float16
#endif
typedef LANES16 lanes16;

/* Swaps blocks of n lanes: the odd blocks of a with the even blocks of b. */
#define SWAP(n, a, b)                   \
  {                                     \
    const lanes16 low = EVEN_##n(a, b); \
    b = ODD_##n(a, b);                  \
    a = low;                            \
  }
#define EVEN_8(a, b) (lanes16)(a.lo, b.lo)
#define ODD_8(a, b) (lanes16)(a.hi, b.hi)
#define EVEN_4(a, b) (lanes16)(a.s0123, b.s0123, a.s89ab, b.s89ab)
#define ODD_4(a, b) (lanes16)(a.s4567, b.s4567, a.scdef, b.scdef)
#define EVEN_2(a, b) (lanes16)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)
#define ODD_2(a, b) (lanes16)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#define EVEN_1(a, b)                                                                            \
  (lanes16)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc, b.sc, \
            a.se, b.se)
#define ODD_1(a, b)                                                                             \
  (lanes16)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd, b.sd, \
            a.sf, b.sf)

/* Swaps lane j of r[i] with lane i of r[j], for all i and j. */
static inline void transpose_16(lanes16 *r) {
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(8, r[i], r[i + 8])
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(4, r[i / 4 * 8 + i % 4], r[i / 4 * 8 + i % 4 + 4])
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(2, r[i / 2 * 4 + i % 2], r[i / 2 * 4 + i % 2 + 2])
#pragma unroll
  for (int i = 0; i < 8; i++) SWAP(1, r[2 * i], r[2 * i + 1])
}
#endif
