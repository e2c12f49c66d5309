#ifndef COMPILE_KERNEL_FOLDER_H
#define COMPILE_KERNEL_FOLDER_H
/* Sources of kernels from a folder in place of ours of the same name. */
#include "base/file.h"
#include "compile/tables.h"

/* needed: (n_source_files) those that the program is built of. INVALID: none of them is in the
 * folder; one is there that lacks a kernel that ours defines. */
clave_status kernel_folder_check(const char *folder, const bool *needed) STATUS_CHECK;
/* NULL in *path: ours is used. Else the path of the source in its place, to be freed. */
clave_status kernel_folder_find(const char *folder, const source_file *file,
                                char **path) STATUS_CHECK;

#endif
