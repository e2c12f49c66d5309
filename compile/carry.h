#ifndef COMPILE_CARRY_H
#define COMPILE_CARRY_H
/* The sources of an executable that carries its program and is linked with the library: main.c, the
 * program's bytes, a Makefile. */
#include "compile/project.h"

/* UNSUPPORTED: what cannot run on the device that it is for, or an option that it does not take. */
clave_status carry_check(const program *program, const compile_options *options) STATUS_CHECK;
/* Its file libclave.a: the options', else the one that belongs to this library. Owned by the
 * caller. */
clave_status carry_find_runtime(const compile_options *options, char **out) STATUS_CHECK;
/* runtime: libclave.a; libclave_main.a lies beside it. */
clave_status carry_write(const program *program, const compile_options *options,
                         const char *runtime, const char *folder, project *out) STATUS_CHECK;

#endif
