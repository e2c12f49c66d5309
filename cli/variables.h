#ifndef CLI_VARIABLES_H
#define CLI_VARIABLES_H
/* The table of environment variables that the library and the tool read: `clave --help` and the
 * manual page explain them, `clave doctor` reports those that are set. */
#include <stddef.h>

typedef struct variable {
  const char *name;
  const char *value; /* its possible values, for the manual page */
  const char *help;  /* NULL: a developer's switch, explained in docs/developers/testing.md only */
} variable;

extern const variable all_variables[];
extern const size_t n_variables;

#endif
