#ifndef CLI_LITERALS_H
#define CLI_LITERALS_H
/* Tensors written on the command line: a number, 1,2,3 or [[1, 2], [3, 4]]. */
#include "cli/npy.h"

/* True if the word looks like a literal and not like a file name. */
bool is_literal(const char *word);
/* Parses a literal with the dtype and the rank of the input; missing leading dimensions are 1.
 * name: of the input, for errors. Nothing must be freed after a failure. */
int read_literal(const char *name, const clave_tensor_info *info, const char *word,
                 npy_file *out) CHECK;

#endif
