#ifndef BASE_FILE_GUARD_H
#define BASE_FILE_GUARD_H
/* Mapped files that others cut short. Reading a page behind the new end raises SIGBUS; while a
 * mapping is guarded a handler puts zeros there instead, and the reader asks afterwards whether it
 * read some. Faults elsewhere go to the handler that the process had. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct file_guard file_guard;

/* Guards a mapping of whole pages. NULL: too many are guarded, or SIGBUS cannot be handled. */
file_guard *file_guard_add(const void *start, size_t size);
/* Before the memory is unmapped; takes NULL. The last one gives SIGBUS back. */
void file_guard_remove(file_guard *g);
/* True if zeros were put in the place of some of its pages. */
bool file_guard_is_cut(const file_guard *g);
/* Takes SIGBUS again where the process has set a handler since; that one still gets other faults.
 */
void file_guard_renew(void);
bool file_guard_covers(const void *at); /* the byte is in a guarded mapping */
unsigned file_guard_cuts(void);         /* how often that happened in this process */

#endif
