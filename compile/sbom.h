#ifndef COMPILE_SBOM_H
#define COMPILE_SBOM_H
/* The software bill of materials of a compiled program, a CycloneDX 1.5 document. It depends only
 * on the program, the options and the compiler; its timestamp is SOURCE_DATE_EPOCH. */
#include "base/file.h"
#include "compile/project.h"

/* Fails unless the SBOM can be written and SOURCE_DATE_EPOCH is valid. Call it before any other
 * work. */
clave_status sbom_check(const compile_options *options) STATUS_CHECK;
/* Writes the SBOM to the writer *out, which the caller commits and destroys, even after an error.
 * made: name of the result in the project's folder. compiler: the first line of its version text.
 * Both are NULL if only sources were written. */
clave_status sbom_write(const project *project, const program *program,
                        const compile_options *options, const char *made, const char *compiler,
                        file_writer **out) STATUS_CHECK;

#endif
