#ifndef COMPILE_RUNTIME_MODEL_H
#define COMPILE_RUNTIME_MODEL_H
/* A compiled program as its command line and the functions of a library see it: methods with their
 * arguments, and runs. written.c implements it for a schedule that is printed as C (model.c,
 * written.h), compile/carried/ over the library for a program that is carried as it is. */
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

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
} model_info;

/* A program in a process, used by one thread at a time. */
typedef struct model model;

/* An argument of a run. */
typedef struct model_value {
  const void *data;             /* its elements; of an output: the model's, until its next run */
  int64_t dims[MODEL_MAX_RANK]; /* (rank) */
} model_value;

/* What there is to know of it; nothing can run yet. */
clave_status model_create(model **out) STATUS_CHECK;
const model_info *model_get_info(const model *m);
/* Makes it ready for runs: its memory, its threads, what is packed of its weights. Once. n_threads:
 * as base/threads.h has it. */
clave_status model_start(model *m, int n_threads) STATUS_CHECK;
/* Runs method `method` of its info. inputs, outputs: (n_inputs), (n_outputs); the former of sizes
 * within their bounds, of the latter dims and data are filled in. State is kept from one run to the
 * next. */
clave_status model_run(model *m, int method, const model_value *inputs,
                       model_value *outputs) STATUS_CHECK;
clave_status model_reset(model *m) STATUS_CHECK; /* state as it is at first */
void model_destroy(model *m);                    /* takes NULL and what was not started */

#endif
