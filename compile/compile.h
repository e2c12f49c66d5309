#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H
/* Compiles programs to executables with the system's compiler, in one of two ways. Emitted: the CPU
 * backend's schedule of a method with fixed sizes is written as C, together with the sources of its
 * kernels; with open sizes, its instructions and the sources of the planner are written instead.
 * Carried: the unchanged program is embedded and linked with the library. */
#include "backend/backend.h"
#include "base/tuning.h"
#include "serialize/program.h"

/* Fixes an open size or a scalar input. */
typedef struct compile_dim {
  const char *name;
  int64_t size;
} compile_dim;

typedef struct compile_options {
  const char *name; /* program name shown in the executable's help */
  uint32_t method;
  const compile_dim *dims; /* (n_dims) */
  uint32_t n_dims;
  const char *compiler; /* command with its arguments, separated by spaces */
  const char *runtime;  /* path of libclave.a for carried programs; NULL: the one that belongs to
                           this library */
  bool is_opencl;       /* targets OpenCL devices; carried */
  bool all_methods;     /* compile all methods, not only `method`; carried */
  bool text;            /* a language model with the command line of clave generate; carried */
  bool allow_custom_kernels;
  bool is_portable;    /* runs on all processors: no optional instruction sets */
  const char *march;   /* NULL: the compiler's default, with kernels chosen at run time */
  const char *library; /* builds a shared library whose function names have this prefix; or NULL */
  bool bare;           /* with library: builds an object with one function for firmware instead */
  int n_threads;       /* 0: chosen at start; negative: only the caller's thread */
  bool static_memory;  /* one static buffer and no allocation */
  const char *kernel_dir; /* folder of sources that replace ours of the same names; or NULL */
  bool verify;            /* embeds expected results on random inputs */
  const char *sbom;       /* output file of the software bill of materials; or NULL */
  size_t *memory_bytes;   /* set to the size of the buffer; may be NULL */
  bool debug, keep_build;
  bool packed_only;  /* embeds weights that kernels read packed in packed layout only */
  backend *binaries; /* borrowed OpenCL device whose kernel binaries are embedded; or NULL */
  tuning *tuning;    /* borrowed; choices for the CPU backend or the OpenCL device; NULL: default
                        choices */
  const char
      *tuned_for; /* with tuning: the device that its rows are for, as in clave_tuning_device */
  /* Receives the compiler's output, and why a program is carried; may be NULL. */
  void (*message)(void *ctx, const char *line);
  void (*progress)(void *ctx, const char *what, int done, int total); /* may be NULL */
  bool (*cancel)(void *ctx); /* return true to stop the build; may be NULL */
  void *ctx;
} compile_options;

/* True if the name can be the prefix of a library's function names. */
bool is_library_name(const char *name);
/* Writes sources and a Makefile to `folder`, which is created if absent and must be empty. */
clave_status compile_sources(const program *program, const compile_options *options,
                             const char *folder) STATUS_CHECK;
/* Builds an executable at `path`, or a library and LIBRARY.h beside it, atomically. The build
 * folder, PATH.build, is removed unless keep_build is set. */
clave_status compile_executable(const program *program, const compile_options *options,
                                const char *path) STATUS_CHECK;

#endif
