/* Prefix of every kernel file (#include "common.h"): dtypes, index types, the error record. OpenCL
 * C 1.2.
 *
 * A dtype macro (X_TYPE, ...) holds one of the tokens F32 F16 BF16 F64 I8 U8 I16 I32 I64 BOOL.
 * Kernels that only move or cast also accept U16 U32 U64 and, with float8.h, F8_E4M3 F8_E5M2.
 *   STORAGE(T)         the type in memory: __global const STORAGE(X_TYPE) *x
 *   LOAD(T, p, i)      element i of __global p as `real`; BOOL as 0 or 1; U64 as a long of its bits
 *   STORE(T, p, i, v)  v of type `real`, rounded to nearest even; integers wrap; BOOL is v != 0
 *   LOADF(T, p, i)     a float dtype as float, whatever `real` is
 *   LOAD4F LOAD8F LOAD16F(T, p)  4, 8, 16 neighbours of F32, F16 or BF16 as floatN; p: unaligned
 *   STORE16F(T, p, v)  the reverse
 *   ROUND(T, v)        the value of v after a store and a load
 *   IS_FLOAT(T) IS_INT(T) IS_BOOL(T) IS_F16(T) IS_BF16(T) IS_F64(T)  for #if
 * COMPUTE is F32, F64 or I64: `real` is float, double or long.
 *   EPILOGUE(y, first, n)  applies the node's epilogue in place to n stored neighbours of out at y,
 *                      the first of which is element number `first` of out
 *   STORE_RESULT(y, from, first, n)  stores n values from private memory to y, or, if the node's
 *                      epilogue changes the dtype, its results
 *   FMA(a, b, c)       a * b + c, in the fastest way
 * index_t is int, or long if WIDE is 1. index8 is its vector of 8, innermost dimension in s0. */
#ifndef COMMON_H
#define COMMON_H
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
/* HAS_HALF: the device computes with halves. Without it, they are only loaded and stored. The host
 * sets it to 0, because some compilers define the extension for every device. */
#if !defined(HAS_HALF) && defined(cl_khr_fp16)
#define HAS_HALF 1
#endif
#ifndef FAST
#pragma OPENCL FP_CONTRACT OFF
#endif

/* A split launch runs as several launches with one sequence of group indices, so get_group_id is
 * computed from global indices. Kernels for GPUs use get_num_groups and get_global_size only for
 * the third dimension, which is never split. */
#ifdef SPLIT_LAUNCH
#define get_group_id(d) ((get_global_id(d) - get_local_id(d)) / get_local_size(d))
#endif

#ifndef COMPUTE
#define COMPUTE F32
#endif
#ifndef WIDE
#define WIDE 0
#endif
#ifndef EPILOGUE /* set per node, see backend/opencl/launch/epilogue.c */
#define EPILOGUE(y, first, n)
#endif
#ifndef STORE_RESULT
#define STORE_RESULT(y, from, first, n) \
  for (index_t i_ = 0; i_ < (n); i_++) (y)[i_] = (from)[i_]
#endif
#ifndef ON_CPU
#define ON_CPU 1
#endif

/* Prefetches a cache line that is read later. It goes to the second-level cache, because the first
 * level tracks few outstanding lines. Only PoCL has it, whose compiler is clang. (The compiler of
 * oclgrind is also clang, but does not support this instruction.) */
#ifdef POCL_DEVICE_ADDRESS_BITS
#define PREFETCH(p) __builtin_prefetch(p, 0, 2)
#else
#define PREFETCH(p) ((void)(p))
#endif

/* FMA(a, b, c) is a * b + c, rounded once where the device has an instruction for it. Elsewhere
 * (Adreno) a correct fma() is a function of many instructions, so that the product and the sum are
 * rounded. Only error-free transformations call fma(), because they need the exact result. */
#ifndef HAS_FMA
#define HAS_FMA 1
#endif
#if HAS_FMA
#define FMA(a, b, c) fma(a, b, c)
#elif defined FAST
#define FMA(a, b, c) mad(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

/* Unrolls a loop on GPUs, so that arrays stay in registers. A CPU may keep them in memory. */
#if ON_CPU
#define UNROLL_ON_GPU
#else
#define UNROLL_ON_GPU _Pragma("unroll")
#endif

/* Limits the unrolling of a loop whose body fills the registers. A work-item of Intel's GPUs has
 * few registers, and its compiler unrolls until accumulators no longer fit them. */
#ifdef cl_intel_subgroups
#define PRAGMA_(text) _Pragma(#text)
#define UNROLL_AT_MOST(n) PRAGMA_(unroll n)
#else
#define UNROLL_AT_MOST(n)
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

#define storage_F32 float
#define storage_F16 half
#define storage_BF16 ushort
#define storage_F64 double
#define storage_I8 char
#define storage_U8 uchar
#define storage_I16 short
#define storage_I32 int
#define storage_I64 long
#define storage_BOOL uchar
#define storage_U16 ushort
#define storage_U32 uint
#define storage_U64 ulong
#define storage_F8_E4M3 uchar
#define storage_F8_E5M2 uchar
#define STORAGE(T) PASTE(storage_, T)

#define real_F32 float
#define real_F64 double
#define real_I64 long
typedef PASTE(real_, COMPUTE) real;

#define is_float_F32 1
#define is_float_F16 1
#define is_float_BF16 1
#define is_float_F64 1
#define is_float_I8 0
#define is_float_U8 0
#define is_float_I16 0
#define is_float_I32 0
#define is_float_I64 0
#define is_float_BOOL 0
#define is_bool_F32 0
#define is_bool_F16 0
#define is_bool_BF16 0
#define is_bool_F64 0
#define is_bool_I8 0
#define is_bool_U8 0
#define is_bool_I16 0
#define is_bool_I32 0
#define is_bool_I64 0
#define is_bool_BOOL 1
#define number_F32 0
#define number_F16 1
#define number_BF16 2
#define number_F64 3
#define number_I8 4
#define number_U8 5
#define number_I16 6
#define number_I32 7
#define number_I64 8
#define number_BOOL 9
#define IS_FLOAT(T) PASTE(is_float_, T)
#define IS_BOOL(T) PASTE(is_bool_, T)
#define IS_INT(T) (!IS_FLOAT(T) && !IS_BOOL(T))
#define IS_F32(T) (PASTE(number_, T) == 0)
#define IS_F16(T) (PASTE(number_, T) == 1)
#define IS_BF16(T) (PASTE(number_, T) == 2)
#define IS_F64(T) (PASTE(number_, T) == 3)

#if WIDE
typedef long index_t;
typedef long8 index8;
#else
typedef int index_t;
typedef int8 index8;
#endif

/* FLOAT_OF and BITS_OF are used by float8.h and decode.h. */
#define FLOAT_OF(u) as_float((uint)(u))
#define BITS_OF(f) as_uint(f)

static inline float bf16_to_float(ushort h) { return as_float((uint)h << 16); }
/* Rounds to nearest even; NaN stays NaN (quieted). */
static inline ushort float_to_bf16(float f) {
  uint u = as_uint(f);
  uint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (ushort)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}

/* Converts f16 by integer arithmetic on CPUs: PoCL converts one element at a time by a call,
 * whereas this code vectorises. p must be __global. */
#if ON_CPU
static inline float half_to_float(ushort h) {
  const uint w = (uint)(h & 0x7fffu) << 13, e = h & 0x7c00u;
  const uint normal = w + (112u << 23), big = w + (224u << 23),
             small = as_uint((float)(h & 0x3ffu) * 0x1p-24f);
  return as_float((e == 0 ? small : e == 0x7c00u ? big : normal) | (uint)(h & 0x8000u) << 16);
}
static inline ushort float_to_half(float f) {
  const uint a = as_uint(f) & 0x7fffffffu;
  const uint normal = ((a + 0xfffu + ((a >> 13) & 1u)) >> 13) - (112u << 10);
  const uint small = as_uint(as_float(a) + 0.5f) - 0x3f000000u; /* the addition rounds to 2^-24 */
  const uint finite = a < 0x38800000u ? small : normal;
  const uint h = a > 0x7f800000u    ? 0x7e00u | ((a >> 13) & 0x1ffu)
                 : a >= 0x47800000u ? 0x7c00u
                                    : finite;
  return (ushort)(h | (as_uint(f) >> 16 & 0x8000u));
}
#define load_F16(p, i) half_to_float(((__global const ushort *)(p))[i])
#else
#define load_F16(p, i) vload_half((i), (p))
#endif
#define load_F32(p, i) ((p)[i])
#define load_BF16(p, i) bf16_to_float((p)[i])
#define load_F64(p, i) ((p)[i])
#define load_I8(p, i) ((p)[i])
#define load_U8(p, i) ((p)[i])
#define load_I16(p, i) ((p)[i])
#define load_I32(p, i) ((p)[i])
#define load_I64(p, i) ((p)[i])
#define load_BOOL(p, i) ((p)[i] != 0)
#define load_U16(p, i) ((p)[i])
#define load_U32(p, i) ((p)[i])
#define load_U64(p, i) as_long((p)[i])
#define load_F8_E4M3(p, i) decode_E4M3((p)[i])
#define load_F8_E5M2(p, i) decode_E5M2((p)[i])
#define LOAD(T, p, i) ((real)PASTE(load_, T)(p, i))
#define LOADF(T, p, i) ((float)PASTE(load_, T)(p, i))

#define store_F32(p, i, v) (p)[i] = (float)(v)
#if ON_CPU
#define store_F16(p, i, v) ((__global ushort *)(p))[i] = float_to_half((float)(v))
#else
#define store_F16(p, i, v) vstore_half_rte((float)(v), (i), (p))
#endif
#define store_BF16(p, i, v) (p)[i] = float_to_bf16((float)(v))
#define store_F64(p, i, v) (p)[i] = (double)(v)
#define store_I8(p, i, v) (p)[i] = (char)(v)
#define store_U8(p, i, v) (p)[i] = (uchar)(v)
#define store_I16(p, i, v) (p)[i] = (short)(v)
#define store_I32(p, i, v) (p)[i] = (int)(v)
#define store_I64(p, i, v) (p)[i] = (long)(v)
#define store_BOOL(p, i, v) (p)[i] = (uchar)((v) != 0)
#define store_U16(p, i, v) (p)[i] = (ushort)(v)
#define store_U32(p, i, v) (p)[i] = (uint)(v)
#define store_U64(p, i, v) (p)[i] = as_ulong((long)(v))
#define store_F8_E4M3(p, i, v) (p)[i] = (uchar)encode_E4M3((float)(v))
#define store_F8_E5M2(p, i, v) (p)[i] = (uchar)encode_E5M2((float)(v))
#define STORE(T, p, i, v) PASTE(store_, T)(p, i, v)

#define load4_F32(p) vload4(0, p)
#define load4_F16(p) vload_half4(0, p)
#define load4_BF16(p) as_float4(convert_uint4(vload4(0, p)) << 16)
#define LOAD4F(T, p) PASTE(load4_, T)(p)
#define load8_F32(p) vload8(0, p)
#define load8_F16(p) vload_half8(0, p)
#define load8_BF16(p) as_float8(convert_uint8(vload8(0, p)) << 16)
#define LOAD8F(T, p) PASTE(load8_, T)(p)
#define load16_F32(p) vload16(0, p)
#define load16_F16(p) vload_half16(0, p)
#define load16_BF16(p) as_float16(convert_uint16(vload16(0, p)) << 16)
#define LOAD16F(T, p) PASTE(load16_, T)(p)

static inline ushort16 float_to_bf16_16(float16 f) {
  uint16 u = as_uint16(f);
  uint16 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return convert_ushort16(select(rounded, (u >> 16) | 0x40u, (u & 0x7fffffffu) > 0x7f800000u));
}
#define store16_F32(p, v) vstore16(v, 0, p)
#define store16_F16(p, v) vstore_half16_rte(v, 0, p)
#define store16_BF16(p, v) vstore16(float_to_bf16_16(v), 0, p)
#define STORE16F(T, p, v) PASTE(store16_, T)(p, v)

#if ON_CPU
static inline float round_half(float v) { return half_to_float(float_to_half(v)); }
#else
static inline float round_half(float v) {
  __attribute__((aligned(2))) uchar h[2]; /* uchar: may alias half */
  vstore_half_rte(v, 0, (half *)h);
  return vload_half(0, (const half *)h);
}
#endif
#define round_F32(v) ((real)(float)(v))
#define round_F16(v) ((real)round_half((float)(v)))
#define round_BF16(v) ((real)bf16_to_float(float_to_bf16((float)(v))))
#define round_F64(v) (v)
#define round_I8(v) ((real)(char)(v))
#define round_U8(v) ((real)(uchar)(v))
#define round_I16(v) ((real)(short)(v))
#define round_I32(v) ((real)(int)(v))
#define round_I64(v) (v)
#define round_BOOL(v) ((real)((v) != 0))
#define round_U16(v) ((real)(ushort)(v))
#define round_U32(v) ((real)(uint)(v))
#define round_U64(v) (v)
#define round_F8_E4M3(v) ((real)decode_E4M3((int)encode_E4M3((float)(v))))
#define round_F8_E5M2(v) ((real)decode_E5M2((int)encode_E5M2((float)(v))))
#define ROUND(T, v) PASTE(round_, T)(v)

/* True if x is neither infinite nor NaN: their exponent bits are all ones. */
static inline int is_finite(float x) { return (as_uint(x) & 0x7f800000u) != 0x7f800000u; }

/* Returns the offset of row-major element i of a tensor. dims and strides are innermost first;
 * unused dims are 1. */
static inline index_t strided_offset(index_t i, index8 dims, index8 strides) {
  index_t o = 0;
  o += i % dims.s0 * strides.s0;
  i /= dims.s0;
  if (i == 0) return o;
  o += i % dims.s1 * strides.s1;
  i /= dims.s1;
  if (i == 0) return o;
  o += i % dims.s2 * strides.s2;
  i /= dims.s2;
  if (i == 0) return o;
  o += i % dims.s3 * strides.s3;
  i /= dims.s3;
  if (i == 0) return o;
  o += i % dims.s4 * strides.s4;
  i /= dims.s4;
  if (i == 0) return o;
  o += i % dims.s5 * strides.s5;
  i /= dims.s5;
  if (i == 0) return o;
  o += i % dims.s6 * strides.s6;
  i /= dims.s6;
  return o + i % dims.s7 * strides.s7;
}

/* The error record of a stream. Kernels accept FAULT_PARAMS as their last parameters and continue
 * with a valid value in place of the faulty one. */
typedef struct fault_record {
  int kind; /* 0 (no fault), FAULT_INDEX, FAULT_DIVISION or FAULT_ROWS */
  uint node;
  long value, low, high; /* value is not in [low, high]; FAULT_ROWS: see base/kernel.h */
} fault_record;
#define FAULT_INDEX 1
#define FAULT_DIVISION 2
#define FAULT_ROWS 3
/* True if an optional buffer is absent: the host passes the error record in its place. */
#define IS_ABSENT(p) ((__global const uchar *)(p) == (__global const uchar *)fault)
#define FAULT_PARAMS volatile __global fault_record *fault, const uint fault_node
static inline void set_fault(volatile __global fault_record *fault, uint fault_node, int kind,
                             long value, long low, long high) {
  if (atomic_cmpxchg(&fault->kind, 0, kind) == 0) {
    fault->node = fault_node;
    fault->value = value;
    fault->low = low;
    fault->high = high;
  }
}
#endif
