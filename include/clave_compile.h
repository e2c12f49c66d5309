#ifndef CLAVE_COMPILE_H
#define CLAVE_COMPILE_H
/* Programs as executables that need neither clave nor a file beside them, built by the system's C
 * compiler: written out as C, where it is one method that runs on the CPU, else linked with the
 * library, whose runtime they carry. docs/compile.md says when. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open size of the method's inputs, by its name in the program. */
typedef struct clave_compile_dim {
  const char *name;
  int64_t size;
} clave_compile_dim;

enum { CLAVE_COMPILE_ALONE = -1 };
typedef struct clave_compile_options {
  size_t size;                   /* sizeof(clave_compile_options) */
  const char *method;            /* NULL: the first; or, of a program that has a tokenizer, where
                                    dims is empty, text, as clave generate writes it */
  const char *name;              /* of the program, for the executable's help; NULL: "a program" */
  const clave_compile_dim *dims; /* (n_dims) */
  uint32_t n_dims;
  const char *compiler; /* a command with its arguments; NULL: CC, else cc */
  const char *march;    /* the compiler's -march=...; NULL: none, and kernels choose among
                           instructions when they run */
  const char *library;  /* NULL: an executable; else a shared library, whose functions begin with
                           this identifier and are declared in LIBRARY.h beside it */
  bool debug;           /* debugging information, little optimised */
  bool keep_build;      /* the sources stay, in PATH.build */
  /* Why an executable carries the runtime; the compiler's output after it has failed, line by line.
   * May be NULL. */
  clave_message_fn message;
  clave_progress_fn progress; /* files compiled; may be NULL */
  void *ctx;                  /* of all three */
  int n_threads;              /* 0: as many as CLAVE_THREADS or the CPUs say when it starts;
                                 CLAVE_COMPILE_ALONE: the caller's alone, and no threads in it */
  bool static_memory;         /* all memory is one static buffer, without any allocation; then
                                 n_threads is CLAVE_COMPILE_ALONE */
  size_t *memory_bytes;       /* gets the size of that buffer; may be NULL */
  bool bare;                  /* one function for firmware, LIBRARY_run, declared in LIBRARY.h:
                                 without stdio, allocation, threads and main, in an object to be
                                 linked (.o); needs `library`; implies static_memory */
  const char *kernel_folder;  /* X.c and X.h there take the place of those of that name among the
                                 sources of kernels that are used; or NULL */
  bool verify;                /* `PATH --verify` (a library: NAME_verify) compares results of drawn
                                 inputs with a session's, which are computed now; the SHA-256 of
                                 each is kept, for opencl the elements, which are compared but for
                                 rounding. Integers and booleans are drawn as zeros */
  const char *sbom;          /* a file that gets what went in, as a CycloneDX 1.5 document, when all
                                else is there; NULL: none */
  bool (*cancel)(void *ctx); /* asked while files are compiled, where a signal comes too; true ends
                                it with CLAVE_CANCELLED, and nothing is left; may be NULL */
  const char *target;        /* "c": the CPU; "opencl": OpenCL devices, as CLAVE_DEVICE chooses when
                                it runs; NULL: "c" */
  bool all_methods;          /* chosen when it runs; method is NULL */
  bool allow_custom_kernels; /* as of sessions, when it runs */
  const char *static_library;   /* libclave.a, with libclave_main.a beside it, of executables that
                                   carry the runtime; NULL: those that belong to this library */
  const clave_device *tuned;    /* what its tuning table (clave_tune.h; of target "c" its CPU
                                   backend's) has for the program's sizes is built in; what carries
                                   the runtime has all rows, and heeds them on such a device;
                                   UNSUPPORTED of a language model's text; NULL: nothing */
  const clave_device *binaries; /* of target "opencl": binaries of the kernels that have run on this
                                   device go in, for machines with the same; NULL: none */
  bool packed_only;      /* of what is written out: weights that are read packed alone are not there
                            plain, too: it runs on processors that the program is packed for (below), of
                            which this one must be, and on no other */
  const char *processor; /* of what is written out. "portable": code for every processor, without
                            optional instructions, and memory for that code alone; packed weights
                            must be of the device class "portable" (CLAVE_DEVICE_CLASS). NULL:
                            kernels choose among the instructions of the processor */
} clave_compile_options;

/* What the program carries of packed constants (clave_program_pack, clave_files.h) goes in, and is
 * read where it lies on processors, or OpenCL devices, that it is packed for; others pack anew,
 * with a note. What is written out for a program that is packed for this processor has all that its
 * sizes want, and nothing else. */

/* An executable (or a library) at `path`, whole or not at all: `PATH in.bin... out.bin...`, raw
 * little-endian tensors in the program's order; its --help lists them. UNSUPPORTED: what cannot be
 * compiled, by name, with nothing written. IO: the compiler failed, with the first error that it
 * gave. */
CLAVE_API clave_status clave_compile(const clave_program *program, const char *path,
                                     const clave_compile_options *options) CLAVE_CHECK;
/* Its sources instead, with a Makefile, in a folder that is made and must be empty; whole or not at
 * all. The same program and options give the same bytes. */
CLAVE_API clave_status clave_compile_sources(const clave_program *program, const char *folder,
                                             const clave_compile_options *options) CLAVE_CHECK;

#ifdef __cplusplus
}
#endif

#endif
