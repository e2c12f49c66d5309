#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H
/* A method of a program as C: its schedule on the CPU backend, printed, with the sources of the
 * kernels that it runs; and that built by the system's compiler. Sizes are fixed. */
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
  const char *march;    /* NULL: the compiler's own, and kernels choose at run time */
  const char *library;  /* a shared library instead, whose functions' names begin so; or NULL */
  bool debug, keep_build;
  tuning *tuning; /* borrowed: of the CPU backend; NULL: by rule alone */
  void (*message)(void *ctx, const char *line); /* the compiler's output; may be NULL */
  void (*progress)(void *ctx, const char *what, int done, int total); /* may be NULL */
  void *ctx;
} compile_options;

/* Whether it can begin the names of a library's functions; those of the runtime begin with model.
 */
bool is_library_name(const char *name);
/* Sources and a Makefile in `folder`, which is made and must be empty. */
clave_status compile_sources(const program *p, const compile_options *o,
                             const char *folder) STATUS_CHECK;
/* An executable at `path`, or a library with its header beside it, LIBRARY.h, whole or not at all.
 * It is built in a folder beside it, PATH.build where it is kept. */
clave_status compile_executable(const program *p, const compile_options *o,
                                const char *path) STATUS_CHECK;

#endif
