#ifndef BASE_AMX_H
#define BASE_AMX_H
/* AMX, x86-64's registers of tiles (16 rows of 64 bytes) and their products: whether the processor
 * has it for BF16 and for bytes, and the system lets this process use it. */
#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#include <cpuid.h>

/* Asks the system, which then gives every thread of the process, of now and later, room to keep
 * tiles in. */
static inline bool amx_is_allowed(void) {
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
static inline bool amx_is_allowed(void) { return false; }
#endif

#endif
