/* Enters and leaves the library's floating-point environment. */
#include "base/float_env.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/* True if the thread already has the default environment. Always false on processors where checking
 * costs as much as setting. */
static bool is_default(void) {
#ifdef __x86_64__
  enum { CONTROL_87 = 0x37F, CONTROL = 0x1F80, FLAGS = 0x3F };
  unsigned short control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  return control == CONTROL_87 && (_mm_getcsr() & ~(unsigned)FLAGS) == CONTROL;
#else
  return false;
#endif
}

float_env float_env_enter(void) {
  float_env env = {.is_changed = !is_default()};
  if (!env.is_changed) return env;
  (void)fegetenv(&env.host);
  (void)fesetenv(FE_DFL_ENV);
  return env;
}

void float_env_leave(const float_env *env) {
  if (env->is_changed) (void)fesetenv(&env->host);
}

void float_env_reset(void) { (void)fesetenv(FE_DFL_ENV); }
