#ifndef COMPILE_KERNEL_FOLDER_H
#define COMPILE_KERNEL_FOLDER_H
/* Replaces our kernel sources by the user's sources of the same names. */
#include "base/file.h"
#include "compile/tables.h"

/* Checks the user's folder of kernels. Fails with INVALID if it contains none of the needed
 * sources, or a file in it lacks a kernel that ours defines. needed: (n_source_files), true for
 * sources that the program is built from. */
clave_status kernel_folder_check(const char *folder, const bool *needed) STATUS_CHECK;
/* Sets *path to the replacement of a source, which the caller frees; NULL if none exists. */
clave_status kernel_folder_find(const char *folder, const source_file *file,
                                char **path) STATUS_CHECK;

#endif
