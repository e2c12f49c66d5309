#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H
/* Programs as executables, built by the system's compiler, in one of two forms. Written out: a
 * method's schedule for fixed sizes on the CPU backend, printed as C, with the sources of the
 * kernels that it runs; or, for open sizes, its instructions, with the sources that make schedules
 * of them. Carried: the program as it is, linked with the library. */
#include "backend/backend.h"
#include "base/tuning.h"
#include "serialize/program.h"

/* The size of that name, or of a scalar's, is fixed. */
typedef struct compile_dim {
  const char *name;
  int64_t size;
} compile_dim;

typedef struct compile_options {
  const char *name; /* of the program, for the executable's help */
  uint32_t method;
  const compile_dim *dims; /* (n_dims) */
  uint32_t n_dims;
  const char *compiler; /* with arguments, separated by spaces */
  const char *runtime;  /* libclave.a, for programs that are carried; NULL: the one that belongs to
                           this library */
  bool is_opencl;       /* runs on OpenCL devices: carried */
  bool all_methods;     /* not `method` alone: carried */
  bool text;            /* a language model with the command line of clave generate: carried */
  bool allow_custom_kernels;
  bool is_portable;       /* for every processor: without instruction sets that only some have */
  const char *march;      /* NULL: the compiler's own, and kernels choose at run time */
  const char *library;    /* a shared library instead, whose functions' names begin so; or NULL */
  bool bare;              /* with library: one function for firmware instead, in an object */
  int n_threads;          /* 0: chosen when it starts; negative: the caller's thread alone */
  bool static_memory;     /* one buffer; no allocation */
  const char *kernel_dir; /* sources there replace ours of that name; or NULL */
  bool verify;            /* it knows what it computes of drawn inputs */
  const char *sbom;       /* a file that gets the list of what went in; or NULL */
  size_t *memory_bytes;   /* gets the size of the buffer; may be NULL */
  bool debug, keep_build;
  bool packed_only;  /* of weights that are read packed alone, no others */
  backend *binaries; /* borrowed: an OpenCL device, whose kernels' binaries go in; or NULL */
  tuning *tuning;    /* borrowed: of the CPU backend, or the OpenCL device; NULL: by rule alone */
  const char *tuned_for; /* with tuning: what its rows are for, as clave_tuning_device has it */
  /* The compiler's output, and why a program is carried; may be NULL. */
  void (*message)(void *ctx, const char *line);
  void (*progress)(void *ctx, const char *what, int done, int total); /* may be NULL */
  bool (*cancel)(void *ctx); /* true ends the build; may be NULL */
  void *ctx;
} compile_options;

/* Whether it can begin the names of a library's functions. */
bool is_library_name(const char *name);
/* Sources and a Makefile in `folder`, which is made and must be empty. */
clave_status compile_sources(const program *program, const compile_options *options,
                             const char *folder) STATUS_CHECK;
/* An executable at `path`, or a library with its header beside it, LIBRARY.h, whole or not at all.
 * It is built in a folder beside it, PATH.build where it is kept. */
clave_status compile_executable(const program *program, const compile_options *options,
                                const char *path) STATUS_CHECK;

#endif
