#ifndef TEST_DELEGATE_RELEASE_1_HOST_H
#define TEST_DELEGATE_RELEASE_1_HOST_H
/* A host that was built against the headers of the first release. */
#include <stddef.h>

typedef struct layout_row {
  const char *name;
  long value, size; /* offset and size of a member; size 0: a number */
} layout_row;
extern const layout_row release_1_layout[];
extern const size_t release_1_rows;

/* Runs an image of a one through mnist.clv by the plugin at `path`, in all the ways that the table
 * has. NULL: all was right; else what was not. */
const char *run_release_1_host(const char *path, const void *clv, size_t size);

#endif
