#ifndef COMPILE_RUNTIME_INFO_H
#define COMPILE_RUNTIME_INFO_H
/* Describes a compiled program: its methods and their arguments. */
#include <stdint.h>

#include "base/dtype.h"
#include "compile/runtime/expected.h"

enum { MODEL_MAX_RANK = 8 };

/* An open size of a method, chosen by the caller. Arguments refer to it by its index. */
typedef struct model_size {
  const char *name;
  int64_t min, max; /* inclusive; INT64_MAX: unbounded */
} model_size;

/* Encodings of dimensions that are not numbers. */
enum {
  MODEL_FOLLOWS = -1,  /* size of an output, known after the run */
  MODEL_FIRST_OPEN = 2 /* -2 means size 0 of the method, -3 size 1, ... */
};
static inline int64_t model_open_dim(int size) { return -(int64_t)size - MODEL_FIRST_OPEN; }
/* Returns the index of the method's size that a dimension is; -1 if it is a number. */
static inline int model_size_of(int64_t dim) {
  return dim <= -MODEL_FIRST_OPEN ? (int)(-dim - MODEL_FIRST_OPEN) : -1;
}

/* An input or output: contiguous, little-endian. */
typedef struct model_argument {
  const char *name;
  dtype type;
  bool is_scalar; /* an input that is a host number, I64, F64 or BOOL, not a file */
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
  const char *program;         /* display name */
  const char *device;          /* "cpu" or "opencl" */
  const model_method *methods; /* (n_methods); the first is the default */
  int n_methods;
  model_tests tests;
  int n_threads; /* 0: by CLAVE_THREADS, else all CPUs; negative: only the caller's thread */
} model_info;

/* A loaded program, used by one thread at a time. */
typedef struct model model;

/* An argument of a run. */
typedef struct model_value {
  const void *data;             /* elements; an output's are valid until the next run */
  int64_t dims[MODEL_MAX_RANK]; /* (rank) */
} model_value;

#endif
