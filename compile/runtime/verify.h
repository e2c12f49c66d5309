#ifndef COMPILE_RUNTIME_VERIFY_H
#define COMPILE_RUNTIME_VERIFY_H
/* A program's results of drawn inputs, beside those that were kept when it was compiled: of each
 * method, with open sizes as small as they may be but not 0, in a model's first run. */
#include "compile/runtime/model.h"

/* Starts the model and runs all methods. *n_outputs: how many were compared. UNSUPPORTED: nothing
 * was kept. INVALID: which output is another. */
clave_status verify_model(model *model, int n_threads, int *n_outputs) STATUS_CHECK;
/* The same by a model of its own, which nobody hears of. */
clave_status verify_another(int n_threads) STATUS_CHECK;

#endif
