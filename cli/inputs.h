#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H
/* The inputs of a method, from a .safetensors file, from NAME=VALUE on the command line, or
 * generated for a benchmark. */
#include "clave_files.h"
#include "cli/model.h"
#include "cli/npy.h"

typedef struct input {
  clave_tensor_info info;
  clave_tensor value; /* data: NULL until given */
  npy_file file;      /* owned; a copy of the value */
  uint64_t scalar;    /* storage of a scalar input */
  const char *source; /* its name in the source; NULL: not given */
  bool on_line;       /* given on the command line, which overrides a file */
} input;

typedef struct input_set {
  input *items; /* owned */
  uint32_t count;
  clave_tensors *file; /* owned */
} input_set;

/* Call free_inputs even if one of these fails. */
int describe_inputs(const model *model, input_set *set) CHECK;
/* others: prefixes of further names allowed in the file ("output_"), NULL-terminated. NULL: every
 * tensor must be an input. */
int read_input_file(input_set *set, const char *path, const char *const *others) CHECK;
int read_input_list(input_set *set, const text_list *list) CHECK;
/* Parses "count=4": sets *length to the length of the name, and *count to N, which must not be
 * negative. */
int read_dim(const char *given, size_t *length, int64_t *count) CHECK;
/* Sets sizes for generate_inputs: each "NAME=N" is an open size or the value of an integer input.
 */
int fix_dims(input_set *set, const text_list *dims) CHECK;
/* Generates inputs of the smallest legal sizes: floats from a normal distribution, integers 0. */
int generate_inputs(input_set *set) CHECK;
/* Fails with a list of the missing inputs. */
int check_inputs(const input_set *set) CHECK;
int set_inputs(const input_set *set, const model *model) CHECK;
void free_inputs(input_set *set);

/* Describes the inputs, reads both sources (each may be NULL or empty), and checks them. */
int collect_inputs(const model *model, const char *path, const text_list *list,
                   input_set *set) CHECK;
/* Same as collect_inputs; if neither source is given, generates inputs with the sizes of `dims`. */
int prepare_inputs(const model *model, const char *path, const text_list *list,
                   const text_list *dims, input_set *set) CHECK;

#endif
