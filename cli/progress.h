#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H
/* Shows progress on one line of stderr. Shows nothing if stderr is not a terminal, or if the work
 * takes less than a second. */

#include <stdbool.h>

/* `format` names the work, such as "loading m.clv". Replaces the current line. */
void show_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A clave_progress_fn: shows "building kernels 12/31 (cached for next time)" at once. */
void show_steps(void *ctx, const char *what, int done, int total);
bool has_cache(void); /* true if there is a cache folder */
/* Removes the line after the work, or before other output. */
void clear_progress(void);

#endif
