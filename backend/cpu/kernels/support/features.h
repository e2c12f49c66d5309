#ifndef BACKEND_CPU_KERNELS_SUPPORT_FEATURES_H
#define BACKEND_CPU_KERNELS_SUPPORT_FEATURES_H
/* Instruction sets beyond the compiler's baseline, on x86-64 and aarch64. Code for them is in
 * functions marked TARGET_*, which are called only if the matching cpu_has_*() returns true. */
#include <stdbool.h>
#include <stdint.h>

/* 1: the build must run on every processor of the architecture and uses only its baseline. */
#ifndef KERNEL_PORTABLE
#define KERNEL_PORTABLE 0
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !KERNEL_PORTABLE
#define KERNEL_X86 1
#define TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,f16c")))
#define TARGET_AVX512_VNNI \
  __attribute__((target("avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")))
#define TARGET_AVX512_BF16 \
  __attribute__((target("avx512bf16,avx512f,avx512bw,avx512vl,avx2,fma,f16c")))
#define TARGET_AMX                                                                \
  __attribute__((                                                                 \
      target("amx-tile,amx-bf16,amx-int8,avx512bf16,avx512vnni,avx512f,avx512bw," \
             "avx512vl,avx2,fma,f16c")))
#else
#define KERNEL_X86 0
#endif
#if defined(__aarch64__) && defined(__GNUC__) && !KERNEL_PORTABLE
#define KERNEL_ARM 1
#define TARGET_DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#define TARGET_I8MM __attribute__((target("arch=armv8.2-a+i8mm")))
#define TARGET_ARM_BF16 __attribute__((target("arch=armv8.2-a+bf16")))
#else
#define KERNEL_ARM 0
#endif

/* 1: the kernels are compiled only for the instruction sets of -march. The cpu_has_*() functions
 * are then constants, so that the compiler drops kernels that cannot run. */
#ifndef KERNEL_MARCH
#define KERNEL_MARCH 0
#endif
bool cpu_allows_amx(void); /* queries processor and system at run time */
#if KERNEL_MARCH
#include "backend/cpu/kernels/support/features_march.h"
#else
bool cpu_has_avx2(void);   /* and FMA */
bool cpu_has_avx512(void); /* F, BW and VL: elements of 16 bits, and all vector lengths */
bool cpu_has_avx512_vnni(void);
bool cpu_has_avx512_bf16(void);
bool cpu_has_amx(void); /* tiles of BF16 and int8, and all extensions above; see amx.h */
/* aarch64: dot products of bytes, matrix products of bytes, dot products of BF16 pairs. */
bool cpu_has_dotprod(void);
bool cpu_has_i8mm(void);
bool cpu_has_arm_bf16(void);
#endif

/* On aarch64, CPU_AVX2 enables DOTPROD, and CPU_AVX512 enables I8MM and BF16. */
typedef enum cpu_level { CPU_PORTABLE, CPU_AVX2, CPU_AVX512, CPU_AMX } cpu_level;
/* Limits kernels to instruction sets up to `level`. Call it before anything else, as the layout of
 * packed weights depends on it. For tests. */
void cpu_use_at_most(cpu_level level);

/* Makes cpu_has_*() answer for another kind of processor, in the calling thread only, until
 * KIND_OWN ends it. Meanwhile kernels may be queried for their scratch size, but must not run. */
typedef enum cpu_kind {
  KIND_OWN = -1,
  KIND_PORTABLE,
  KIND_AVX2,
  KIND_AVX512,
  KIND_AVX512_ALL, /* with VNNI and BF16 */
  KIND_ALL
} cpu_kind;
void cpu_pretend(cpu_kind kind);

/* Returns the level that sets the width of packed panels: "x86-64 avx512", "x86-64 avx2",
 * "aarch64", or "portable" on every other processor, x86-64 without AVX2 included. */
const char *cpu_level_name(void);

/* Prefetches the cache line that is `ahead` bytes after `from` into the second-level cache. The
 * first level has few line fill buffers (Zen 4: 24), and they would limit the memory bandwidth. */
static inline void prefetch_line(const void *from, int ahead) {
  __builtin_prefetch((const char *)from + ahead, 0, 2);
}

/* Prefetches each line of `bytes` bytes. */
static inline void prefetch_bytes(const void *from, int64_t bytes) {
  enum { LINE = 64 };
  for (int64_t i = 0; i < bytes; i += LINE) prefetch_line((const char *)from + i, 0);
}

/* Such a function is inlined into each TARGET_* function that calls it, so that its body is
 * compiled for that target. */
#define KERNEL_INLINE static inline __attribute__((always_inline))

#endif
