#ifndef BACKEND_OPENCL_PROGRAM_PROGRAM_H
#define BACKEND_OPENCL_PROGRAM_PROGRAM_H
/* Programs of a device: their source text, their builds in this process and in children, and the
 * launch classes whose results were compared. */
#include "backend/opencl/device/device.h"

typedef struct blas_call blas_call;       /* a product that CLBlast runs: launch/clblast.h */
typedef struct cl_recording cl_recording; /* launch/stream.h */

/* A launch without its buffers. */
typedef struct recorded_launch {
  kernel_program *program; /* NULL if CLBlast runs it */
  blas_call *blas;         /* owned; NULL if a kernel runs it */
  cl_recording *instead;   /* owned, only with blas: runs instead if CLBlast fails */
  const kernel_signature *signature;
  arg_places places;
  launch_value *values; /* owned (n_values), in the parameters' order */
  int n_values, dims;
  size_t global[3], local[3];
  size_t items[3]; /* `global` before it was rounded up */
  bool wide;
  dtype compute;  /* F32, F64 or I64: what `real` is */
  uint64_t class; /* see launch_class */
} recorded_launch;

/* Returns the work-items of a group. */
static inline size_t launch_group(const recorded_launch *launch) {
  return launch->local[0] * launch->local[1] * launch->local[2];
}

/* ---------------------------------------------------------------- sources.c */

/* Appends the text of one kernel of kernels_cl/<stem>.cl, or of a generated source. Includes are
 * expanded, and the kernel's head is written by args_write_head. */
clave_status source_of_kernel(const cl_device *device, const kernel_signature *signature,
                              text *out) STATUS_CHECK;
/* Appends a generated text, with its includes expanded and its kernel's head written. */
clave_status source_expand(const cl_device *device, const text *generated,
                           const kernel_signature *signature, text *out) STATUS_CHECK;

/* Embedded files, written by embed.py (build/gen/kernels_embed.c). */
typedef struct kernel_file {
  const char *name; /* "winograd.cl"; unique */
  const char *path; /* "conv/winograd.cl": path in kernels_cl and in a kernel folder */
  const unsigned char *bytes;
  size_t size;
} kernel_file;
extern const kernel_file kernel_files[];
extern const int n_kernel_files;

/* ---------------------------------------------------------------- args.c */

/* An argument in the form of clSetKernelArg. */
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
  const void *data; /* NULL for local memory */
} raw_arg;
/* Converts a value to the bytes of a parameter; buffers and values that change between runs have
 * none. Returns false if the value does not fit. */
bool launch_raw(const launch_value *value, arg_kind kind, bool wide, dtype compute, raw_arg *arg);
/* Checks that the kernel accepts the launch's values; the error names the first wrong one. */
clave_status launch_check(const launch *launch, const kernel_signature *signature,
                          dtype compute) STATUS_CHECK;

/* ---------------------------------------------------------------- shape_class.c */

/* Returns a hash of the kernel's name, the local size and the classes of the launch's sizes. */
uint64_t launch_class(const launch *launch, const kernel_signature *signature,
                      const size_t global[3], const size_t local[3]);

/* Operations on the set of classes whose results were right: proof_set of device.h. */
bool proof_set_has(const proof_set *set, uint64_t launch_class);
void proof_set_add(proof_set *set, uint64_t launch_class);

/* ---------------------------------------------------------------- programs.c */

/* The launch sizes that the driver compiles for, see quirk_large_grid. Such launches have separate
 * programs, because a program made from a binary returns the same binary again, without code
 * compiled since. All fields are 0 if the driver compiles once. */
typedef struct launch_variant {
  uint64_t local[3], is_large;
} launch_variant;
launch_variant variant_of(const cl_device *device, const size_t global[3], const size_t local[3]);

/* Finds or registers the program of a kernel and options, or a generated source. Builds nothing. */
clave_status program_find(cl_device *device, const launch *launch, const launch_variant *variant,
                          kernel_program **out) STATUS_CHECK;
/* Builds the program unless it is built, from the cache on disk if possible. Fails with UNSUPPORTED
 * if the driver's compiler rejects it, which is remembered. */
clave_status program_build(cl_device *device, kernel_program *program) STATUS_CHECK;
/* Creates a kernel, building the program if needed. The caller releases it. Fails with UNSUPPORTED
 * if the driver refuses, which is remembered. */
clave_status program_kernel(cl_device *device, kernel_program *program,
                            cl_kernel *out) STATUS_CHECK;
/* Remembers, for as long as the device is open, that the driver refused groups of `items`
 * work-items; 1: it refused the kernel. Returns `why`. */
clave_status program_refuse(kernel_program *program, size_t items, clave_status why) STATUS_CHECK;
/* True if the driver refused such groups, smaller ones, the kernel or its build. program_usable
 * returns UNSUPPORTED with the reason then. */
bool program_was_refused(const kernel_program *program, size_t items);
clave_status program_usable(kernel_program *program, size_t items) STATUS_CHECK;
/* Sends a note, once, that another kernel runs in place of a refused one. */
void program_note_replaced(cl_device *device, kernel_program *program);
const kernel_signature *program_signature(const kernel_program *program);
/* Notes that the driver accepted a launch in groups of `items` work-items, so that PoCL's binary
 * has code now. Returns true the first time. */
bool program_mark_run(kernel_program *program, size_t items);
/* True if such a launch, or one of larger groups, was accepted in this process: a later failure is
 * no refusal. */
bool program_has_launched(const kernel_program *program, size_t items);
/* Notes a launch. Returns true the first time in this process. */
bool program_first_launch(kernel_program *program);
/* True if results of this launch class were compared with the CPU backend's, now or when the binary
 * was saved. */
bool program_is_proven(kernel_program *program, uint64_t launch_class);
/* Notes that results of this launch class were right. */
void program_prove(kernel_program *program, uint64_t launch_class);
bool program_is_built(const kernel_program *program);
bool program_was_tried(const kernel_program *program); /* true if it is built or was refused */
/* Writes new binaries to the cache; never fails, may leave a note. */
void programs_save(cl_device *device);
bool programs_save_next(cl_device *device); /* saves one of them; false if all are saved */
/* Appends the binaries of all programs that have run here, in the format of binaries.h. */
clave_status programs_append(cl_device *device, text *to) STATUS_CHECK;
void programs_destroy(cl_device *device);

/* ---------------------------------------------------------------- orders and builders */

typedef struct order order; /* build_messages.h */
/* Records a launch that will be enqueued, so that builders compile for it too. */
void program_want(const cl_device *device, kernel_program *program, const recorded_launch *launch);
/* Fills in what a builder needs. texts: kernel, options and source, each NUL-terminated. Returns
 * false if the program is built, or its binary is on disk, or memory is out. */
bool program_order(cl_device *device, kernel_program *program, order *order, text *texts);
/* Finds or registers the program that an order describes; texts as in program_order. */
clave_status program_of_order(cl_device *device, const order *order, const char *const texts[3],
                              kernel_program **out) STATUS_CHECK;

/* Child processes that build kernels, where a driver builds one at a time in a process. They fill
 * the driver's own files, from which this process then loads, and the cache on disk. What they fail
 * to build is built here later. */
clave_status builders_create(builders **out) STATUS_CHECK;
void builders_destroy(builders *builders); /* accepts NULL */
/* Returns the number of programs tried, once they are built or cannot be built by children. Runs at
 * most `most` children. progress counts n further steps, which the caller does, and may be called
 * twice for a step. Once it returns false, children that still build are ended. */
int builders_build(cl_device *device, kernel_program *const *programs, int n, int most,
                   build_progress progress, void *ctx);
/* Waits until the children have kept all binaries. */
void builders_wait(cl_device *device);
/* Call it after a run: children may save what they built. Reaps those that have ended. */
void builders_reap(cl_device *device);

#endif
