#ifndef BASE_FLOAT_ENV_H
#define BASE_FLOAT_ENV_H
/* The floating-point environment in which the library computes, whatever its host has set: round to
 * nearest, subnormals kept, no traps. The host's environment is restored when a call returns. */
#include <fenv.h>
#include <stdbool.h>

typedef struct float_env {
  fenv_t host;
  bool is_changed; /* the host's environment differs from the default and is saved in `host` */
} float_env;

float_env float_env_enter(void);
void float_env_leave(const float_env *env);
/* Sets the library's environment for the rest of the thread. Call it first in a new thread, which
 * inherits its creator's environment. */
void float_env_reset(void);

/* Makes the rest of this block compute in the library's environment, and restores the host's at its
 * end. */
#define OWN_FLOAT_ENV \
  __attribute__((unused, cleanup(float_env_leave))) const float_env host_floats = float_env_enter()

#endif
