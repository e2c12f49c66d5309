#ifndef BACKEND_OPENCL_PROGRAM_PROGRAM_H
#define BACKEND_OPENCL_PROGRAM_PROGRAM_H
/* Programs of a device: their source text, their builds in this process and in child processes, and
 * the launch classes whose results were compared. */
#include "backend/opencl/device/device.h"

typedef struct blas_call blas_call;       /* a product that CLBlast runs: launch/clblast.h */
typedef struct cl_recording cl_recording; /* launch/stream.h */

/* A launch as recorded, without buffers. */
typedef struct recorded_launch {
  kernel_program *program; /* NULL if CLBlast runs it */
  blas_call *blas;         /* owned; NULL if a kernel runs it */
  cl_recording *instead;   /* owned, set only with blas: runs if CLBlast fails */
  const kernel_signature *signature;
  arg_places places;
  launch_value *values; /* owned (n_values), in the parameters' order */
  int n_values, dims;
  size_t global[3], local[3];
  size_t items[3]; /* `global` before it was rounded up */
  bool wide;
  dtype compute;        /* F32, F64 or I64: what `real` is */
  uint64_t class;       /* see launch_class */
  int64_t estimated_ns; /* time of the whole node, see estimate_work */
  size_t n_splits;      /* launches into which it is split, see split_launch; 0 and 1: not split */
  int split_dim;
} recorded_launch;

/* Returns the work-items of a group. */
static inline size_t launch_group(const recorded_launch *launch) {
  return launch->local[0] * launch->local[1] * launch->local[2];
}

/* ---------------------------------------------------------------- sources.c */

/* A request for the text of a kernel. */
typedef struct kernel_request {
  const cl_device *device;
  const kernel_signature *signature;
  const uint64_t *group; /* as in args_write_head */
  const char *header;    /* file of build_options.header, or NULL */
} kernel_request;
/* Appends the text of one kernel of kernels_cl/<stem>.cl, or of a generated source. Includes are
 * expanded, and the kernel's head is written by args_write_head. */
clave_status source_of_kernel(const kernel_request *kernel, text *out) STATUS_CHECK;
/* Appends a generated text, with its includes expanded and its kernel's head written. */
clave_status source_expand(const kernel_request *kernel, const text *generated,
                           text *out) STATUS_CHECK;

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
/* Converts a value to the bytes of a parameter; buffers and values that change between runs are not
 * converted. Returns false if the value does not fit. */
bool launch_raw(const launch_value *value, arg_kind kind, bool wide, dtype compute, raw_arg *arg);
/* Checks that the kernel accepts the launch's values; the error names the first wrong one. */
clave_status launch_check(const launch *launch, const kernel_signature *signature,
                          dtype compute) STATUS_CHECK;

/* ---------------------------------------------------------------- shape_class.c */

/* Returns a hash of the kernel's name, the local size and the classes of the launch's sizes. */
uint64_t launch_class(const launch *launch, const kernel_signature *signature,
                      const size_t global[3], const size_t local[3]);

/* Operations on proof_set of device.h, the set of launch classes whose results were right. */
bool proof_set_has(const proof_set *set, uint64_t launch_class);
void proof_set_add(proof_set *set, uint64_t launch_class);

/* ---------------------------------------------------------------- programs.c */

/* The launch sizes that a program is compiled for. Kernels for GPUs declare their local size, so
 * each local size has a separate program. Some drivers compile for more sizes, see
 * quirk_large_grid: a program made from a binary returns this binary again, without code that was
 * compiled since. All fields are 0 if one program serves all launches. */
typedef struct launch_variant {
  uint64_t local[3], is_large;
} launch_variant;
launch_variant variant_of(const cl_device *device, const size_t global[3], const size_t local[3]);

/* Finds or registers the program of a kernel and options, or a generated source. Builds nothing. */
clave_status program_find(cl_device *device, const launch *launch, const launch_variant *variant,
                          kernel_program **out) STATUS_CHECK;
/* Builds the program in this process unless it is built, from the cache on disk if possible. */
clave_status program_build_here(cl_device *device, kernel_program *program) STATUS_CHECK;
/* Loads the program's binary from the cache and releases it again, as a trial of the driver. */
void program_load_saved(cl_device *device, kernel_program *program);
/* Returns a program's binary, which the caller frees, after loading it as a trial of the driver.
 * *size is 0 if none exists or the driver does not accept it. */
unsigned char *program_get_binary(cl_device *device, kernel_program *program, size_t *size);
/* Creates a kernel of a program that is built. */
clave_status program_create_kernel(cl_device *device, kernel_program *program,
                                   cl_kernel *out) STATUS_CHECK;
/* Remembers, for as long as the device is open, that the driver refused groups of `items`
 * work-items; 1: it refused the kernel. Returns `why`. */
clave_status program_refuse(kernel_program *program, size_t items, clave_status why) STATUS_CHECK;
/* True if the driver refused groups of `items` work-items, smaller groups, the kernel or its build.
 * program_usable returns UNSUPPORTED with the reason if so. */
bool program_was_refused(const kernel_program *program, size_t items);
clave_status program_usable(kernel_program *program, size_t items) STATUS_CHECK;
/* Sends a note, once, that another kernel replaces the refused program. */
void program_note_replaced(cl_device *device, kernel_program *program);
const kernel_signature *program_signature(const kernel_program *program);
/* Records that the driver accepted a launch in groups of `items` work-items, after which PoCL's
 * binary contains code. Returns true the first time. */
bool program_mark_run(kernel_program *program, size_t items);
/* True if such a launch, or one with larger groups, was accepted in this process. A later failure
 * is then not a refusal. */
bool program_has_launched(const kernel_program *program, size_t items);
/* Records a launch. Returns true the first time in this process. */
bool program_first_launch(kernel_program *program);
/* True if results of this launch class were right in the comparison with the CPU backend's, in this
 * process or before the binary was saved. */
bool program_is_proven(kernel_program *program, uint64_t launch_class);
/* Records that results of this launch class were right. */
void program_prove(kernel_program *program, uint64_t launch_class);
bool program_is_built(const kernel_program *program);
bool program_was_tried(const kernel_program *program); /* true if it is built or was refused */
/* Writes new binaries to the cache. Never fails, but may leave a note. */
void programs_save(cl_device *device);
/* Saves that the driver accepted the program, and the program's binary if there is one. */
void program_save_accepted(cl_device *device, kernel_program *program);
bool programs_save_next(cl_device *device); /* saves one new binary; false if all are saved */
/* Appends the binaries of all programs that have run here, in the format of binaries.h. */
clave_status programs_append(cl_device *device, text *to) STATUS_CHECK;
void programs_destroy(cl_device *device);

/* ---------------------------------------------------------------- contact.c */

/* Builds the program unless it is built. If it is new to the driver, a child process tries it
 * first. UNSUPPORTED: the driver's compiler rejects it or crashes, which is remembered. */
clave_status program_build(cl_device *device, kernel_program *program) STATUS_CHECK;
/* Creates a kernel, which the caller releases; builds the program if needed. Fails with UNSUPPORTED
 * if the driver refuses it, which is remembered. */
clave_status program_kernel(cl_device *device, kernel_program *program,
                            cl_kernel *out) STATUS_CHECK;

/* ---------------------------------------------------------------- trials.c: the first contact */

/* A driver may crash or hang when it gets a program for the first time. Therefore a child process
 * tries the program. If no child can be started, a mark on disk exists while this process tries it;
 * if the mark remains, later processes refuse the program. */

extern const char trial_has_ended[]; /* the reason of a mark that an ended process left */
/* Sets *seconds to the time limit of a trial: CLAVE_BUILD_TIMEOUT, else a minute, also on error. */
clave_status trials_timeout(int *seconds) STATUS_CHECK;
/* Sets the device's members for trials. builds_here: this process is such a child. */
clave_status trials_prepare(cl_device *device, bool builds_here) STATUS_CHECK;
/* True if the driver is trusted or has accepted the program before, in this process or an earlier
 * one. The caller holds the program's lock, and the key is known. */
bool trial_is_over(const cl_device *device, kernel_program *program);
/* True if the program must not be tried, because it crashed the driver; sets program->refusal. The
 * caller holds the lock. */
bool trial_was_refused(cl_device *device, kernel_program *program);
/* Marks the program as being tried, unless it is marked or its trial is over. *began: call
 * trial_end. Fails with UNSUPPORTED if an earlier process ended in the driver. Sets *skips if it
 * was loading a binary, which must not be used. The caller holds the lock. */
clave_status trial_begin(cl_device *device, kernel_program *program, bool *began,
                         bool *skips) STATUS_CHECK;
void trial_end(const cl_device *device, kernel_program *program);
/* Like trial_begin and trial_end, but lock the program, for calls of the driver after the build.
 * program_end_try completes the trial. */
clave_status program_try(cl_device *device, kernel_program *program, bool *began) STATUS_CHECK;
void program_end_try(const cl_device *device, kernel_program *program);
/* Records that a child tried the program without crashing. binary: the child's binary (size bytes),
 * which is copied; size may be 0. */
void program_accepted(const cl_device *device, kernel_program *program, const char *binary,
                      size_t size);
/* Refuses a program whose trial ended a child. lasts: in later processes, too. If the cache has its
 * binary, only removes this the first time and returns false: the source may be right. */
bool program_fail_trial(cl_device *device, kernel_program *program, const char *reason, bool lasts);
bool program_may_retry(kernel_program *program); /* true once. Under the lock of builders */

/* ---------------------------------------------------------------- orders and builders */

typedef struct order order; /* build_messages.h */
/* Records a launch that will be enqueued, so that builders compile for its sizes. */
void program_set_order(const cl_device *device, kernel_program *program,
                       const recorded_launch *launch);
/* Makes the order for the program a trial of an instruction (instructions.c). */
void program_set_trial(kernel_program *program, int instruction);
/* Fills in an order for a builder. texts: kernel, options and source, each NUL-terminated. Returns
 * false if the program is built or refused, if its trial is over, or if memory runs out. */
bool program_order(cl_device *device, kernel_program *program, order *order, text *texts);
/* Finds or registers the program that an order describes; texts as in program_order. */
clave_status program_of_order(cl_device *device, const order *order, const char *const texts[3],
                              kernel_program **out) STATUS_CHECK;

/* Child processes that build kernels for drivers that build one at a time in a process, and for
 * trials of new programs. They fill the cache on disk and the driver's own files, from which this
 * process loads. It also builds what children fail to build without crashing. */
clave_status builders_create(builders **out) STATUS_CHECK;
void builders_destroy(builders *builders); /* accepts NULL */
/* Builds programs in at most `most` children. Returns the number of programs that were tried.
 * progress counts n steps, further than these, that the caller does; it may be called twice for a
 * step. Once it returns false, busy children are ended. */
int builders_build(cl_device *device, kernel_program *const *programs, int n, int most,
                   build_progress progress, void *ctx);
/* Waits until the children have saved all binaries. */
void builders_wait(cl_device *device);
/* Call it after a run: children may now save what they built. Reaps children that have ended. */
void builders_reap(cl_device *device);

#endif
