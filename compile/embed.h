#ifndef COMPILE_EMBED_H
#define COMPILE_EMBED_H
/* Files whose bytes lie in what is built, by an assembler source each. */
#include "compile/project.h"

struct embedded_file {
  const char *symbol;        /* of the first byte; hidden */
  const char *source, *file; /* in the project's folder */
  bool is_far;               /* behind all else, however large it is */
};
extern const embedded_file embedded_weights, embedded_program, embedded_expected, embedded_binaries;

/* Writes the source, which is compiled then; the file is there, or will be. */
clave_status project_embed(project *k, const embedded_file *e) STATUS_CHECK;

#endif
