#ifndef CLI_NPY_H
#define CLI_NPY_H
/* NumPy's .npy files: formats 1 to 3, C and Fortran order, little endian, with the dtypes that
 * clave also has. */
#include "cli/report.h"

typedef struct npy_file {
  clave_tensor tensor; /* its data are `data` */
  void *data;          /* owned */
} npy_file;

/* Nothing must be freed after a failure. */
int read_npy(const char *path, npy_file *out) CHECK;
void free_npy(npy_file *file);

#endif
