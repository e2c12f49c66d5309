#ifndef COMPILE_PROJECT_H
#define COMPILE_PROJECT_H
/* A folder of sources. For an emitted program: model.c, the weights, the runtime, the kernels in
 * use and a Makefile. Its contents depend only on the program and the options. */
#include "compile/plan.h"
#include "compile/tables.h"

/* A library of the host that language models are linked with. */
typedef struct host_library {
  const char *name;    /* "-lNAME" */
  const char *licence; /* SPDX identifier */
} host_library;
enum { N_HOST_LIBRARIES = 2 };
extern const host_library host_libraries[N_HOST_LIBRARIES];

typedef struct project_file {
  char *path;   /* owned; path in the folder */
  bool is_ours; /* a source of clave, not an emitted file, data or a user's source */
} project_file;

/* A file that an assembler source embeds. */
typedef struct embedded_file {
  const char *symbol;        /* symbol of the first byte; hidden visibility */
  const char *source, *file; /* in the project's folder */
  bool is_far;               /* placed after everything else; any size */
} embedded_file;
extern const embedded_file embedded_weights, embedded_packed_weights, embedded_program,
    embedded_expected, embedded_binaries;
enum { MAX_EMBEDDED = 3 };

typedef struct project {
  char *folder;         /* owned */
  const char **sources; /* owned array (n_sources); paths of the sources to compile */
  size_t n_sources;
  const embedded_file *embedded[MAX_EMBEDDED]; /* (n_embedded) */
  int n_embedded;
  project_file *files; /* owned (n_files); all files of the folder */
  size_t n_files, cap_files;
  bool carries;      /* the program is carried (carry.h): archives are linked in place of kernels */
  char *archives[2]; /* owned; libclave_main.a and libclave.a; NULL in a Makefile */
  char *libs[N_HOST_LIBRARIES + 1]; /* owned; host_libraries as a path or -lNAME; NULL-terminated */
  bool is_plain;                    /* no constant is encoded */
  bool is_ungrouped;                /* no convolution has groups */
  bool is_single;                   /* no tensor is of 16-bit floats */
  bool is_packed;         /* it embeds packed weights, which are for certain processor levels */
  size_t memory_bytes;    /* size of the static memory */
  char static_memory[40]; /* flag with the size of the command line's static memory, or "" */
  char steps[2][80];      /* flags with the used kinds of elementwise steps */
} project;

/* Writes the project of an emitted program to `folder`, which must exist. Removes weights that are
 * not needed from the plan. */
clave_status project_write(compile_plan *plan, const compile_options *options, const char *folder,
                           project *out) STATUS_CHECK;
void project_free(project *project);
/* Writes a file and its parent folders. */
clave_status project_write_file(project *project, const char *name, const void *data,
                                size_t size) STATUS_CHECK;
clave_status project_write_source(project *project, const char *kernel_dir,
                                  const source_file *file) STATUS_CHECK;
/* Adds a file that was written by other means. */
clave_status project_add_file(project *project, const char *name) STATUS_CHECK;
/* Writes and adds the assembler source; the embedded file exists or will exist. */
clave_status project_embed(project *project, const embedded_file *file) STATUS_CHECK;
/* Embeds the file that `write` creates from `from`. bytes: set to its size; may be NULL. */
typedef clave_status (*project_file_fn)(const void *from, const char *path);
clave_status project_embed_by(project *project, const embedded_file *file, project_file_fn write,
                              const void *from, size_t *bytes) STATUS_CHECK;
clave_status project_write_makefile(project *project, const compile_options *options) STATUS_CHECK;

/* Flags of the compiler in order, and of the linker after the objects; NULL-terminated. */
enum { MAX_FLAGS = 32 };
#define LINKED_FILE "model" /* name of the linked result */
void project_compile_flags(const project *project, const compile_options *options,
                           const char *flags[MAX_FLAGS]);
/* Returns an extra flag for a source, which follows the others, or NULL. Sources that only read and
 * write values are compiled with -O2: -O3 makes them larger and no program faster. */
const char *project_source_flag(const compile_options *options, const char *source);
void project_link_flags(const project *project, const compile_options *options,
                        const char *flags[MAX_FLAGS]);

#endif
