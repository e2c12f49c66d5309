/* Sums of products of bytes, those of w unsigned, those of q signed. DOTS (dots.h) says by what:
 *   add_dots(sum, w, q)  four bytes of q by those of each of 16 words, on CPUs; DOTS_PORTABLE and
 *                        kernels for GPUs have none that is fast
 *   add_dot(sum, w, q)   of one word, on GPUs */
#ifndef ADD_DOTS_H
#define ADD_DOTS_H
#define DOTS_PORTABLE 0
#define DOTS_AVX512_VNNI 1
#define DOTS_AVX_VNNI 2
#define DOTS_BYTES 3
#define DOTS_PACKED 4
#ifndef DOTS
#define DOTS DOTS_PORTABLE
#endif

#if DOTS == DOTS_AVX512_VNNI
static inline int16 add_dots(int16 sum, uint16 w, int q) {
  const int16 x = q;
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
  return sum;
}
#elif DOTS == DOTS_AVX_VNNI
static inline int8 add_8_dots(int8 sum, uint8 w, int q) {
  const int8 x = q;
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
  return sum;
}
static inline int16 add_dots(int16 sum, uint16 w, int q) {
  return (int16)(add_8_dots(sum.lo, w.lo, q), add_8_dots(sum.hi, w.hi, q));
}
#else
static inline int16 add_dots(int16 sum, uint16 w, int q) {
  return sum + as_int16(w & 255u) * (int)(char)q + as_int16(w >> 8 & 255u) * (int)(char)(q >> 8) +
         as_int16(w >> 16 & 255u) * (int)(char)(q >> 16) + as_int16(w >> 24) * (int)(char)(q >> 24);
}
#endif

#if DOTS == DOTS_PACKED
#ifdef cl_khr_integer_dot_product
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#endif
static inline int add_dot(int sum, uint w, int q) {
  return sum + dot_4x8packed_us_int(w, as_uint(q));
}
#else
static inline int add_dot(int sum, uint w, int q) {
  return sum + (int)(w & 255u) * (char)q + (int)(w >> 8 & 255u) * (char)(q >> 8) +
         (int)(w >> 16 & 255u) * (char)(q >> 16) + (int)(w >> 24) * (char)(q >> 24);
}
#endif
#endif
