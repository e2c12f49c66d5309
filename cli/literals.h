#ifndef CLI_LITERALS_H
#define CLI_LITERALS_H
/* Tensors that are written on the command line: a number, 1,2,3 or [[1, 2], [3, 4]]. */
#include "cli/npy.h"

/* Whether it looks like one, and not like a file's name. */
bool is_literal(const char *word);
/* As the input's dtype, with as many dimensions: those that are missing are 1, in front. name: of
 * the input, for errors. On failure nothing is to be freed. */
int read_literal(const char *name, const clave_tensor_info *info, const char *word,
                 npy_file *out) CHECK;

#endif
