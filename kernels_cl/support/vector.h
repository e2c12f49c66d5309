/* Operations on W neighbouring elements at once, for kernels whose work-items loop. W is 1 or 16.
 *   realw                 W reals
 *   LOADW(T, p)           W neighbours at p; STOREW(T, p, v) the reverse
 *   LOAD_SOME(T, p, n)    the first n of them (n >= W: all), the rest 0
 *   STORE_SOME(T, p, n, v)  the reverse
 *   fold_add(v)           the sum of the W lanes, as a tree
 *   larger smaller(a, b)  maximum, minimum; NaN wins
 * BLOCK: additions in one chain before the block's sum is added to the total.
 * TEAM: the work-items that share one row (1: no team). sum_team and max_team return the total to
 * each of them. Teams are launched without surplus work-items and need no bounds check, because
 * PoCL miscompiles barriers after a return. */
#ifndef VECTOR_H
#define VECTOR_H
#ifndef W
#define W 16
#endif
#ifndef TEAM
#define TEAM 1
#endif
#ifndef BLOCK
#define BLOCK 128
#endif

#if W == 1
typedef real realw;
#define LOADW(T, p) LOAD(T, p, 0)
#define STOREW(T, p, v) STORE(T, p, 0, v)
#define LOAD_SOME(T, p, n) LOAD(T, p, 0)
#define STORE_SOME(T, p, n, v) STORE(T, p, 0, v)
#define fold_add(v) (v)
#else
typedef PASTE(PASTE(real_, COMPUTE), W) realw;
#define TO_REALS(v) PASTE(PASTE(convert_, PASTE(real_, COMPUTE)), W)(v)
#define wide_F32(p) vload16(0, p)
#define wide_F16(p) vload_half16(0, p)
#define wide_BF16(p) load16_BF16(p)
#define wide_F64(p) vload16(0, p)
#define wide_I8(p) TO_REALS(vload16(0, p))
#define wide_U8(p) TO_REALS(vload16(0, p))
#define wide_I16(p) TO_REALS(vload16(0, p))
#define wide_I32(p) TO_REALS(vload16(0, p))
#define wide_I64(p) vload16(0, p)
#define wide_BOOL(p) TO_REALS(min(vload16(0, p), (uchar16)1))
#define LOADW(T, p) PASTE(wide_, T)(p)
#define put_F32(p, v) vstore16(v, 0, p)
#define put_F16(p, v) vstore_half16_rte(v, 0, p)
#define put_BF16(p, v) vstore16(float_to_bf16_16(v), 0, p)
#define put_F64(p, v) vstore16(v, 0, p)
#define put_I8(p, v) vstore16(convert_char16(v), 0, p)
#define put_U8(p, v) vstore16(convert_uchar16(v), 0, p)
#define put_I16(p, v) vstore16(convert_short16(v), 0, p)
#define put_I32(p, v) vstore16(convert_int16(v), 0, p)
#define put_I64(p, v) vstore16(v, 0, p)
#define put_BOOL(p, v) vstore16(convert_uchar16((v) != 0) & (uchar16)1, 0, p)
#define STOREW(T, p, v) PASTE(put_, T)(p, v)

#define LOAD_SOME(T, p, n) ((n) >= W ? LOADW(T, p) : PASTE(some_, T)(p, n))
#define DEFINE_SOME(T)                                                        \
  static inline realw PASTE(some_, T)(const __global STORAGE(T) * p, int n) { \
    real lanes[W];                                                            \
    for (int l = 0; l < W; l++) lanes[l] = l < n ? LOAD(T, p, l) : (real)0;   \
    return vload16(0, lanes);                                                 \
  }
#define STORE_SOME(T, p, n, v)  \
  do {                          \
    if ((n) >= W)               \
      STOREW(T, p, v);          \
    else                        \
      PASTE(keep_, T)(p, n, v); \
  } while (0)
#define DEFINE_KEEP(T)                                                                \
  static inline void PASTE(keep_, T)(__global STORAGE(T) * p, int n, const realw v) { \
    real lanes[W];                                                                    \
    vstore16(v, 0, lanes);                                                            \
    for (int l = 0; l < n; l++) STORE(T, p, l, lanes[l]);                             \
  }
static inline real fold_add(realw v) {
  PASTE(PASTE(real_, COMPUTE), 8) a = v.lo + v.hi;
  PASTE(PASTE(real_, COMPUTE), 4) b = a.lo + a.hi;
  PASTE(PASTE(real_, COMPUTE), 2) c = b.lo + b.hi;
  return c.x + c.y;
}
#endif
#if W == 1
#define DEFINE_SOME(T)
#define DEFINE_KEEP(T)
#endif

/* For scalars and vectors alike. */
#define larger(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define smaller(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))

#if TEAM > 1
#define LANE ((int)get_local_id(0))
#define TEAM_MEMORY(name) __local real name[TEAM]
static inline real sum_team(real v, __local real *memory) {
  barrier(CLK_LOCAL_MEM_FENCE);
  memory[LANE] = v;
  for (int half_team = TEAM / 2; half_team > 0; half_team /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE < half_team) memory[LANE] += memory[LANE + half_team];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return memory[0];
}
static inline real max_team(real v, __local real *memory) {
  barrier(CLK_LOCAL_MEM_FENCE);
  memory[LANE] = v;
  for (int half_team = TEAM / 2; half_team > 0; half_team /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE < half_team) memory[LANE] = larger(memory[LANE], memory[LANE + half_team]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return memory[0];
}
#define TEAM_INDEX get_group_id(0)
#else
#define LANE 0
#define TEAM_MEMORY(name)
#define sum_team(v, memory) (v)
#define max_team(v, memory) (v)
#define TEAM_INDEX get_global_id(0)
#endif
#endif
