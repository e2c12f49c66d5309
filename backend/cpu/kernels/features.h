#ifndef BACKEND_CPU_KERNELS_FEATURES_H
#define BACKEND_CPU_KERNELS_FEATURES_H
/* Instruction sets that a kernel may use beyond the compiler's baseline. Code for them lies in
 * functions marked with TARGET_*, called only after cpu_has_*() said yes. Elsewhere than x86-64
 * there are none. */
#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define KERNEL_X86 1
#define TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx2,fma,f16c")))
static inline bool cpu_has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static inline bool cpu_has_avx512(void) {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f");
}
#else
#define KERNEL_X86 0
#endif

/* Inlined into each TARGET_* function that calls it, so that the body is compiled for that target.
 */
#define KERNEL_INLINE static inline __attribute__((always_inline))

#endif
