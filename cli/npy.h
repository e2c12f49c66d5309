#ifndef CLI_NPY_H
#define CLI_NPY_H
/* NumPy's .npy files: formats 1 to 3, C and Fortran order, little endian, the dtypes that both
 * sides have. */
#include "cli/report.h"

typedef struct npy_file {
  clave_tensor tensor; /* over `data` */
  void *data;          /* owned */
} npy_file;

/* On failure nothing is to be freed. */
int read_npy(const char *path, npy_file *out) CHECK;
void free_npy(npy_file *file);

#endif
