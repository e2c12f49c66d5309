#ifndef BACKEND_CPU_KERNELS_SUPPORT_FEATURES_MARCH_H
#define BACKEND_CPU_KERNELS_SUPPORT_FEATURES_MARCH_H
/* Defines the functions of features.h as constants, from the compiler's -march macros. */
#if KERNEL_X86 && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define MARCH_AVX2 true
#else
#define MARCH_AVX2 false
#endif
#if KERNEL_X86 && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define MARCH_AVX512 MARCH_AVX2
#else
#define MARCH_AVX512 false
#endif
#ifdef __AVX512VNNI__
#define MARCH_AVX512_VNNI MARCH_AVX512
#else
#define MARCH_AVX512_VNNI false
#endif
#ifdef __AVX512BF16__
#define MARCH_AVX512_BF16 MARCH_AVX512
#else
#define MARCH_AVX512_BF16 false
#endif
#if defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AMX_BF16__)
#define MARCH_AMX (MARCH_AVX512_VNNI && MARCH_AVX512_BF16)
#else
#define MARCH_AMX false
#endif
#if KERNEL_ARM && defined(__ARM_FEATURE_DOTPROD)
#define MARCH_DOTPROD true
#else
#define MARCH_DOTPROD false
#endif
#if KERNEL_ARM && defined(__ARM_FEATURE_MATMUL_INT8)
#define MARCH_I8MM true
#else
#define MARCH_I8MM false
#endif
#if KERNEL_ARM && defined(__ARM_FEATURE_BF16)
#define MARCH_ARM_BF16 true
#else
#define MARCH_ARM_BF16 false
#endif

static inline bool cpu_has_avx2(void) { return MARCH_AVX2; }
static inline bool cpu_has_avx512(void) { return MARCH_AVX512; }
static inline bool cpu_has_avx512_vnni(void) { return MARCH_AVX512_VNNI; }
static inline bool cpu_has_avx512_bf16(void) { return MARCH_AVX512_BF16; }
static inline bool cpu_has_amx(void) { return MARCH_AMX && cpu_allows_amx(); }
static inline bool cpu_has_dotprod(void) { return MARCH_DOTPROD; }
static inline bool cpu_has_i8mm(void) { return MARCH_I8MM; }
static inline bool cpu_has_arm_bf16(void) { return MARCH_ARM_BF16; }

#endif
