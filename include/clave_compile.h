#ifndef CLAVE_COMPILE_H
#define CLAVE_COMPILE_H
/* Compiles programs to executables that need neither clave nor other files, with the system's C
 * compiler. One method that runs on the CPU is written out as C. Any other program is linked with
 * the library, so that the executable embeds the runtime. docs/howto/compile.md describes both. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fixes an open size of the method's inputs, by its name in the program. */
typedef struct clave_compile_dim {
  const char *name;
  int64_t size;
} clave_compile_dim;

enum { CLAVE_COMPILE_ALONE = -1 };
typedef struct clave_compile_options {
  size_t size;                   /* sizeof(clave_compile_options) */
  const char *method;            /* NULL: the first; or, if the program has a tokenizer and dims is
                                    empty, text generation like `clave generate` */
  const char *name;              /* program's name in the executable's help; NULL: "a program" */
  const clave_compile_dim *dims; /* (n_dims) */
  uint32_t n_dims;
  const char *compiler; /* a command with its arguments; NULL: CC, else cc */
  const char *march;    /* the compiler's -march=...; NULL: kernels select instructions at run
                           time */
  const char *library;  /* NULL: an executable; else a shared library, whose functions begin with
                           this identifier and are declared in LIBRARY.h beside it */
  bool debug;           /* with debugging information and little optimisation */
  bool keep_build;      /* keep the sources in PATH.build */
  /* Receives the reason why an executable embeds the runtime, and the compiler's output after it
   * has failed, line by line. May be NULL. */
  clave_message_fn message;
  clave_progress_fn progress; /* counts compiled files; may be NULL */
  void *ctx;                  /* passed to message, progress and cancel */
  int n_threads;              /* threads of the executable. 0: CLAVE_THREADS or one per CPU, read
                                 when it starts; CLAVE_COMPILE_ALONE: only the caller's thread,
                                 without any threading code */
  bool static_memory;         /* use one static buffer for all memory, without any allocation;
                                 n_threads must be CLAVE_COMPILE_ALONE */
  size_t *memory_bytes;       /* receives the size of that buffer; may be NULL */
  bool bare;                  /* make an object file (.o) for firmware with one function,
                                 LIBRARY_run, declared in LIBRARY.h: no stdio, allocation, threads
                                 or main. Needs `library`; implies static_memory */
  const char *kernel_folder;  /* folder of X.c and X.h that replace kernel sources of that name */
  bool verify;                /* add `PATH --verify` (a library: NAME_verify), which runs random
                                 inputs and compares the results with those that a session computes
                                 now. The executable contains each result's SHA-256 or, for opencl,
                                 its elements, compared within rounding errors. Integer and boolean
                                 inputs are zeros */
  const char *sbom;           /* path of a CycloneDX 1.5 document that lists the parts of the
                                 executable, written last; NULL: none */
  bool (*cancel)(void *ctx);  /* called while files are compiled, also after a signal; true ends the
                                 call with CLAVE_CANCELLED and leaves no files; may be NULL */
  const char *target;         /* "c" (if NULL): the CPU; "opencl": a device by CLAVE_DEVICE at run
                                 time */
  bool all_methods;           /* include all methods, one selected at run time; method is NULL */
  bool allow_custom_kernels;  /* as in clave_session_options, at run time */
  const char *static_library; /* path of libclave.a, beside libclave_main.a, for executables that
                                 embed the runtime; NULL: this library's */
  const clave_device *tuned;  /* device whose tuning table (clave_tune.h) is built in; target "c"
                                 uses its CPU backend's table. C code gets the rows for the
                                 program's sizes; an embedded runtime gets all rows and uses them on
                                 the same kind of device. UNSUPPORTED for generation of text; NULL:
                                 none */
  const clave_device *binaries; /* for target "opencl": include binaries of kernels that have run on
                                   this device, for machines with the same device; NULL: none */
  bool packed_only;      /* for C code: leave out the plain copies of weights that are only read
                            packed. The executable runs only on processors that the program is
                            packed for (below); this processor must be one of them */
  const char *processor; /* for C code. "portable": code for every processor, without optional
                            instructions; only the memory that this code needs is reserved, and
                            packed weights must be of the device class "portable"
                            (CLAVE_DEVICE_CLASS). NULL: kernels select among the processor's
                            instructions */
} clave_compile_options;

/* The packed constants of the program (clave_program_pack, clave_files.h) are included, and are
 * read in place on the processors or OpenCL devices that they are packed for. Other devices pack
 * the constants again, with a note. If a program is packed for this processor, its C code includes
 * only the packed constants that its sizes need. */

/* Writes an executable (or a library) to `path`; on failure nothing is written. Its usage is `PATH
 * in.bin... out.bin...`: raw little-endian tensors in the program's order, which --help lists.
 * UNSUPPORTED names what cannot be compiled; IO has the compiler's first error. */
CLAVE_API clave_status clave_compile(const clave_program *program, const char *path,
                                     const clave_compile_options *options) CLAVE_CHECK;
/* Writes the sources and a Makefile instead, to a folder that is created or must be empty; on
 * failure nothing is written. The same program and options produce the same bytes. */
CLAVE_API clave_status clave_compile_sources(const clave_program *program, const char *folder,
                                             const clave_compile_options *options) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif

#endif
