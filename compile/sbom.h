#ifndef COMPILE_SBOM_H
#define COMPILE_SBOM_H
/* The software bill of materials of a compiled program, a CycloneDX 1.5 document. It depends only
 * on the program, the options and the compiler; its timestamp is SOURCE_DATE_EPOCH. */
#include "base/file.h"
#include "compile/project.h"

/* Checks, before any work, that the file can be written and SOURCE_DATE_EPOCH is valid. */
clave_status sbom_check(const compile_options *options) STATUS_CHECK;
/* made: the result in the project's folder; NULL: only sources were written. compiler: the first
 * line of its version text; NULL with `made`. *out is a complete file; the caller commits and
 * destroys it, even after an error. */
clave_status sbom_write(const project *project, const program *program,
                        const compile_options *options, const char *made, const char *compiler,
                        file_writer **out) STATUS_CHECK;

#endif
