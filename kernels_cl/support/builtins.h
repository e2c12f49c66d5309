/* Declares the types and functions of OpenCL C 1.2 that the kernels use, as its specification does.
 * Some drivers parse a header of all built-ins for each program, which takes longer than the kernel
 * itself. OWN_BUILTINS comes with an option that makes the driver omit this header
 * (backend/opencl/device/quirks.c). A kernel that needs a function not declared here fails to build
 * this way and is built again with the driver's header. */
#ifndef BUILTINS_H
#define BUILTINS_H
#if OWN_BUILTINS
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define VECTORS_OF(T)                                 \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##4 __attribute__((ext_vector_type(4))); \
  typedef T T##8 __attribute__((ext_vector_type(8))); \
  typedef T T##16 __attribute__((ext_vector_type(16)));
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
VECTORS_OF(char)
VECTORS_OF(uchar)
VECTORS_OF(short)
VECTORS_OF(ushort)
VECTORS_OF(int)
VECTORS_OF(uint)
VECTORS_OF(long)
VECTORS_OF(ulong)
VECTORS_OF(float)
#ifdef cl_khr_fp64
VECTORS_OF(double)
#endif

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define INT_MIN (-0x7fffffff - 1)
#define INT_MAX 0x7fffffff
#define LONG_MIN (-0x7fffffffffffffffL - 1)
#define LONG_MAX 0x7fffffffffffffffL
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define as_uint(x) __builtin_astype((x), uint)
#define as_ulong(x) __builtin_astype((x), ulong)
#define as_long(x) __builtin_astype((x), long)
#define as_float(x) __builtin_astype((x), float)
#define as_double(x) __builtin_astype((x), double)
#define as_char4(x) __builtin_astype((x), char4)
#define as_short8(x) __builtin_astype((x), short8)
#define as_uint4(x) __builtin_astype((x), uint4)
#define as_uint8(x) __builtin_astype((x), uint8)
#define as_uchar16(x) __builtin_astype((x), uchar16)
#define as_uint16(x) __builtin_astype((x), uint16)
#define as_float4(x) __builtin_astype((x), float4)
#define as_float8(x) __builtin_astype((x), float8)
#define as_float16(x) __builtin_astype((x), float16)

#define OVERLOADED __attribute__((overloadable))
#define CONST __attribute__((overloadable, const)) /* reads only its arguments */
#define PURE __attribute__((overloadable, pure))   /* also reads memory */
size_t CONST get_global_id(uint);
size_t CONST get_global_size(uint);
size_t CONST get_local_id(uint);
size_t CONST get_local_size(uint);
size_t CONST get_group_id(uint);
size_t CONST get_num_groups(uint);
void OVERLOADED __attribute__((convergent)) barrier(uint);
typedef __read_only image1d_buffer_t read_buffer_image;
uint4 PURE read_imageui(read_buffer_image, int);
int OVERLOADED atomic_cmpxchg(volatile __global int *, int, int);

/* ---------------------------------------------------------------- arithmetic */

#define OF_1(T, F) T CONST F(T);
#define OF_2(T, F) T CONST F(T, T);
#define OF_3(T, F) T CONST F(T, T, T);
#define FLOATS(T)    \
  OF_1(T, acos)      \
  OF_1(T, acosh)     \
  OF_1(T, asin)      \
  OF_1(T, asinh)     \
  OF_1(T, atan)      \
  OF_1(T, atanh)     \
  OF_1(T, cbrt)      \
  OF_1(T, ceil)      \
  OF_1(T, cos)       \
  OF_1(T, cosh)      \
  OF_1(T, cospi)     \
  OF_1(T, erf)       \
  OF_1(T, erfc)      \
  OF_1(T, exp)       \
  OF_1(T, exp2)      \
  OF_1(T, expm1)     \
  OF_1(T, fabs)      \
  OF_1(T, floor)     \
  OF_1(T, lgamma)    \
  OF_1(T, log)       \
  OF_1(T, log10)     \
  OF_1(T, log1p)     \
  OF_1(T, log2)      \
  OF_1(T, rint)      \
  OF_1(T, round)     \
  OF_1(T, rsqrt)     \
  OF_1(T, sin)       \
  OF_1(T, sinh)      \
  OF_1(T, sinpi)     \
  OF_1(T, sqrt)      \
  OF_1(T, tan)       \
  OF_1(T, tanh)      \
  OF_1(T, tanpi)     \
  OF_1(T, trunc)     \
  OF_2(T, atan2)     \
  OF_2(T, copysign)  \
  OF_2(T, fmax)      \
  OF_2(T, fmin)      \
  OF_2(T, fmod)      \
  OF_2(T, hypot)     \
  OF_2(T, max)       \
  OF_2(T, min)       \
  OF_2(T, nextafter) \
  OF_2(T, pow)       \
  OF_3(T, clamp)     \
  OF_3(T, fma)       \
  OF_3(T, mad)
#define SCALARS(T)              \
  T CONST ldexp(T, int);        \
  T OVERLOADED frexp(T, int *); \
  int CONST isnan(T);           \
  int CONST isinf(T);           \
  int CONST isfinite(T);        \
  int CONST signbit(T);
#define INTEGERS(T) \
  OF_2(T, max)      \
  OF_2(T, min)      \
  OF_2(T, mul_hi)   \
  OF_3(T, clamp)
#define EACH_WIDTH(F, T) F(T) F(T##2) F(T##4) F(T##8) F(T##16)
#define EACH_INTEGER(F) F(char) F(uchar) F(short) F(ushort) F(int) F(uint) F(long) F(ulong)
EACH_WIDTH(FLOATS, float)
SCALARS(float)
#ifdef cl_khr_fp64
EACH_WIDTH(FLOATS, double)
SCALARS(double)
#endif
EACH_INTEGER(INTEGERS)
EACH_WIDTH(INTEGERS, int)
INTEGERS(uchar16)
INTEGERS(long16)
uint16 CONST select(uint16, uint16, int16);
uint16 CONST select(uint16, uint16, uint16);
int CONST any(int16);
uint16 CONST mul_hi(uint16, uint16);

/* ---------------------------------------------------------------- conversions */

#define CONVERT(TO, N, FROM) TO##N CONST convert_##TO##N(FROM##N);
#define CONVERT_FROM(TO, N) \
  CONVERT(TO, N, char)      \
  CONVERT(TO, N, uchar)     \
  CONVERT(TO, N, short)     \
  CONVERT(TO, N, ushort)    \
  CONVERT(TO, N, int)       \
  CONVERT(TO, N, uint)      \
  CONVERT(TO, N, long)      \
  CONVERT(TO, N, ulong)     \
  CONVERT(TO, N, float)
CONVERT_FROM(char, 16)
CONVERT_FROM(uchar, 16)
CONVERT_FROM(short, 16)
CONVERT_FROM(ushort, 16)
CONVERT_FROM(int, 16)
CONVERT_FROM(uint, 16)
CONVERT_FROM(long, 16)
CONVERT_FROM(float, 16)
CONVERT_FROM(int, 8)
CONVERT_FROM(uint, 4)
CONVERT_FROM(float, 4)
CONVERT_FROM(uint, 8)
#ifdef cl_khr_fp64
CONVERT_FROM(double, 4)
CONVERT_FROM(double, 16)
CONVERT(char, 16, double)
CONVERT(uchar, 16, double)
CONVERT(short, 16, double)
CONVERT(int, 16, double)
CONVERT(long, 16, double)
CONVERT(float, 16, double)
CONVERT(double, 16, double)
#endif

/* ---------------------------------------------------------------- memory */

#define LOAD_AND_STORE(T, N, SPACE)            \
  T##N PURE vload##N(size_t, const SPACE T *); \
  void OVERLOADED vstore##N(T##N, size_t, SPACE T *);
/* Loads and stores a wide vector by one access. The drivers' functions make several accesses of 16
 * bytes, and a wide load right after such stores stalls. */
#define WIDE_LOAD_AND_STORE(T, N, SPACE)                                  \
  static inline T##N OVERLOADED vload##N(size_t i, const SPACE T *p) {    \
    return *(const SPACE unaligned_##T##N *)(p + N * i);                  \
  }                                                                       \
  static inline void OVERLOADED vstore##N(T##N v, size_t i, SPACE T *p) { \
    *(SPACE unaligned_##T##N *)(p + N * i) = v;                           \
  }
#define HALVES(N, SPACE)                                   \
  float##N PURE vload_half##N(size_t, const SPACE half *); \
  void OVERLOADED vstore_half##N##_rte(float##N, size_t, SPACE half *);
#define EACH_SPACE(F, ...) \
  F(__VA_ARGS__, __global) \
  F(__VA_ARGS__, __local)  \
  F(__VA_ARGS__, __private)
#define EACH_VECTOR_SIZE(T)                                            \
  typedef T##8 unaligned_##T##8 __attribute__((aligned(sizeof(T))));   \
  typedef T##16 unaligned_##T##16 __attribute__((aligned(sizeof(T)))); \
  EACH_SPACE(LOAD_AND_STORE, T, 4)                                     \
  EACH_SPACE(WIDE_LOAD_AND_STORE, T, 8)                                \
  EACH_SPACE(WIDE_LOAD_AND_STORE, T, 16)
EACH_INTEGER(EACH_VECTOR_SIZE)
EACH_VECTOR_SIZE(float)
EACH_SPACE(LOAD_AND_STORE, float, 2)
EACH_SPACE(HALVES, )
EACH_SPACE(HALVES, 4)
EACH_SPACE(HALVES, 8)
EACH_SPACE(HALVES, 16)
#ifdef cl_khr_fp64
EACH_VECTOR_SIZE(double)
#endif
#endif
#endif
