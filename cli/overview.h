#ifndef CLI_OVERVIEW_H
#define CLI_OVERVIEW_H
/* The table of the tool's commands. */
#include "cli/command.h"

extern const command *const all_commands[];
extern const size_t n_commands;
extern const char devices_help[], exits_help[]; /* one paragraph each */

void write_overview(page *out);

#endif
