#ifndef CLI_REPORT_H
#define CLI_REPORT_H
/* Errors and notes on stderr. A function that can fail returns an exit status: EXIT_GOOD, or the
 * value of fail_*, which has printed the reason once. */
#include "clave.h"

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_MALFORMED = 2 };

#define CHECK __attribute__((warn_unused_result))

/* Sets the prefix of all lines, initially "clave"; borrowed. */
void name_tool(const char *name);
const char *tool_name(void);
/* Prints "clave: ..." on one line. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));       /* EXIT_FAILED */
int fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2))); /* EXIT_MALFORMED */
int fail_status(clave_status status); /* frees st and returns EXIT_FAILED */
int fail_memory(void);
/* Prints "clave: note: ...". A clave_message_fn; ctx is ignored. */
void print_note(void *ctx, const char *line);

/* Return from the function if a step, or a call of the library, failed. */
#define TRY_EXIT(step)       \
  do {                       \
    int exit_ = (step);      \
    if (exit_) return exit_; \
  } while (0)
#define TRY_STATUS(call)                      \
  do {                                        \
    clave_status status_ = (call);            \
    if (status_) return fail_status(status_); \
  } while (0)

#endif
