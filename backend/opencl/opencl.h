#ifndef BACKEND_OPENCL_OPENCL_H
#define BACKEND_OPENCL_OPENCL_H
/* What an op family of the OpenCL backend is written against: the recorder, and the launch, the
 * only way to a kernel. A family is backend/opencl/ops/<family>.c with `clave_status
 * opencl_<op>(cl_recorder *s, const node *n)` and kernels_cl/<family>.cl. Include "opencl_ops.h"
 * (generated) for the prototypes.
 *
 *   clave_status opencl_softmax(cl_recorder *s, const node *n) {
 *     const ir_softmax *op = n->instruction->op;
 *     const bound_tensor *x = &n->tensors[op->x], *out = &n->tensors[op->out];
 *     ...
 *     launch l;
 *     launch_begin(&l, s, n);
 *     launch_dtype(&l, "X_TYPE", x->t.type);  // key of the program: dtypes and flags, no shapes
 *     launch_compute(&l, x->t.type);          // COMPUTE: what `real` is in the kernel
 *     launch_define(&l, "LOG", op->log);
 *     launch_args(&l, &(softmax_args){.x = buffer_arg(x),
 *                                     .out = buffer_arg(out),
 *                                     .kept_dims = dims_arg(&kept[0]),  // index8
 *                                     .x_strides = strides_arg(&kept[0]),
 *                                     .out_strides = strides_arg(&kept[1]),
 *                                     .groups = items,  // int, uint, long, ulong or index_t
 *                                     ...});
 *     return launch_items(&l, items);  // one dimension; the kernel masks by `groups`
 *   }
 *
 * softmax_args says that it is the kernel `softmax` (of kernels_cl/softmax.cl), and has its
 * parameters by their names: the build writes such a struct for each kernel, kernel_args.h, and
 * refuses an initialiser that leaves a field out. A pointer `x` with its `x_offset` is one field; a
 * macro NAME_PARAMS of several parameters is a field `name` of type name_params, for kernels that
 * share them. FAULT_PARAMS, which come last, and RANDOM_PARAMS are bound by themselves.
 *
 * The op function runs once for a schedule and records its launches, which streams then run with
 * whatever buffers the slots have (submit.c); n's tensors have types and slots only. No error
 * checks are needed until launch_run/items/groups: they report the first value that its parameter
 * cannot hold, by kernel and name. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend/backend.h"
#include "base/memory.h"
#include "kernel_args.h"

typedef struct cl_device cl_device;     /* backend: one opened device */
typedef struct cl_recorder cl_recorder; /* takes the launches of one node */

typedef clave_status (*opencl_op)(cl_recorder *recorder, const node *node);
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
  bool opencl_3;         /* version 3.0 or later */
  size_t max_local;      /* work-items of a group; >= LOCAL_SIZE unless is_cpu */
  size_t most_groups;    /* of a launch, in its second and third dimension */
  uint64_t local_memory; /* bytes */
  uint64_t max_alloc;
  uint64_t image_words; /* of 16 bytes, of an image of a buffer; 0: there are no images */
  bool reads_images;    /* constants as images: faster than as buffers */
  bool shares_badly;    /* local memory is as slow as any other */
} device_traits;
enum { IMAGE_WORD = 16 };
const device_traits *recorder_traits(const cl_recorder *recorder);
/* Whether a launch may have n groups of work-items in its second or third dimension. */
bool recorder_takes_groups(const cl_recorder *recorder, int64_t n);
bool recorder_is_fast(const cl_recorder *recorder); /* kernels may be less exact: CLAVE_PRECISION */
void recorder_rounds(cl_recorder *recorder, rounding how); /* sets recording.rounds */
/* How kernels add products of bytes here, as in kernels_cl/support/add_dots.h: one by one, or by a
 * function of cl_khr_integer_dot_product. */
typedef enum dots_kind { DOTS_BYTES, DOTS_PACKED } dots_kind;
clave_status recorder_dots(const cl_recorder *recorder, dots_kind *out) STATUS_CHECK;
/* Whether groups may be summed by sub-groups (kernels_cl/support/subgroups.h). */
clave_status recorder_has_subgroups(const cl_recorder *recorder, bool *out) STATUS_CHECK;
/* How blocks of F16 and BF16 are multiplied, as in kernels_cl/gemm/mma.h. */
typedef enum mma_kind { MMA_NONE, MMA_PTX, MMA_LOCAL } mma_kind;
clave_status recorder_mma(const cl_recorder *recorder, mma_kind *out) STATUS_CHECK;
const char *recorder_type(const cl_recorder *recorder); /* of the device: "CPU", "GPU", ... */

/* Which of the variants of a family to record, see base/tuning.h. The key has what decides how fast
 * they are: sizes and dtypes, and whether operands are constants. */
tuning_key recorder_key(const cl_recorder *recorder);
const kernel_variant *recorder_choose(cl_recorder *recorder, const variants *all,
                                      const tuning_key *key);

/* The local size of launch_items, and the largest one to ask for elsewhere. A device with smaller
 * groups gets the kernels for CPUs, which are right for any. Use only sizes of {1, 16, 64}: PoCL
 * compiles a kernel again for each local size. */
enum { LOCAL_SIZE = 64 };

/* Memory of at least `bytes` for use within this op's launches only, one for all of them. */
clave_status recorder_scratch(cl_recorder *recorder, size_t bytes) STATUS_CHECK;

/* A constant operand packed in a layout of the op's own, once for the device, by launches that the
 * op records with *pack right after recorder_pack. They write `bytes` of scratch memory from its
 * offset 0 on; what they request with recorder_scratch includes these. They must read x alone, and
 * follow from x, kind and size alone. packed_arg takes *number; equal packed weights are shared.
 * recorder_may_pack is false where x is not constant, or the op has enough packed weights. */
typedef enum packed_kind {
  PACKED_GEMM_A,
  PACKED_GEMM_B,
  PACKED_GEMM_CODES,
  PACKED_CONV,
  PACKED_CONV_DOTS,
  PACKED_WINOGRAD,
  PACKED_GEMM_WORDS
} packed_kind;
typedef struct pack_request {
  const bound_tensor *x;
  packed_kind kind;
  int64_t size[3]; /* what else the bytes depend on */
  size_t bytes;
} pack_request;
bool recorder_may_pack(const cl_recorder *recorder, const bound_tensor *tensor);
clave_status recorder_pack(cl_recorder *recorder, const pack_request *request, int *number,
                           cl_recorder **pack) STATUS_CHECK;
/* Returns the number of a packed weight that another node may request by x, kind and size. Until
 * then it is absent, which a kernel sees by IS_ABSENT (common.h). */
int recorder_packed_by_others(cl_recorder *recorder, const pack_request *request);

/* ---------------------------------------------------------------- launch */

enum { MAX_LAUNCH_DEFINES = 24 };

typedef enum define_kind { DEFINE_INT, DEFINE_DTYPE, DEFINE_BLOCKS, DEFINE_CODE } define_kind;
typedef struct launch_macro {
  const char *name; /* a string literal: compared by address */
  int32_t kind, value;
} launch_macro;

/* A source made at run time (elementwise): text of the file, whose kernel begins with the line
 * `__kernel void name() {`, and its signature. Called only when the launch is not in the node's
 * cache. args go into `args` (room for MAX_LAUNCH_ARGS; types are literals, names are copied). */
typedef clave_status (*launch_generator)(const void *ctx, text *source, arg_info *args,
                                         int *n_args);

typedef struct launch {
  cl_recorder *recorder;
  const node *node;
  const char *stem, *kernel; /* string literals: compared by address; NULL before launch_args */
  const kernel_signature *signature; /* NULL: generated */
  launch_macro macros[MAX_LAUNCH_DEFINES];
  launch_value values[MAX_LAUNCH_ARGS];
  int n_macros, n_values;
  bool wide, overflow;
  bool fast;                 /* the kernel may round less exactly */
  bool always_wide;          /* see device_traits */
  const char *standard;      /* of OpenCL C: "CL1.2" */
  launch_generator generate; /* NULL: kernels_cl/<stem>.cl */
  const void *generate_ctx;
} launch;

/* All names must be string literals. */
void launch_begin(launch *launch, cl_recorder *recorder, const node *node);
void launch_dtype(launch *launch, const char *name,
                  dtype t); /* -D name=F32: for STORAGE(), LOAD(), STORE() of common.h */
void launch_compute(launch *launch,
                    dtype t); /* -D COMPUTE: F32 for F32 F16 BF16, F64, I64 for integers and BOOL */
void launch_define(launch *launch, const char *name,
                   int value); /* -D name=value: flags and small enums, never shapes */
/* -D DOTS=kind, and the version of OpenCL C that it needs. */
void launch_dots(launch *launch, dots_kind kind);
void launch_subgroups(launch *launch, bool has); /* -D SUBGROUPS, and that version */
/* ENCODING and what of it decides how an encoded constant is decoded: encoded.h of kernels_cl. */
void launch_encoding(launch *launch, const encoding *encoding);
void launch_wide(
    launch *launch); /* index_t must be 64 bits (buffer_arg sees to it for its tensors) */

/* The kernel and its arguments: a pointer to one of the structs of kernel_args.h. */
#define launch_args(l, ...) launch_take(l, &kernel_signatures[KERNEL_OF(__VA_ARGS__)], __VA_ARGS__)
void launch_take(launch *launch, const kernel_signature *signature, const void *args);

/* After launch_args of the launch that stores all of the node's result, by a kernel that says
 * EPILOGUE behind its stores (common.h): it runs the node's epilogue, if there is one. */
void launch_epilogue(launch *launch);
/* The same where launches of one kernel each store a part of the result. last: none follows. */
void launch_epilogue_of_part(launch *launch, bool last);
/* What the op writes: out, but where its epilogue makes another dtype of the result scratch memory.
 * The same as launch_epilogue for such an op, by a kernel that says STORE_RESULT for its stores;
 * other launches leave the epilogue to one of its own. */
bound_tensor op_result(const cl_recorder *recorder, const bound_tensor *out);
void launch_epilogue_of_result(launch *launch);

/* Of all custom ops. */
extern const char custom_kernel_name[];

/* A kernel made at run time has no struct: its arguments follow each other in its order. */
void launch_generated(launch *launch, const char *name, launch_generator generate, const void *ctx);
void launch_push_buffer(launch *launch, arg_buffer buffer); /* two parameters */
void launch_push_int(launch *launch, int64_t value);
void launch_push_float(launch *launch, double value);
void launch_push_local(launch *launch, size_t bytes);
void launch_push_index8(launch *launch, arg_index8 index8);

/* Records. global counts work-items and is rounded up to a multiple of local: the kernel masks. A
 * zero size does nothing. */
clave_status launch_run(launch *launch, int dims, const size_t *global,
                        const size_t *local) STATUS_CHECK;
clave_status launch_items(launch *launch,
                          int64_t n) STATUS_CHECK; /* 1-D, n work-items, groups of LOCAL_SIZE */
clave_status launch_groups(launch *launch, int64_t groups,
                           size_t local) STATUS_CHECK; /* 1-D, `groups` groups of `local` */

#endif
