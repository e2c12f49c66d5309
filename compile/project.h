#ifndef COMPILE_PROJECT_H
#define COMPILE_PROJECT_H
/* A folder of sources: of a program that is written out model.c, the weights, the runtime and the
 * kernels that are used, a Makefile. Everything in it follows from the program and the options
 * alone. */
#include "compile/plan.h"
#include "compile/tables.h"

/* Of the host, which a language model is linked with. */
typedef struct host_library {
  const char *name;    /* "-lNAME" */
  const char *licence; /* SPDX */
} host_library;
enum { N_HOST_LIBRARIES = 2 };
extern const host_library host_libraries[N_HOST_LIBRARIES];

typedef struct project_file {
  char *path;   /* owned: in the folder */
  bool is_ours; /* a source of clave's; else emitted, data, or the caller's */
} project_file;

/* A file whose bytes lie in what is built, by an assembler source. */
typedef struct embedded_file {
  const char *symbol;        /* of the first byte; hidden */
  const char *source, *file; /* in the project's folder */
  bool is_far;               /* behind all else, however large it is */
} embedded_file;
extern const embedded_file embedded_weights, embedded_forms, embedded_program, embedded_expected,
    embedded_binaries;
enum { MOST_EMBEDDED = 3 };

typedef struct project {
  char *folder;         /* owned */
  const char **sources; /* owned (n_sources): those to compile, by their paths in the folder */
  size_t n_sources;
  const embedded_file *embedded[MOST_EMBEDDED]; /* (n_embedded) */
  int n_embedded;
  project_file *files; /* owned (n_files): all that there are */
  size_t n_files, cap_files;
  bool carries;                     /* carry.h: no kernels, but archives that are linked */
  char *archives[2];                /* owned: libclave_main.a, libclave.a; NULL in a Makefile */
  char *libs[N_HOST_LIBRARIES + 1]; /* owned: host_libraries, a path or -lNAME each; NULL ends */
  bool is_plain;                    /* no constant is encoded */
  bool is_whole;                    /* no convolution has groups */
  bool is_single;                   /* no tensor is of 16-bit floats */
  bool is_packed;                   /* it has weights packed for one level of instruction sets */
  size_t memory_bytes;              /* where it is static */
  char room[40];                    /* flag: the static memory of its command line; "" */
  char steps[2][80];                /* flags: the kinds of elementwise steps that there are */
} project;

/* Writes it to `folder`, which exists. Weights that are not wanted leave the plan. */
clave_status project_write(compile_plan *plan, const compile_options *options, const char *folder,
                           project *out) STATUS_CHECK;
void project_free(project *project);
/* In its folder, with the folders that they lie in. */
clave_status project_write_file(project *project, const char *name, const void *data,
                                size_t size) STATUS_CHECK;
clave_status project_write_source(project *project, const char *kernel_dir,
                                  const source_file *file) STATUS_CHECK;
/* A file that was written otherwise. */
clave_status project_add_file(project *project, const char *name) STATUS_CHECK;
/* Writes the source, which is compiled then; the file is there, or will be. */
clave_status project_embed(project *project, const embedded_file *file) STATUS_CHECK;
/* Both: `write` makes the file of `from`. bytes: gets its size; may be NULL. */
typedef clave_status (*project_file_fn)(const void *from, const char *path);
clave_status project_embed_by(project *project, const embedded_file *file, project_file_fn write,
                              const void *from, size_t *bytes) STATUS_CHECK;
clave_status project_write_makefile(project *project, const compile_options *options) STATUS_CHECK;

/* Flags of the compiler, in their order, and of the linker behind the objects: NULL ends. */
enum { MOST_FLAGS = 32 };
#define MADE "model" /* what is linked */
void project_compile_flags(const project *project, const compile_options *options,
                           const char *flags[MOST_FLAGS]);
/* An extra flag for one source, which follows those, or NULL. Sources that only read and write
 * values are compiled with -O2: -O3 makes them larger and no program faster. */
const char *project_source_flag(const compile_options *options, const char *source);
void project_link_flags(const project *project, const compile_options *options,
                        const char *flags[MOST_FLAGS]);

#endif
