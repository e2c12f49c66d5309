#ifndef CLI_VARIABLES_H
#define CLI_VARIABLES_H
/* The table of the environment variables that the library and the tool read. */
#include <stddef.h>

typedef struct variable {
  const char *name, *value, *help; /* value: what it may be set to */
} variable;

extern const variable all_variables[];
extern const size_t n_variables;

#endif
