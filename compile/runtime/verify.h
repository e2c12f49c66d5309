#ifndef COMPILE_RUNTIME_VERIFY_H
#define COMPILE_RUNTIME_VERIFY_H
/* A program's results of drawn inputs, beside those that were kept when it was compiled. */
#include "compile/runtime/model.h"

/* Starts and runs the first method, and prints a line where all is as it was. UNSUPPORTED: nothing
 * was kept. INVALID: which output is another. */
clave_status verify_method(model *m) STATUS_CHECK;

#endif
