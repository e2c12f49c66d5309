/* add_dot(sum, w, q) returns sum plus the dot product of the four unsigned bytes of w and the four
 * signed bytes of q. add_small_dot does the same if the bytes of w are below 128. DOTS selects the
 * implementation. */
#ifndef ADD_DOTS_H
#define ADD_DOTS_H
#define DOTS_BYTES 0         /* byte by byte */
#define DOTS_PACKED 1        /* by a function of cl_khr_integer_dot_product */
#define DOTS_PACKED_SIGNED 2 /* by its function of signed bytes, where DOTS_PACKED is slow */
#define DOTS_NVIDIA 3        /* by an instruction of PTX, since compute capability 6.1 */
#define DOTS_AMD 4           /* by functions of clang for gfx906, gfx1011 and most later GPUs */
#define DOTS_ARM 5           /* by a function of cl_arm_integer_dot_product_* */
#define DOTS_QUALCOMM 6      /* by a function of cl_qcom_dot_product8 */
#define DOTS_SIGNED 7        /* signed bytes by signed bytes in plain OpenCL C: for tests */
#ifndef DOTS
#define DOTS DOTS_BYTES
#endif
#if (DOTS == DOTS_PACKED || DOTS == DOTS_PACKED_SIGNED) && defined(cl_khr_integer_dot_product)
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#endif

#define PRODUCT_OF_BYTES(T, w, q, j) ((int)(T)((w) >> 8 * (j)) * (char)((q) >> 8 * (j)))
#define DOT_OF_BYTES(T, w, q)                                                                   \
  (PRODUCT_OF_BYTES(T, w, q, 0) + PRODUCT_OF_BYTES(T, w, q, 1) + PRODUCT_OF_BYTES(T, w, q, 2) + \
   PRODUCT_OF_BYTES(T, w, q, 3))

/* Functions of unsigned by signed bytes. */
#if DOTS == DOTS_PACKED
static inline int add_dot(int sum, uint w, int q) {
  return sum + dot_4x8packed_us_int(w, as_uint(q));
}
#elif DOTS == DOTS_NVIDIA
static inline int add_dot(int sum, uint w, int q) {
  __asm__("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(w), "r"(q));
  return sum;
}
#elif DOTS == DOTS_AMD && (defined(__GFX11__) || defined(__GFX12__))
static inline int add_dot(int sum, uint w, int q) {
  return __builtin_amdgcn_sudot4(0, as_int(w), 1, q, sum, 0);
}
#elif DOTS == DOTS_QUALCOMM
#pragma OPENCL EXTENSION cl_qcom_dot_product8 : enable
static inline int add_dot(int sum, uint w, int q) { return qcom_dot8_acc(as_uint(q), w, sum); }
#elif DOTS == DOTS_BYTES
static inline int add_dot(int sum, uint w, int q) { return sum + DOT_OF_BYTES(uchar, w, q); }

/* Functions of signed by signed bytes. */
#else
#define SIGNED_BYTES 1
#if DOTS == DOTS_PACKED_SIGNED
static inline int add_small_dot(int sum, uint w, int q) {
  return sum + dot_4x8packed_ss_int(w, as_uint(q));
}
#elif DOTS == DOTS_AMD
static inline int add_small_dot(int sum, uint w, int q) {
  return __builtin_amdgcn_sdot4(as_int(w), q, sum, 0);
}
#elif DOTS == DOTS_ARM && defined(cl_arm_integer_dot_product_accumulate_int8)
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_accumulate_int8 : enable
static inline int add_small_dot(int sum, uint w, int q) {
  return arm_dot_acc(as_char4(w), as_char4(q), sum);
}
#elif DOTS == DOTS_ARM
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_int8 : enable
static inline int add_small_dot(int sum, uint w, int q) {
  return sum + arm_dot(as_char4(w), as_char4(q));
}
#else
static inline int add_small_dot(int sum, uint w, int q) { return sum + DOT_OF_BYTES(char, w, q); }
#endif
#endif

#ifdef SIGNED_BYTES
/* Flipping the highest bit of a byte of w makes it the signed byte w - 128, and w q = (w - 128) q +
 * 128 q. At most 2^17 is added to sum, so nothing overflows if the result does not. */
static inline int add_dot(int sum, uint w, int q) {
  const int sum_of_q = add_small_dot(0, 0x01010101u, q);
  return sum + add_small_dot(128 * sum_of_q, w ^ 0x80808080u, q);
}
#else
#define add_small_dot add_dot
#endif
#endif
