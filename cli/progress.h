#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
/* What is going on, on one line of a terminal's stderr: nothing is shown elsewhere, or for what
 * takes under a second. */

#include <stdbool.h>

/* `format` names the work: "loading m.clv". Replaces what was shown before. */
void show_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A clave_progress_fn: "building kernels 12/31 (cached for next time)", shown at once. */
void show_steps(void *ctx, const char *what, int done, int total);
bool has_cache(void); /* whether there is a folder for what is kept */
/* Removes the line; the work is done, or something else is to be printed. */
void clear_progress(void);

#endif
