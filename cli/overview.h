#ifndef CLI_OVERVIEW_H
#define CLI_OVERVIEW_H
/* What the tool consists of, as tables: its commands, the environment variables it reads. */
#include "cli/command.h"

typedef struct variable {
  const char *name, *value, *help; /* value: what may stand there */
} variable;

extern const command *const all_commands[];
extern const size_t n_commands;
extern const variable all_variables[];
extern const size_t n_variables;
extern const char devices_help[], exits_help[]; /* paragraphs, one line each */

void write_overview(page *out);

#endif
