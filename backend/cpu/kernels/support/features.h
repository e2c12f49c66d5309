#ifndef BACKEND_CPU_KERNELS_SUPPORT_FEATURES_H
#define BACKEND_CPU_KERNELS_SUPPORT_FEATURES_H
/* Instruction sets that a kernel may use beyond the compiler's baseline. Code for them lies in
 * functions marked with TARGET_*, called only after cpu_has_*() said yes. Elsewhere than on x86-64
 * and aarch64 there are none. */
#include <stdbool.h>
#include <stdint.h>

/* 1: built for every processor, without instructions that only some of its kind have. */
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

/* 1: the kernels are compiled for the instruction sets of -march alone. cpu_has_*() are then
 * constants, so that the compiler drops the kernels that cannot run. */
#ifndef KERNEL_MARCH
#define KERNEL_MARCH 0
#endif
bool cpu_allows_amx(void); /* the processor and the system, asked when the program runs */
#if KERNEL_MARCH
#include "backend/cpu/kernels/support/features_march.h"
#else
bool cpu_has_avx2(void);   /* and FMA */
bool cpu_has_avx512(void); /* with elements of 16 bits, and vectors of all lengths */
bool cpu_has_avx512_vnni(void);
bool cpu_has_avx512_bf16(void);
bool cpu_has_amx(void); /* of BF16 and of bytes, and all of the above; see amx.h */
/* On aarch64: dot products of bytes; matrices of them; dot products of pairs of BF16. */
bool cpu_has_dotprod(void);
bool cpu_has_i8mm(void);
bool cpu_has_arm_bf16(void);
#endif

/* CPU_AVX2 stands for DOTPROD, too, and CPU_AVX512 for the other two. */
typedef enum cpu_level { CPU_PORTABLE, CPU_AVX2, CPU_AVX512, CPU_AMX } cpu_level;
/* Kernels use no more than that of what the processor has. For tests, before any other call: what
 * is packed depends on it. */
void cpu_use_at_most(cpu_level level);

/* What a processor of a kind would have, for this thread: kernels may be asked for their scratch
 * memory then, and do not run. KIND_OWN: as it is. */
typedef enum cpu_kind {
  KIND_OWN = -1,
  KIND_PORTABLE,
  KIND_AVX2,
  KIND_AVX512,
  KIND_AVX512_ALL, /* VNNI and BF16, too */
  KIND_ALL
} cpu_kind;
void cpu_pretend(cpu_kind kind);

/* Returns the level that sets the width of packed panels: "x86-64 avx512", "x86-64 avx2",
 * "aarch64", or "portable" on every other processor, x86-64 without AVX2 included. */
const char *cpu_level_name(void);

/* Asks for the line `ahead` bytes on, into the second-level cache: the first has as few places for
 * lines that are on their way as bound what memory gives (Zen 4: 24). */
static inline void ask_for(const void *from, int ahead) {
  __builtin_prefetch((const char *)from + ahead, 0, 2);
}

/* Asks for each line of them. */
static inline void ask_for_bytes(const void *from, int64_t bytes) {
  enum { LINE = 64 };
  for (int64_t i = 0; i < bytes; i += LINE) ask_for((const char *)from + i, 0);
}

/* Inlined into each TARGET_* function that calls it, so that the body is compiled for that target.
 */
#define KERNEL_INLINE static inline __attribute__((always_inline))

#endif
