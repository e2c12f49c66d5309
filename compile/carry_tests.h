#ifndef COMPILE_CARRY_TESTS_H
#define COMPILE_CARRY_TESTS_H
/* Expected results with which an executable that embeds its program compares its own. */
#include "compile/project.h"

/* Runs the methods on the CPU backend and appends the definitions that model_tests refers to. If
 * the target is another device, also adds a file with the outputs to the project. */
clave_status carry_write_tests(const program *program, const compile_options *options,
                               project *project, text *to) STATUS_CHECK;

#endif
