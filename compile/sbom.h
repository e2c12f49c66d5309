#ifndef COMPILE_SBOM_H
#define COMPILE_SBOM_H
/* What went into a compiled program, as a CycloneDX 1.5 document. It follows from the program, the
 * options and the compiler alone; SOURCE_DATE_EPOCH gives it a time. */
#include "base/file.h"
#include "compile/project.h"

/* Before any work: the file can be written, and SOURCE_DATE_EPOCH is a time. */
clave_status sbom_check(const compile_options *options) STATUS_CHECK;
/* made: what was built, in the project's folder; NULL: nothing, sources alone. compiler: the first
 * line of what it says its version is; NULL likewise. *out: whole, and the caller's to commit and
 * to destroy, after an error too. */
clave_status sbom_write(const project *project, const program *program,
                        const compile_options *options, const char *made, const char *compiler,
                        file_writer **out) STATUS_CHECK;

#endif
