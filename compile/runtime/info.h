#ifndef COMPILE_RUNTIME_INFO_H
#define COMPILE_RUNTIME_INFO_H
/* What there is to know of a compiled program: its methods with their arguments. */
#include <stdint.h>

#include "base/dtype.h"
#include "compile/runtime/expected.h"

enum { MODEL_MAX_RANK = 8 };

/* A size of a method that its callers choose; arguments share it by its number. */
typedef struct model_size {
  const char *name;
  int64_t min, max; /* inclusive; INT64_MAX: no bound */
} model_size;

/* What a dimension is that is not a number. */
enum {
  MODEL_FOLLOWS = -1,  /* of an output: known after the run */
  MODEL_FIRST_OPEN = 2 /* -2: size 0 of the method, -3: size 1, ... */
};
static inline int64_t model_open_dim(int size) { return -(int64_t)size - MODEL_FIRST_OPEN; }
/* Which of the method's sizes a dimension is; -1: none. */
static inline int model_size_of(int64_t dim) {
  return dim <= -MODEL_FIRST_OPEN ? (int)(-dim - MODEL_FIRST_OPEN) : -1;
}

/* An input or output: contiguous, little-endian. */
typedef struct model_argument {
  const char *name;
  dtype type;
  bool is_scalar; /* of an input: a number for the host, I64, F64 or BOOL, no file */
  int rank;
  int64_t dims[MODEL_MAX_RANK];
} model_argument;

typedef struct model_method {
  const char *name;
  const model_argument *inputs, *outputs; /* (n_inputs), (n_outputs) */
  const model_size *sizes;                /* (n_sizes) */
  int n_inputs, n_outputs, n_sizes;
} model_method;

typedef struct model_info {
  const char *program;         /* its name, for people */
  const char *device;          /* "cpu" or "opencl" */
  const model_method *methods; /* (n_methods); the first is the default */
  int n_methods;
  model_tests tests;
  int n_threads; /* 0: as CLAVE_THREADS says, else all CPUs; negative: the caller's alone */
} model_info;

/* A program in a process, used by one thread at a time. */
typedef struct model model;

/* An argument of a run. */
typedef struct model_value {
  const void *data;             /* its elements; of an output: the model's, until its next run */
  int64_t dims[MODEL_MAX_RANK]; /* (rank) */
} model_value;

#endif
