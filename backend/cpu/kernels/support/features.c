/* Detects the instruction sets that kernels may use. */
#include "backend/cpu/kernels/support/features.h"

#if KERNEL_X86 && defined(__linux__)
#include <cpuid.h>
#endif
#if KERNEL_ARM && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static int most = CPU_AMX;

void cpu_use_at_most(cpu_level level) { __atomic_store_n(&most, (int)level, __ATOMIC_RELAXED); }

/* Compiled programs have no thread-local variables, so they always use the kind of this processor.
 * */
#ifdef KERNEL_COMPILED
enum { pretended = KIND_OWN };
#else
static int n_pretending; /* number of pretending threads; if 0, own_kind need not be read */
static _Thread_local int own_kind = KIND_OWN;

void cpu_pretend(cpu_kind kind) {
  const int change = (kind != KIND_OWN) - (own_kind != KIND_OWN);
  own_kind = kind;
  (void)__atomic_fetch_add(&n_pretending, change, __ATOMIC_RELAXED);
}
#define pretended (__atomic_load_n(&n_pretending, __ATOMIC_RELAXED) ? own_kind : KIND_OWN)
#endif

#if KERNEL_X86
/* Returns true if the processor has AMX (tile registers and their products) for BF16 and for bytes,
 * and the system lets this process use it. The system call reserves space for the tile registers of
 * all threads of the process, including later ones. */
#ifdef __linux__
static bool amx_is_allowed(void) {
  enum { BF16 = 1 << 22, TILE = 1 << 24, INT8 = 1 << 25, ALL = BF16 | TILE | INT8 };
  enum { ARCH_PRCTL = 158, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  unsigned a, b, c, d;
  long result = ARCH_PRCTL;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & ALL) != ALL) return false;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(REQUEST_PERMISSION), "S"(TILE_DATA)
                   : "rcx", "r11", "memory");
  return result == 0;
}
#else
static bool amx_is_allowed(void) { return false; }
#endif

/* Queries the system on the first call only. */
bool cpu_allows_amx(void) {
  enum { UNKNOWN, NO, YES };
  static int known = UNKNOWN;
  int now = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (now == UNKNOWN) {
    now = amx_is_allowed() ? YES : NO;
    __atomic_store_n(&known, now, __ATOMIC_RELAXED);
  }
  return now == YES;
}
#else
bool cpu_allows_amx(void) { return false; }
#endif

#if !KERNEL_MARCH
#if KERNEL_X86 || KERNEL_ARM
/* True if an instruction set is used: the processor has it (is_supported) and cpu_use_at_most
 * allows its level. While pretending: true if the pretended kind is at least `least`. Unused if
 * bare-metal aarch64 is compiled without extensions. */
__attribute__((unused)) static bool features_is_used(cpu_level level, cpu_kind least,
                                                     bool is_supported) {
  const int kind = pretended;
  if (kind != KIND_OWN) return kind >= (int)least;
  return is_supported && (int)level <= __atomic_load_n(&most, __ATOMIC_RELAXED);
}
#endif

#if KERNEL_X86
bool cpu_has_avx2(void) {
  return features_is_used(CPU_AVX2, KIND_AVX2,
                          __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}
static bool has_avx512(cpu_kind least, bool is_supported) {
  return features_is_used(CPU_AVX512, least,
                          is_supported && __builtin_cpu_supports("avx512f") &&
                              __builtin_cpu_supports("avx512bw") &&
                              __builtin_cpu_supports("avx512vl") && cpu_has_avx2());
}
bool cpu_has_avx512(void) { return has_avx512(KIND_AVX512, true); }
bool cpu_has_avx512_vnni(void) {
  return has_avx512(KIND_AVX512_ALL, __builtin_cpu_supports("avx512vnni"));
}
bool cpu_has_avx512_bf16(void) {
  return has_avx512(KIND_AVX512_ALL, __builtin_cpu_supports("avx512bf16"));
}
/* Queries the system only if it matters, as a query reserves memory for every thread. */
bool cpu_has_amx(void) {
  const bool matters =
      (int)pretended == KIND_OWN && __atomic_load_n(&most, __ATOMIC_RELAXED) >= CPU_AMX;
  return features_is_used(
      CPU_AMX, KIND_ALL,
      matters && cpu_has_avx512_vnni() && cpu_has_avx512_bf16() && cpu_allows_amx());
}
#else
bool cpu_has_avx2(void) { return false; }
bool cpu_has_avx512(void) { return false; }
bool cpu_has_avx512_vnni(void) { return false; }
bool cpu_has_avx512_bf16(void) { return false; }
bool cpu_has_amx(void) { return false; }
#endif

#if KERNEL_ARM && defined(__linux__)
bool cpu_has_dotprod(void) {
  return features_is_used(CPU_AVX2, KIND_AVX2, (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0);
}
bool cpu_has_i8mm(void) {
  return features_is_used(CPU_AVX512, KIND_ALL, (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0);
}
bool cpu_has_arm_bf16(void) {
  return features_is_used(CPU_AVX512, KIND_ALL, (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0);
}
#elif KERNEL_ARM
#ifdef __ARM_FEATURE_DOTPROD
bool cpu_has_dotprod(void) { return features_is_used(CPU_AVX2, KIND_AVX2, true); }
#else
bool cpu_has_dotprod(void) { return false; }
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
bool cpu_has_i8mm(void) { return features_is_used(CPU_AVX512, KIND_ALL, true); }
#else
bool cpu_has_i8mm(void) { return false; }
#endif
#ifdef __ARM_FEATURE_BF16
bool cpu_has_arm_bf16(void) { return features_is_used(CPU_AVX512, KIND_ALL, true); }
#else
bool cpu_has_arm_bf16(void) { return false; }
#endif
#else
bool cpu_has_dotprod(void) { return false; }
bool cpu_has_i8mm(void) { return false; }
bool cpu_has_arm_bf16(void) { return false; }
#endif
#endif

const char *cpu_level_name(void) {
#if KERNEL_X86
  return cpu_has_avx512() ? "x86-64 avx512" : cpu_has_avx2() ? "x86-64 avx2" : "portable";
#elif KERNEL_ARM
  return "aarch64";
#else
  return "portable";
#endif
}
