#ifndef COMPILE_CARRY_H
#define COMPILE_CARRY_H
/* The sources of an executable that embeds its program and is linked with the library: main.c, the
 * program's bytes, a Makefile. */
#include "compile/project.h"

/* Fails with UNSUPPORTED unless the program can run on its target device and carried programs
 * support all options. */
clave_status carry_check(const program *program, const compile_options *options) STATUS_CHECK;
/* Finds libclave.a: the path in the options, else the one that belongs to this library. The caller
 * frees *out. */
clave_status carry_find_runtime(const compile_options *options, char **out) STATUS_CHECK;
/* Writes the sources to `folder`. runtime: the path of libclave.a; libclave_main.a must be beside
 * it. */
clave_status carry_write(const program *program, const compile_options *options,
                         const char *runtime, const char *folder, project *out) STATUS_CHECK;

#endif
