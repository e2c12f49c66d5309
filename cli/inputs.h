#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H
/* The inputs of a method, from a .safetensors file, from NAME=VALUE on the command line, or made up
 * for a benchmark. */
#include "clave_files.h"
#include "cli/model.h"
#include "cli/npy.h"

typedef struct input {
  clave_tensor_info info;
  clave_tensor value; /* data: NULL while not given */
  npy_file file;      /* the value, copied from where it was given; owned */
  uint64_t scalar;    /* storage of a scalar's value */
  const char *source; /* name it was given by in its source; NULL: not given */
  bool on_line;       /* given on the command line, which wins over a file */
} input;

typedef struct input_set {
  input *items; /* owned */
  uint32_t count;
  clave_tensors *file; /* owned */
} input_set;

/* On failure of these, too, free_inputs is to be called. */
int describe_inputs(const model *model, input_set *set) CHECK;
/* `others`: names that begin with one of them are no mistake ("output_"; NULL ends); NULL: every
 * tensor must be an input. */
int read_input_file(input_set *set, const char *path, const char *const *others) CHECK;
int read_input_list(input_set *set, const text_list *list) CHECK;
/* "count=4": the name's length, and N, which is not negative. */
int read_dim(const char *given, size_t *length, int64_t *count) CHECK;
/* Sizes for invent_inputs: each "NAME=N" is an open size of some of them, or an integer. */
int fix_dims(input_set *set, const text_list *dims) CHECK;
/* The smallest legal sizes; floats from a normal distribution, integers 0. */
int invent_inputs(input_set *set) CHECK;
/* Fails with the list of the missing ones. */
int check_inputs(const input_set *set) CHECK;
int set_inputs(const input_set *set, const model *model) CHECK;
void free_inputs(input_set *set);

/* describe, read both sources (either may be NULL or empty), check. */
int collect_inputs(const model *model, const char *path, const text_list *list,
                   input_set *set) CHECK;
/* That, or without any source inputs that are made up, of sizes that --dim has. */
int prepare_inputs(const model *model, const char *path, const text_list *list,
                   const text_list *dims, input_set *set) CHECK;

#endif
