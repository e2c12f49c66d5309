/* This process: its environment and number. */
#include "base/process.h"

#include <stdlib.h>
#include <unistd.h>

void environment_set(const char *name, const char *value) {
  (void)(value ? setenv(name, value, 1) : unsetenv(name));
}

long process_number(void) { return (long)getpid(); }
unsigned long user_number(void) { return (unsigned long)geteuid(); }
