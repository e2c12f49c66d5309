#ifndef BACKEND_OPENCL_PROGRAM_PROGRAM_H
#define BACKEND_OPENCL_PROGRAM_PROGRAM_H
/* Programs of a device: their source text, their builds in this process and in children, the
 * classes of launches whose results were compared. */
#include "backend/opencl/device/device.h"

typedef struct blas_call blas_call;       /* a product that CLBlast runs: launch/clblast.h */
typedef struct cl_recording cl_recording; /* launch/stream.h */

/* A launch but for the buffers. */
typedef struct recorded_launch {
  kernel_program *program; /* NULL: CLBlast's */
  blas_call *blas;         /* owned; or NULL */
  cl_recording *instead;   /* owned, of blas: what runs where CLBlast fails */
  const kernel_signature *signature;
  arg_places places;
  launch_value *values; /* owned (n_values), in the parameters' order */
  int n_values, dims;
  size_t global[3], local[3];
  size_t items[3]; /* those of `global` that the op asked for */
  bool wide;
  dtype compute;  /* F32, F64 or I64: what `real` is */
  uint64_t class; /* see launch_class */
} recorded_launch;

/* ---------------------------------------------------------------- sources.c */

/* Text of one kernel of kernels_cl/<stem>.cl, or of a generated source, with the includes written
 * out, and the kernel's head as args_write_head has it. */
clave_status source_of_kernel(const cl_device *device, const kernel_signature *signature,
                              text *out) STATUS_CHECK;
clave_status source_expand(const cl_device *device, const text *generated,
                           const kernel_signature *signature, text *out) STATUS_CHECK;

/* Embedded files, written by embed.py (build/gen/kernels_embed.c). */
typedef struct kernel_file {
  const char *name; /* "winograd.cl": no two files have the same */
  const char *path; /* "conv/winograd.cl": in a kernel folder, as in kernels_cl */
  const unsigned char *bytes;
  size_t size;
} kernel_file;
extern const kernel_file kernel_files[];
extern const int n_kernel_files;

/* ---------------------------------------------------------------- args.c */

/* An argument as clSetKernelArg takes it. */
typedef struct raw_arg {
  union {
    int32_t i;
    int64_t l;
    float f;
    double d;
    int32_t i8[8];
    int64_t l8[8];
  } as;
  size_t size;
  const void *data; /* NULL: local memory */
} raw_arg;
/* The bytes of a value for a parameter; of buffers and what changes by run there are none. False:
 * it does not fit. */
bool launch_raw(const launch_value *value, arg_kind kind, bool wide, dtype compute, raw_arg *out);
/* Whether the values are those that the kernel takes; says which is not. */
clave_status launch_check(const launch *launch, const kernel_signature *signature,
                          dtype compute) STATUS_CHECK;

/* ---------------------------------------------------------------- shape_class.c */

/* A hash of the kernel's name, local size and the classes of the sizes it is launched with. */
uint64_t launch_class(const launch *launch, const kernel_signature *signature,
                      const size_t global[3], const size_t local[3]);

/* Classes whose results were right: proof_set of device.h. */
bool proof_set_has(const proof_set *set, uint64_t launch_class);
void proof_set_add(proof_set *set, uint64_t launch_class);

/* ---------------------------------------------------------------- programs.c */

/* What of a launch's sizes the driver compiles for, see quirk_large_grid: such launches have a
 * program of their own, since one made from a binary gives that binary again, without what was
 * compiled since. All 0 where a driver compiles once. */
typedef struct launch_variant {
  uint64_t local[3], is_large;
} launch_variant;
launch_variant variant_of(const cl_device *device, const size_t global[3], const size_t local[3]);

/* The program of a kernel and its options, or of a generated source. Made known, not built. */
clave_status program_find(cl_device *device, const launch *launch, const launch_variant *variant,
                          kernel_program **out) STATUS_CHECK;
/* Builds it unless that was done, from the cache on disk if it is there. UNSUPPORTED: the driver's
 * compiler does not take it, which is remembered. */
clave_status program_build(cl_device *device, kernel_program *program) STATUS_CHECK;
/* Its kernel, built if need be. The caller releases it. */
clave_status program_kernel(cl_device *device, kernel_program *program,
                            cl_kernel *out) STATUS_CHECK;
const kernel_signature *program_signature(const kernel_program *program);
/* It was launched: PoCL's binary holds code now. True: that is not yet in the cache on disk. */
bool program_mark_run(kernel_program *program);
/* It is launched: true the first time in this process. */
bool program_first_launch(kernel_program *program);
/* Whether results of launches of that class were compared with the CPU backend's, now or when the
 * binary was kept. */
bool program_is_proven(kernel_program *program, uint64_t launch_class);
void program_prove(kernel_program *program, uint64_t launch_class);
bool program_is_built(const kernel_program *program);
bool program_was_tried(const kernel_program *program); /* it is built, or was refused */
void programs_save(
    cl_device *device); /* writes new binaries to the cache; never fails, may leave a note */
bool programs_save_next(cl_device *device); /* one of them; false: all are there */
/* Appends the binaries of all that have run in this process, as binaries.h has them. */
clave_status programs_append(cl_device *device, text *to) STATUS_CHECK;
void programs_destroy(cl_device *device);

/* ---------------------------------------------------------------- orders: programs.c, builders.c
 */

typedef struct order order; /* build_messages.h */
/* A launch that will be enqueued: builders make it, too. */
void program_want(const cl_device *device, kernel_program *program, const recorded_launch *launch);
/* What a builder needs to know. texts: kernel, options, source, each with its NUL. False: it is
 * built, or in the cache on disk, or memory is out. */
bool program_order(cl_device *device, kernel_program *program, order *order, text *texts);
clave_status program_of_order(cl_device *device, const order *order, const char *const texts[3],
                              kernel_program **out) STATUS_CHECK;

/* Child processes that build kernels, where a driver builds one at a time in a process: they fill
 * the driver's own files, from which this process then loads, and the cache on disk. Whatever they
 * do not do is done here, later. */
clave_status builders_create(builders **out) STATUS_CHECK;
void builders_destroy(builders *builders); /* takes NULL */
/* Returns when the programs are built, or cannot be there: how many were tried. At most `most`
 * children; progress counts n steps more, which follow, may be called twice for a step, and once
 * it says false the children that still build are ended. */
int builders_build(cl_device *device, kernel_program *const *programs, int n, int most,
                   build_progress progress, void *ctx);
/* Waits until the children have kept all binaries. */
void builders_wait(cl_device *device);
/* A run is over: they may keep what they built. Takes leave of those that have ended. */
void builders_reap(cl_device *device);

#endif
