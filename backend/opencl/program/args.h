#ifndef BACKEND_OPENCL_PROGRAM_ARGS_H
#define BACKEND_OPENCL_PROGRAM_ARGS_H
/* Arguments of kernels: as an op passes them by name, as they are recorded, and the signatures that
 * check them. kernel_args.h (generated) has a struct for each kernel. */
#include "backend/backend.h"
#include "base/memory.h"

/* All devices accept MAX_LAUNCH_BYTES of arguments. embed.py refuses kernels with more. */
enum { MAX_LAUNCH_ARGS = 64, MAX_LAUNCH_BYTES = 1024 };

/* ---------------------------------------------------------------- recorded */

typedef enum value_kind {
  VALUE_OPERAND, /* a slot's buffer; the next value is an offset from the slot's start */
  VALUE_SCRATCH,
  VALUE_RESULT, /* after the op's scratch memory; recorded as VALUE_SCRATCH */
  VALUE_PACKED, /* packed weight, by its number in the recording */
  VALUE_ABSENT, /* an absent operand: any buffer */
  VALUE_IMAGE,  /* image of the texels (16 bytes) of a packed weight, by its number */
  VALUE_SEED,   /* seed of the session's random numbers */
  VALUE_RUN,    /* the session's run counter for random numbers, see random_key */
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_INDEX8,
  VALUE_LOCAL
} value_kind;
typedef struct launch_value {
  value_kind kind;
  union {
    struct {
      uint32_t slot;
      dtype type; /* the element type that offsets count */
    } operand;
    int64_t i;
    double f;
    int64_t i8[8];
    size_t bytes;
  } as;
} launch_value;

/* ---------------------------------------------------------------- arguments from ops */

/* The field types of kernel_args.h: int64_t for int, uint, long, ulong and index_t; double for
 * float, double and real; and the following structs. */
typedef struct arg_buffer { /* two parameters: __global pointer, long offset of element 0 */
  launch_value value;
  int64_t offset; /* in elements */
  bool wide;      /* an index into the buffer may not fit an int */
} arg_buffer;
typedef struct arg_index8 {
  int64_t v[8];
} arg_index8;
typedef struct arg_image { /* texels (16 bytes) of a packed weight */
  int weight;
} arg_image;
typedef struct arg_local {
  size_t bytes;
} arg_local;

/* The slot of the op's own result, which is not an operand, if the epilogue changes its dtype. */
enum { RESULT_SLOT = INT32_MAX };
arg_buffer buffer_arg(const bound_tensor *tensor);
arg_buffer absent_arg(void);                         /* for an absent optional operand */
arg_buffer optional_arg(const bound_tensor *tensor); /* buffer_arg, or absent_arg for NULL */
arg_buffer scratch_arg(int64_t offset);
arg_buffer packed_arg(int number); /* number: from recorder_pack */
arg_index8 index8_arg(const int64_t values[8]);
arg_index8 dims_arg(const tensor *tensor);    /* innermost dimension first; padded with 1 */
arg_index8 strides_arg(const tensor *tensor); /* innermost dimension first; padded with 0 */
arg_image image_arg(int weight);
arg_local local_arg(size_t bytes);

/* ---------------------------------------------------------------- signatures */

/* Kinds of kernel parameters, by their type in the kernel. real is float, double or long by
 * COMPUTE. index_t and index8 are int and int8, or long and long8 if a tensor is large (WIDE). */
typedef enum arg_kind {
  ARG_BUFFER,
  ARG_LOCAL,
  ARG_IMAGE,
  ARG_INT,
  ARG_UINT,
  ARG_LONG,
  ARG_ULONG,
  ARG_FLOAT,
  ARG_DOUBLE,
  ARG_REAL,
  ARG_INDEX,
  ARG_INDEX8,
  ARG_SEED, /* RANDOM_PARAMS */
  ARG_RUN,
  ARG_FAULT, /* FAULT_PARAMS */
  ARG_FAULT_NODE
} arg_kind;
typedef struct arg_info {
  const char *name;
  const char *type; /* type in OpenCL C, with its qualifiers */
  arg_kind kind;
  size_t at; /* byte offset in the kernel's struct */
} arg_info;
/* A numeric macro of the kernel's file, such as a block size, which the launch may redefine.
 * shape_class.c classifies sizes by these values. */
typedef struct block_info {
  const char *name;
  int value;
} block_info;
typedef struct kernel_signature {
  const char *stem, *kernel;
  const arg_info *args;
  int n_args;
  const block_info *blocks;
  int n_blocks;
} kernel_signature;
extern const kernel_signature kernel_signatures[]; /* generated; indexed as in kernel_args.h */

/* ---------------------------------------------------------------- arguments for the driver */

/* Where a compiled kernel has its arguments: first all pointers in order, then one struct of all
 * numbers, because drivers spend time on each argument of each launch. */
typedef struct arg_places {
  uint16_t at[MAX_LAUNCH_ARGS]; /* a pointer's argument index, or a number's byte offset */
  uint16_t n_pointers, size;    /* bytes of the struct */
  uint16_t end;                 /* byte offset after its last number */
} arg_places;
void args_place(const kernel_signature *signature, bool wide, dtype compute, arg_places *out);
/* Returns the maximum bytes of the arguments, with 64-bit indices. */
size_t args_max_bytes(const kernel_signature *signature);
bool arg_is_pointer(arg_kind kind);
/* Writes the kernel's first lines: the struct, the parameters, and a variable for every number.
 * group: the local size of all its launches, or NULL if it is not fixed. */
void args_write_head(text *text, const kernel_signature *signature, const uint64_t group[3]);

#endif
