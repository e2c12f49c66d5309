#ifndef COMPILE_CARRIED_CARRIED_H
#define COMPILE_CARRIED_CARRIED_H
/* What an executable knows that carries its program and the library: main.c, an emitted file,
 * defines it. */
#include <stddef.h>
#include <stdint.h>

#include "compile/runtime/expected.h"

/* An open size that is fixed. */
typedef struct carried_dim {
  const char *name;
  int64_t size;
} carried_dim;

/* A scalar input that is fixed. */
typedef struct carried_scalar {
  const char *method;
  uint32_t input;
  int64_t value;
} carried_scalar;

/* Of a tuning table. */
typedef struct carried_row {
  const char *family, *key, *variant;
} carried_row;

typedef struct carried_program {
  const char *name;         /* of the program, for people */
  const unsigned char *clv; /* program.S: a .clv, aligned to 4096 */
  size_t size;              /* of it, bytes */
  const char *device;       /* "cpu" or "opencl" */
  const char *method;       /* NULL: all */
  const carried_dim *dims;  /* (n_dims) */
  int n_dims;
  const carried_scalar *scalars; /* (n_scalars) */
  int n_scalars;
  int allow_custom_kernels;
  int is_library;                /* else an executable */
  const unsigned char *binaries; /* binaries.S: as clave_device_options has them; NULL: none */
  size_t binaries_size;
  const carried_row *tuned; /* (n_tuned) */
  int n_tuned;
  const char *tuned_for; /* the device, as clave_tuning_device has it */
  model_tests tests;     /* by method, as `method` says */
} carried_program;
extern const carried_program carried;

/* What main does, for tensors or text. */
int carried_tensors(int argc, char **argv);
int carried_text(int argc, char **argv);
/* The command line of a language model: clave generate's, without the program. */
int carried_generate(int argc, char **argv);

#endif
