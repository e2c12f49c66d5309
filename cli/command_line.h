#ifndef CLI_COMMAND_LINE_H
#define CLI_COMMAND_LINE_H
/* From a process's arguments to a command's, and what it prints at the end. */
#include "cli/command.h"

/* Standard error: "usage: TOOL USAGE" and how to get help. prefix: "generate ", or "" where the
 * tool is one command. */
void print_usage(const char *usage, const char *prefix);
/* argv: behind the command's name. Its exit status; out: what it prints if that is good. */
int run_command_line(const command *command, const char *prefix, int argc, char *const *argv,
                     page *out) CHECK;

/* What a process does with its arguments; then prints what it has answered. */
typedef int (*answer_fn)(int argc, char *const *argv, page *out);
int answer_process(answer_fn answer, int argc, char *const *argv) CHECK;

#endif
