/* Which instruction sets kernels may use. */
#include "backend/cpu/kernels/features.h"
#if KERNEL_ARM && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static int most = CPU_AVX512;

void cpu_use_at_most(cpu_level level) { __atomic_store_n(&most, (int)level, __ATOMIC_RELAXED); }

#if KERNEL_X86 || KERNEL_ARM
static bool is_used(cpu_level level) {
  return (int)level <= __atomic_load_n(&most, __ATOMIC_RELAXED);
}
#endif

#if KERNEL_X86
bool cpu_has_avx2(void) {
  return is_used(CPU_AVX2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool cpu_has_avx512(void) {
  return is_used(CPU_AVX512) && cpu_has_avx2() && __builtin_cpu_supports("avx512f");
}
bool cpu_has_avx512_vnni(void) { return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"); }
bool cpu_has_avx512_bf16(void) { return cpu_has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#else
bool cpu_has_avx2(void) { return false; }
bool cpu_has_avx512(void) { return false; }
bool cpu_has_avx512_vnni(void) { return false; }
bool cpu_has_avx512_bf16(void) { return false; }
#endif

#if KERNEL_ARM && defined(__linux__)
bool cpu_has_dotprod(void) {
  return is_used(CPU_AVX2) && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
bool cpu_has_i8mm(void) { return is_used(CPU_AVX512) && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }
bool cpu_has_arm_bf16(void) {
  return is_used(CPU_AVX512) && (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
}
#elif KERNEL_ARM
#ifdef __ARM_FEATURE_DOTPROD
bool cpu_has_dotprod(void) { return is_used(CPU_AVX2); }
#else
bool cpu_has_dotprod(void) { return false; }
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
bool cpu_has_i8mm(void) { return is_used(CPU_AVX512); }
#else
bool cpu_has_i8mm(void) { return false; }
#endif
#ifdef __ARM_FEATURE_BF16
bool cpu_has_arm_bf16(void) { return is_used(CPU_AVX512); }
#else
bool cpu_has_arm_bf16(void) { return false; }
#endif
#else
bool cpu_has_dotprod(void) { return false; }
bool cpu_has_i8mm(void) { return false; }
bool cpu_has_arm_bf16(void) { return false; }
#endif

const char *cpu_level_name(void) {
#if KERNEL_X86
  return cpu_has_avx512() ? "x86-64 avx512" : cpu_has_avx2() ? "x86-64 avx2" : "x86-64";
#elif KERNEL_ARM
  return "aarch64";
#else
  return "portable";
#endif
}
