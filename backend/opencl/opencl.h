#ifndef BACKEND_OPENCL_OPENCL_H
#define BACKEND_OPENCL_OPENCL_H
/* What an op family of the OpenCL backend is written against: the recorder, and the launch, the
 * only way to a kernel. A family is backend/opencl/<family>.c with `clave_status
 * opencl_<op>(cl_recorder *s, const node *n)` and kernels_cl/<family>.cl. Include "opencl_ops.h"
 * (generated) for the prototypes.
 *
 *   clave_status opencl_softmax(cl_recorder *s, const node *n) {
 *     const ir_softmax *op = n->instruction->op;
 *     const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
 *     launch l;
 *     launch_begin(&l, s, n, "softmax", "softmax_rows");  // kernels_cl/softmax.cl, the kernel
 *     launch_dtype(&l, "X_TYPE", x->t.type);  // key of the program: dtypes and flags, no shapes
 *     launch_compute(&l, x->t.type);          // COMPUTE: what `real` is in the kernel
 *     launch_define(&l, "LOG", op->log);
 *     launch_buffer(&l, x);  // arguments in the kernel's order: buffer, long offset
 *     launch_strides(&l, &x->t);  // index8
 *     launch_buffer(&l, out);
 *     launch_int(&l, rows);  // int, uint, long, ulong or index_t, as the kernel says
 *     return launch_items(&l, rows);  // one dimension; the kernel masks by `rows`
 *   }
 *
 * The op function runs once for a schedule and records its launches, which streams then run with
 * whatever buffers the slots have (submit.c); n's tensors have types and slots only. No error
 * checks are needed until launch_run/items/groups: they report the first mistake, by kernel and
 * argument name. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend/backend.h"
#include "base/memory.h"

typedef struct cl_device cl_device;     /* backend: one opened device */
typedef struct cl_recorder cl_recorder; /* takes the launches of one node */

typedef clave_status (*opencl_op)(cl_recorder *s, const node *n);
extern const opencl_op opencl_table[IR_OP_COUNT]; /* generated */

/* What kernels and op functions may choose by. In a kernel ON_CPU is defined to 0 or 1. */
typedef struct device_traits {
  bool is_cpu; /* cores with vector units: few work-items that loop; a GPU wants thousands of short
                  ones */
  bool is_gpu; /* of that type; a CPU may be neither */
  bool always_wide; /* 64-bit indices even where 32 bits do: for tests */
  bool has_fp64;
  bool shares_host_memory;
  uint32_t compute_units;
  uint32_t vector_width; /* floats in a register: 4, 8 or 16 */
  size_t max_local;      /* work-items of a group; >= LOCAL_SIZE unless is_cpu */
  uint64_t local_memory; /* bytes */
  uint64_t max_alloc;
} device_traits;
const device_traits *recorder_traits(const cl_recorder *s);

/* The local size of launch_items, and the largest one to ask for elsewhere. A device with smaller
 * groups gets the kernels for CPUs, which are right for any. Use only sizes of {1, 16, 64}: PoCL
 * compiles a kernel again for each local size. */
enum { LOCAL_SIZE = 64 };

/* Memory of at least `bytes` for use within this op's launches only, one for all of them. */
clave_status recorder_scratch(cl_recorder *s, size_t bytes) STATUS_CHECK;

/* ---------------------------------------------------------------- launch */

enum { MAX_LAUNCH_DEFINES = 24, MAX_LAUNCH_ARGS = 64 };

typedef enum define_kind { DEFINE_INT, DEFINE_DTYPE } define_kind;
typedef struct launch_macro {
  const char *name; /* a string literal: compared by address */
  int32_t kind, value;
} launch_macro;

typedef enum value_kind {
  VALUE_OPERAND, /* a slot's buffer; what follows is the offset from where the slot begins */
  VALUE_SCRATCH,
  VALUE_ABSENT, /* any buffer */
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

/* Kinds of kernel parameters, by their type in the kernel. real is float, double or long by
 * COMPUTE; index_t and index8 are int and int8, or long and long8 where a tensor is too large
 * (WIDE). */
typedef enum arg_kind {
  ARG_BUFFER,
  ARG_LOCAL,
  ARG_INT,
  ARG_UINT,
  ARG_LONG,
  ARG_ULONG,
  ARG_FLOAT,
  ARG_DOUBLE,
  ARG_REAL,
  ARG_INDEX,
  ARG_INDEX8,
  ARG_FAULT,
  ARG_FAULT_NODE
} arg_kind;
typedef struct arg_info {
  const char *name;
  arg_kind kind;
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

/* A source made at run time (elementwise): text of the file and the signature of its kernel. Called
 * only when the launch is not in the node's cache. args go into `args` (room for MAX_LAUNCH_ARGS;
 * names are literals). */
typedef clave_status (*launch_generator)(const void *ctx, text *source, arg_info *args,
                                         int *n_args);

typedef struct launch {
  cl_recorder *s;
  const node *n;
  const char *stem, *kernel; /* string literals: compared by address */
  launch_macro macros[MAX_LAUNCH_DEFINES];
  launch_value values[MAX_LAUNCH_ARGS];
  int n_macros, n_values;
  bool wide, overflow;
  launch_generator generate; /* NULL: kernels_cl/<stem>.cl */
  const void *generate_ctx;
} launch;

/* stem, kernel and all names must be string literals. */
void launch_begin(launch *l, cl_recorder *s, const node *n, const char *stem, const char *kernel);
void launch_dtype(launch *l, const char *name,
                  dtype t); /* -D name=F32: for STORAGE(), LOAD(), STORE() of common.h */
void launch_compute(launch *l,
                    dtype t); /* -D COMPUTE: F32 for F32 F16 BF16, F64, I64 for integers and BOOL */
void launch_define(launch *l, const char *name,
                   int value); /* -D name=value: flags and small enums, never shapes */
void launch_generated(launch *l, launch_generator generate, const void *ctx);

/* Arguments, in the kernel's order. A parameter `FAULT_PARAMS` is bound by itself and must come
 * last. */
void launch_buffer(launch *l,
                   const bound_tensor *t); /* two: __global pointer, long offset of element 0 */
void launch_absent(launch *l); /* the same two, for an optional operand that is not there */
void launch_scratch(launch *l, int64_t offset); /* the same two; offset in elements */
void launch_int(launch *l, int64_t value);      /* int, uint, long, ulong, index_t */
void launch_float(launch *l, double value);     /* float, double, real */
void launch_index8(launch *l, const int64_t values[8]);
void launch_dims(launch *l, const tensor *t);    /* index8, innermost dimension first; the rest 1 */
void launch_strides(launch *l, const tensor *t); /* index8, innermost dimension first; the rest 0 */
void launch_local(launch *l, size_t bytes);
void launch_seed(launch *l);       /* ulong: of the session's random numbers */
void launch_random_run(launch *l); /* uint: the run that they are of, modulo 2^32 */
void launch_wide(
    launch *l); /* index_t must be 64 bits (launch_buffer sees to it for its tensors) */

/* Records. global counts work-items and is rounded up to a multiple of local: the kernel masks. A
 * zero size does nothing. */
clave_status launch_run(launch *l, int dims, const size_t *global,
                        const size_t *local) STATUS_CHECK;
clave_status launch_items(launch *l,
                          int64_t n) STATUS_CHECK; /* 1-D, n work-items, groups of LOCAL_SIZE */
clave_status launch_groups(launch *l, int64_t groups,
                           size_t local) STATUS_CHECK; /* 1-D, `groups` groups of `local` */

#endif
