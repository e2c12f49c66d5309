#ifndef CLAVE_COMPILE_H
#define CLAVE_COMPILE_H
/* Programs as C: a method of a program with fixed sizes becomes an executable that needs neither
 * clave nor a file beside it, built by the system's C compiler. docs/compile.md says what can be
 * compiled. */
#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open size of the method's inputs, by its name in the program. */
typedef struct clave_compile_dim {
  const char *name;
  int64_t size;
} clave_compile_dim;

typedef struct clave_compile_options {
  size_t size;                   /* sizeof(clave_compile_options) */
  const char *method;            /* NULL: the first */
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
  /* The compiler's output after it has failed, line by line; may be NULL. */
  clave_message_fn message;
  clave_progress_fn progress; /* files compiled; may be NULL */
  void *ctx;                  /* of both */
  const clave_device *tuned;  /* what its CPU backend's tuning table has for the program's sizes is
                                 built in (clave_tune.h); NULL: nothing */
} clave_compile_options;

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
