#ifndef BACKEND_OPENCL_PROGRAM_ARGS_H
#define BACKEND_OPENCL_PROGRAM_ARGS_H
/* Arguments of kernels: what an op gives by name, what of it is recorded, and the signatures that
 * it is held against. kernel_args.h (generated) has a struct for each kernel. */
#include "backend/backend.h"
#include "base/memory.h"

enum { MAX_LAUNCH_ARGS = 64 };

/* ---------------------------------------------------------------- recorded */

typedef enum value_kind {
  VALUE_OPERAND, /* a slot's buffer; what follows is the offset from where the slot begins */
  VALUE_SCRATCH,
  VALUE_RESULT, /* scratch memory behind all that the op asks for; recorded as VALUE_SCRATCH */
  VALUE_PACKED, /* of a constant, by its number in the recording */
  VALUE_ABSENT, /* any buffer */
  VALUE_IMAGE,  /* of words of 16 bytes: of a packed weight, by its number */
  VALUE_SEED,   /* of the session's random numbers */
  VALUE_RUN,    /* how far they are */
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
      dtype type; /* offsets count its elements */
    } operand;
    int64_t i;
    double f;
    int64_t i8[8];
    size_t bytes;
  } as;
} launch_value;

/* ---------------------------------------------------------------- given by an op */

/* The fields of kernel_args.h: int64_t for int, uint, long, ulong and index_t, double for float,
 * double and real, and these. */
typedef struct arg_buffer { /* two parameters: __global pointer, long offset of element 0 */
  launch_value value;
  int64_t offset; /* in elements */
  bool wide;      /* an index into it may not fit an int */
} arg_buffer;
typedef struct arg_index8 {
  int64_t v[8];
} arg_index8;
typedef struct arg_image { /* of a packed weight's words of 16 bytes */
  int weight;
} arg_image;
typedef struct arg_local {
  size_t bytes;
} arg_local;

/* The slot of a tensor that is no operand: the op's own result, where the steps of its epilogue
 * make another dtype of it. */
enum { RESULT_SLOT = INT32_MAX };
arg_buffer buffer_arg(const bound_tensor *tensor);
arg_buffer absent_arg(void);                         /* for an optional operand that is not there */
arg_buffer optional_arg(const bound_tensor *tensor); /* buffer_arg, or absent_arg for NULL */
arg_buffer scratch_arg(int64_t offset);
arg_buffer packed_arg(int number); /* see recorder_pack */
arg_index8 index8_arg(const int64_t values[8]);
arg_index8 dims_arg(const tensor *tensor);    /* innermost dimension first; the rest 1 */
arg_index8 strides_arg(const tensor *tensor); /* innermost dimension first; the rest 0 */
arg_image image_arg(int weight);
arg_local local_arg(size_t bytes);

/* ---------------------------------------------------------------- signatures */

/* Kinds of kernel parameters, by their type in the kernel. real is float, double or long by
 * COMPUTE; index_t and index8 are int and int8, or long and long8 where a tensor is too large
 * (WIDE). */
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
  const char *type; /* in OpenCL C, with its qualifiers */
  arg_kind kind;
  size_t at; /* in the kernel's struct */
} arg_info;
/* A macro of the kernel's file that is a number, unless the launch defines it otherwise: sizes are
 * told apart by such, see shape_class.c. */
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
extern const kernel_signature kernel_signatures[]; /* generated; by the numbers of kernel_args.h */

/* ---------------------------------------------------------------- as the driver takes them */

/* A kernel takes its pointers in their order, and behind them one struct of all numbers: drivers
 * spend time on each argument of each launch. */
typedef struct arg_places {
  uint16_t at[MAX_LAUNCH_ARGS]; /* of a pointer, which it is; of a number, its byte in the struct */
  uint16_t n_pointers, size;    /* bytes of the struct */
  uint16_t end;                 /* behind its last number */
} arg_places;
void args_place(const kernel_signature *signature, bool wide, dtype compute, arg_places *out);
bool arg_is_pointer(arg_kind kind);
/* The kernel's first lines: the struct, the parameters, and every number under its name. */
void args_write_head(text *out, const kernel_signature *signature);

#endif
