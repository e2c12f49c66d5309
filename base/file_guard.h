#ifndef BASE_FILE_GUARD_H
#define BASE_FILE_GUARD_H
/* Protects readers of mapped files that another process truncates. Reading a page after the new end
 * raises SIGBUS. While a mapping is guarded, a handler maps zeros there, and the reader checks
 * afterwards whether it read some. Other faults go to the handler that the process had. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct file_guard file_guard;

/* Guards a mapping of whole pages. Returns NULL if too many mappings are guarded or the handler of
 * SIGBUS cannot be installed. */
file_guard *file_guard_add(const void *start, size_t size);
/* Called before the memory is unmapped; accepts NULL. The last guard restores SIGBUS's action. */
void file_guard_remove(file_guard *guard);
/* From now on *is_cut is set when zeros replace pages; *is_cut must outlive the guard. */
void file_guard_notify(file_guard *guard, volatile bool *is_cut);
/* True if zeros have replaced pages of the guarded mapping. */
bool file_guard_is_cut(const file_guard *guard);
/* Installs the handler again if the process has set another, which still receives other faults. */
void file_guard_renew(void);
/* Returns the guard of the mapping that contains the byte, or NULL. */
file_guard *file_guard_of(const void *byte);

#endif
