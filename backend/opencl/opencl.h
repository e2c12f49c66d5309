#ifndef BACKEND_OPENCL_OPENCL_H
#define BACKEND_OPENCL_OPENCL_H
/* The interface for op families of the OpenCL backend: the recorder, and the launch, which is the
 * only way to run a kernel. A family consists of backend/opencl/ops/<family>.c with `clave_status
 * opencl_<op>(cl_recorder *recorder, const node *node)` and kernels_cl/<family>.cl. Include
 * "opencl_ops.h" (generated) for the prototypes.
 *
 *   clave_status opencl_softmax(cl_recorder *recorder, const node *node) {
 *     const ir_softmax *op = node->instruction->op;
 *     const bound_tensor *x = &node->tensors[op->x], *out = &node->tensors[op->out];
 *     ...
 *     launch launch;
 *     launch_begin(&launch, recorder, node);
 *     launch_dtype(&launch, "X_TYPE", x->tensor.type);  // program key: dtypes and flags, no shapes
 *     launch_compute(&launch, x->tensor.type);          // COMPUTE: what `real` is in the kernel
 *     launch_define(&launch, "LOG", op->log);
 *     launch_args(&launch, &(softmax_args){.x = buffer_arg(x),
 *                                          .out = buffer_arg(out),
 *                                          .kept_dims = dims_arg(&kept[0]),  // index8
 *                                          .x_strides = strides_arg(&kept[0]),
 *                                          .out_strides = strides_arg(&kept[1]),
 *                                          .groups = items,  // int, uint, long, ulong or index_t
 *                                          ...});
 *     return launch_items(&launch, items);  // one dimension; the kernel masks by `groups`
 *   }
 *
 * The type softmax_args selects the kernel `softmax` (of kernels_cl/softmax.cl) and has a field for
 * each of its parameters. The build generates such a struct for each kernel (kernel_args.h) and
 * refuses an initialiser that leaves a field out. A pointer `x` with its `x_offset` is one field. A
 * macro NAME_PARAMS of several parameters is one field `name` of type name_params, for kernels that
 * share them. FAULT_PARAMS, which come last, and RANDOM_PARAMS are bound automatically.
 *
 * The op function runs once for a schedule and records its launches. Streams then run them with the
 * current buffers of the slots (submit.c); the node's tensors have types and slots only. No error
 * checks are needed until launch_run/items/groups, which name the kernel and the first parameter
 * that cannot hold its value. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend/backend.h"
#include "base/memory.h"
#include "kernel_args.h"

typedef struct cl_device cl_device;     /* backend: one opened device */
typedef struct cl_recorder cl_recorder; /* collects the launches of one node */

/* Records the launches of a node. UNSUPPORTED if no kernel can run it. */
typedef clave_status (*opencl_op)(cl_recorder *recorder, const node *node);
extern const opencl_op opencl_table[IR_OP_COUNT]; /* generated */

/* Device properties by which op functions choose variants. ON_CPU of kernels is 0 or 1. */
typedef struct device_traits {
  bool is_cpu;  /* true for cores with vector units, on which a few looping work-items are fastest;
                   a GPU needs thousands of short ones */
  bool is_gpu;  /* true if the device type is GPU; a CPU device may have neither flag */
  bool is_slow; /* launches are split as for a slow device; for tests */
  bool always_wide; /* use 64-bit indices even where 32 bits suffice; for tests */
  bool has_fp64;
  bool has_fma;        /* CL_FP_FMA: fma() of floats is one instruction, not a function */
  bool has_half;       /* cl_khr_fp16: kernels may compute with halves */
  bool doubles_halves; /* halves are computed at a higher rate than floats */
  bool shares_host_memory;
  uint32_t compute_units;
  uint32_t capability;   /* compute capability of an NVIDIA GPU, 86 for 8.6; 0: unknown */
  uint32_t min_lanes;    /* smallest size of a sub-group; 0: unknown */
  uint32_t registers;    /* registers per lane, which all waves share; UINT32_MAX: enough */
  uint32_t vector_width; /* floats per register: 4, 8 or 16 */
  bool opencl_3;         /* OpenCL version 3.0 or later */
  size_t max_local;      /* maximum work-items per group; >= LOCAL_SIZE unless is_cpu */
  size_t max_groups;     /* maximum groups per launch in the second and third dimension */
  uint64_t local_memory; /* bytes */
  uint64_t max_alloc;
  uint64_t image_texels; /* maximum texels of 16 bytes in an image of a buffer; 0: no images */
  bool reads_images;     /* constants are faster as images than as buffers */
  bool shares_badly;     /* local memory is as slow as global memory */
} device_traits;
enum { TEXEL_BYTES = 16 };
const device_traits *recorder_traits(const cl_recorder *recorder);
/* True if a launch may have n groups of work-items in its second or third dimension. */
bool recorder_accepts_work_groups(const cl_recorder *recorder, int64_t n);
/* True if CLAVE_PRECISION allows less exact kernels. */
bool recorder_is_fast(const cl_recorder *recorder);
void recorder_rounds(cl_recorder *recorder, rounding how); /* sets recording.rounds */
/* How kernels sum products of bytes (kernels_cl/support/add_dots.h). */
typedef enum dots_kind {
  DOTS_BYTES,
  DOTS_PACKED,
  DOTS_PACKED_SIGNED,
  DOTS_NVIDIA,
  DOTS_AMD,
  DOTS_ARM,
  DOTS_QUALCOMM,
  DOTS_SIGNED
} dots_kind;
/* Sets *out to the fastest kind that the device computes correctly. */
clave_status recorder_dots(const cl_recorder *recorder, dots_kind *out) STATUS_CHECK;
/* Sets *out to true if kernels may add sums of a work-group by sub-group instructions
 * (kernels_cl/support/subgroups.h). */
clave_status recorder_has_subgroups(const cl_recorder *recorder, bool *out) STATUS_CHECK;
/* The ways in which kernels compute with halves, as in kernels_cl/support/halves.h. */
typedef enum halves_kind { HALVES_NONE, HALVES_DEVICE, HALVES_FLOATS } halves_kind;
/* Sets *out to the way in which kernels may compute with halves. It is HALVES_NONE in strict
 * precision, and if floats are as fast. */
clave_status recorder_halves(const cl_recorder *recorder, halves_kind *out) STATUS_CHECK;
/* The instructions that multiply blocks of F16, BF16 or bytes, as in
 * kernels_cl/support/mma_units.h. */
typedef enum mma_kind {
  MMA_NONE,
  MMA_LDMATRIX,
  MMA_SYNC,
  MMA_TURING,
  MMA_WMMA_11,
  MMA_WMMA_12,
  MMA_MFMA,
  MMA_DPAS_8,
  MMA_DPAS_16,
  MMA_KINDS
} mma_kind;
/* A matrix unit. Everything except `emulated` follows from the kind. */
typedef struct mma_unit {
  mma_kind kind;
  bool emulated; /* computed in OpenCL C: for tests */
  bool has_bf16;
  uint8_t lanes;         /* work-items of a sub-group that multiply together */
  uint8_t rows, columns; /* the shape of a block of the result */
  uint8_t warps[2][2]; /* sub-groups along m and n in a tile of 64 x 64, and in one of 128 x 128 */
} mma_unit;
/* Sets *out to the fastest unit of the device that computes correctly; its kind may be MMA_NONE. */
clave_status recorder_mma(const cl_recorder *recorder, mma_unit *out) STATUS_CHECK;
/* Does the same for products of bytes (kernels_cl/support/mma_codes.h). */
clave_status recorder_mma_codes(const cl_recorder *recorder, mma_unit *out) STATUS_CHECK;
const char *recorder_type(const cl_recorder *recorder); /* the device's type: "CPU", "GPU", ... */

/* Select the variant of a family to record, see base/tuning.h. The key has the properties that
 * decide which variant is fastest: sizes, dtypes, and which operands are constant. */
tuning_key recorder_key(const cl_recorder *recorder);
const kernel_variant *recorder_choose(cl_recorder *recorder, const variants *all,
                                      const tuning_key *key);

/* The local size of launch_items, and the maximum for other launches. A device with smaller groups
 * runs the kernels for CPUs, which work with any group size. Use only the sizes 1, 16 and 64,
 * because PoCL compiles a kernel again for each local size. */
enum { LOCAL_SIZE = 64 };

/* Requests `bytes` of scratch memory, which all launches of this op share. */
clave_status recorder_scratch(cl_recorder *recorder, size_t bytes) STATUS_CHECK;

/* Requests a packed constant operand, once per device. Right after recorder_pack, the op records
 * the packing launches with the recorder *pack. They write `bytes` of scratch memory from offset 0
 * on, which their recorder_scratch request includes. They must read only x, and their result must
 * depend only on x, kind and size. Pass *number to packed_arg; equal packed weights are shared.
 * recorder_may_pack is false if x is not constant, or the op has no packed weight left. */
typedef enum packed_kind {
  PACKED_GEMM_A,
  PACKED_GEMM_B,
  PACKED_GEMM_CODES,
  PACKED_CONV,
  PACKED_CONV_DOTS,
  PACKED_WINOGRAD,
  PACKED_GEMM_TEXELS,
  PACKED_GEMM_HALVES
} packed_kind;
typedef struct pack_request {
  const bound_tensor *x; /* the constant */
  packed_kind kind;
  int64_t size[3]; /* other values that the packed bytes depend on */
  size_t bytes;
} pack_request;
bool recorder_may_pack(const cl_recorder *recorder, const bound_tensor *tensor);
clave_status recorder_pack(cl_recorder *recorder, const pack_request *request, int *number,
                           cl_recorder **pack) STATUS_CHECK;
/* Returns the number of a packed weight that only another node packs, for the same x, kind and
 * size. Until then it is absent, which a kernel checks by IS_ABSENT (common.h). */
int recorder_packed_by_others(cl_recorder *recorder, const pack_request *request);

/* ---------------------------------------------------------------- launch */

enum { MAX_LAUNCH_DEFINES = 24 };

typedef enum define_kind { DEFINE_INT, DEFINE_DTYPE, DEFINE_BLOCKS, DEFINE_CODE } define_kind;
typedef struct launch_macro {
  const char *name; /* a string literal: compared by address */
  int32_t kind, value;
} launch_macro;

/* Generates the source of a kernel at run time (elementwise): the text of the file, whose kernel
 * begins with the line `__kernel void name() {`, and its signature. Called only if the node's cache
 * lacks the program. `args` has room for MAX_LAUNCH_ARGS; types are literals, names are copied. */
typedef clave_status (*launch_generator)(const void *ctx, text *source, arg_info *args,
                                         int *n_args);

typedef struct launch {
  cl_recorder *recorder;
  const node *node;
  const char *stem, *kernel; /* string literals: compared by address; NULL before launch_args */
  const kernel_signature *signature; /* NULL if generated */
  launch_macro macros[MAX_LAUNCH_DEFINES];
  launch_value values[MAX_LAUNCH_ARGS];
  int n_macros, n_values;
  bool wide, overflow;       /* index_t has 64 bits; too many macros or values (launch_run fails) */
  bool fast;                 /* the kernel may round less exactly */
  bool always_wide;          /* see device_traits */
  const char *standard;      /* version of OpenCL C: "CL1.2" */
  launch_generator generate; /* NULL for kernels_cl/<stem>.cl */
  const void *generate_ctx;
} launch;

/* All names passed to these functions must be string literals. */
void launch_begin(launch *launch, cl_recorder *recorder, const node *node);
/* -D name=F32: for STORAGE(), LOAD(), STORE() of common.h. */
void launch_dtype(launch *launch, const char *name, dtype t);
/* -D COMPUTE: F32 for F32 F16 BF16, F64, I64 for integers and BOOL. */
void launch_compute(launch *launch, dtype t);
/* -D name=value: flags and small enums, never shapes. */
void launch_define(launch *launch, const char *name, int value);
/* -D MMA=kind and the other macros of mma.h. */
void launch_mma(launch *launch, const mma_unit *unit);
/* -D HALVES_BY=kind. */
void launch_halves(launch *launch, halves_kind kind);
/* -D DOTS=kind; also selects the version of OpenCL C that it needs. */
void launch_dots(launch *launch, dots_kind kind);
/* -D SUBGROUPS=has; also selects the version of OpenCL C that it needs. */
void launch_subgroups(launch *launch, bool has);
/* Defines the macros by which a kernel decodes a constant: encoded.h of kernels_cl. */
void launch_encoding(launch *launch, const encoding *encoding);
void launch_wide(launch *launch); /* makes index_t 64 bits (buffer_arg does so for its tensors) */

/* Sets the kernel and its arguments from a pointer to one of the structs of kernel_args.h. */
#define launch_args(l, ...) \
  launch_set_args(l, &kernel_signatures[KERNEL_OF(__VA_ARGS__)], __VA_ARGS__)
void launch_set_args(launch *launch, const kernel_signature *signature, const void *args);

/* Makes the launch run the node's epilogue, if any. Call it after launch_args. The kernel must
 * store the whole result, and invoke EPILOGUE after its stores (common.h). */
void launch_epilogue(launch *launch);
/* Like launch_epilogue, for one of several launches that each store some of the result. */
void launch_epilogue_of_part(launch *launch, bool last);
/* Returns the tensor that the op writes: `out`, or a result in scratch memory if the epilogue
 * changes its dtype. launch_epilogue_of_result is launch_epilogue for such an op, with a kernel
 * that stores by STORE_RESULT. After other launches a separate launch runs the epilogue. */
bound_tensor op_result(const cl_recorder *recorder, const bound_tensor *out);
void launch_epilogue_of_result(launch *launch);

/* The kernel name of all custom ops. */
extern const char custom_kernel_name[];

/* Selects a kernel that is generated at run time. It has no struct: push its arguments in order. */
void launch_generated(launch *launch, const char *name, launch_generator generate, const void *ctx);
void launch_push_buffer(launch *launch, arg_buffer buffer); /* sets two parameters */
void launch_push_int(launch *launch, int64_t value);
void launch_push_float(launch *launch, double value);
void launch_push_local(launch *launch, size_t bytes);
void launch_push_index8(launch *launch, arg_index8 index8);

/* Records the launch. global: work-items, rounded up to a multiple of local; the kernel must ignore
 * the excess. Records nothing if a size is zero. */
clave_status launch_run(launch *launch, int dims, const size_t *global,
                        const size_t *local) STATUS_CHECK;
/* Records a 1-D launch of n work-items in groups of LOCAL_SIZE. */
clave_status launch_items(launch *launch, int64_t n) STATUS_CHECK;
/* Records a 1-D launch of `groups` groups of `local` work-items. */
clave_status launch_groups(launch *launch, int64_t groups, size_t local) STATUS_CHECK;

#endif
