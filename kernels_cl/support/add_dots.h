/* add_dot(sum, w, q) returns sum plus the dot product of the four unsigned bytes of w and the four
 * signed bytes of q. DOTS selects the implementation. */
#ifndef ADD_DOTS_H
#define ADD_DOTS_H
#define DOTS_BYTES 0  /* byte by byte */
#define DOTS_PACKED 1 /* by a function of cl_khr_integer_dot_product */
#ifndef DOTS
#define DOTS DOTS_BYTES
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
