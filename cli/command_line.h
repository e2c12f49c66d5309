#ifndef CLI_COMMAND_LINE_H
#define CLI_COMMAND_LINE_H
/* Runs a command from a process's arguments and prints its output at the end. */
#include "cli/command.h"

/* Prints "usage: TOOL USAGE" and how to get help to standard error. prefix: "generate ", or "" if
 * the tool has one command only. */
void print_usage(const char *usage, const char *prefix);
/* argv: the arguments after the command's name. Returns the command's exit status; `out` gets the
 * text to print on success. */
int run_command_line(const command *command, const char *prefix, int argc, char *const *argv,
                     page *out) CHECK;

/* A tool's main function; answer_process runs it and then prints its page. */
typedef int (*answer_fn)(int argc, char *const *argv, page *out);
int answer_process(answer_fn answer, int argc, char *const *argv) CHECK;
/* Returns the exit status for main. Ends the process at once if a device was lost, because exit
 * handlers of its driver may crash or hang. */
int leave_process(int result) CHECK;

#endif
