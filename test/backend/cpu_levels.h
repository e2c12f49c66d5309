#ifndef TEST_BACKEND_CPU_LEVELS_H
#define TEST_BACKEND_CPU_LEVELS_H
/* Visits the levels of instruction sets that differ on this processor: four on x86-64 with AMX, one
 * where kernels have no variants (armhf, riscv64). A test that ran all levels there would only
 * repeat itself. */
#include "backend/cpu/kernels/support/features.h"

/* Sets the level, and returns the number of instruction sets that kernels use at it. */
static inline int count_instruction_sets(cpu_level level) {
  cpu_use_at_most(level);
  return cpu_has_avx2() + cpu_has_avx512() + cpu_has_avx512_vnni() + cpu_has_avx512_bf16() +
         cpu_has_amx() + cpu_has_dotprod() + cpu_has_i8mm() + cpu_has_arm_bf16();
}

/* Returns the next level at which kernels use more instruction sets, or CPU_AMX + 1. Afterwards
 * kernels use all sets of the processor. A loop: for (level = CPU_PORTABLE; level <= CPU_AMX; level
 * = next_level(level)) */
static inline cpu_level next_level(cpu_level level) {
  const int before = count_instruction_sets(level);
  do level++;
  while (level <= CPU_AMX && count_instruction_sets(level) == before);
  cpu_use_at_most(CPU_AMX);
  return level;
}

#endif
