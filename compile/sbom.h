#ifndef COMPILE_SBOM_H
#define COMPILE_SBOM_H
/* What went into a compiled program, as a CycloneDX 1.5 document. It follows from the program, the
 * options and the compiler alone; SOURCE_DATE_EPOCH gives it a time. */
#include "compile/project.h"

/* made: what was built, in the project's folder; NULL: nothing, sources alone. compiler: the first
 * line of what it says its version is; NULL likewise. */
clave_status sbom_write(const project *k, const program *p, const compile_options *o,
                        const char *made, const char *compiler) STATUS_CHECK;

#endif
