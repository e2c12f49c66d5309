#ifndef COMPILE_CARRIED_CARRIED_H
#define COMPILE_CARRIED_CARRIED_H
/* Data about an executable's embedded program. The emitted file main.c defines it. */
#include <stddef.h>
#include <stdint.h>

#include "compile/runtime/expected.h"

/* A fixed open size. */
typedef struct carried_dim {
  const char *name;
  int64_t size;
} carried_dim;

/* A fixed scalar input. */
typedef struct carried_scalar {
  const char *method;
  uint32_t input;
  int64_t value;
} carried_scalar;

/* A row of a tuning table. */
typedef struct carried_row {
  const char *family, *key, *variant;
} carried_row;

typedef struct carried_program {
  const char *name;         /* display name of the program */
  const unsigned char *clv; /* a .clv in program.S, aligned to 4096 */
  size_t size;              /* bytes of clv */
  const char *device;       /* "cpu" or "opencl" */
  const char *method;       /* NULL: all methods */
  const carried_dim *dims;  /* (n_dims) */
  int n_dims;
  const carried_scalar *scalars; /* (n_scalars) */
  int n_scalars;
  int allow_custom_kernels;
  int is_library;                /* false: an executable */
  const unsigned char *binaries; /* in binaries.S, as in clave_device_options; NULL: none */
  size_t binaries_size;
  const carried_row *tuned; /* (n_tuned) */
  int n_tuned;
  const char *tuned_for; /* the device of `tuned`, as in clave_tuning_device */
  model_tests tests;     /* one for each method in `method` */
} carried_program;
extern const carried_program carried;

/* The main functions for tensors and for text. */
int carried_tensors(int argc, char **argv);
int carried_text(int argc, char **argv);
/* The command line of clave generate without the program. */
int carried_generate(int argc, char **argv);

#endif
