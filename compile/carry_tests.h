#ifndef COMPILE_CARRY_TESTS_H
#define COMPILE_CARRY_TESTS_H
/* What a program that is carried has to compare its results with. */
#include "compile/project.h"

/* Runs its methods on the CPU backend and appends the definitions that model_tests refers to; where
 * it runs elsewhere the outputs lie in the project, too. */
clave_status carry_write_tests(const program *program, const compile_options *options,
                               project *project, text *to) STATUS_CHECK;

#endif
