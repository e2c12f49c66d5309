/* add_dot(sum, w, q): sum and the products of four bytes of w, which are unsigned, by those of q,
 * which are signed; DOTS says by what. */
#ifndef ADD_DOTS_H
#define ADD_DOTS_H
#define DOTS_BYTES 0  /* one by one */
#define DOTS_PACKED 1 /* a function of cl_khr_integer_dot_product */
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
