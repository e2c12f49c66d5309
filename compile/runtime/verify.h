#ifndef COMPILE_RUNTIME_VERIFY_H
#define COMPILE_RUNTIME_VERIFY_H
/* Compares a program's results on random inputs with those stored at compile time: each method's
 * first run, with open sizes as small as possible but not 0. */
#include "compile/runtime/model.h"

/* Starts the model and runs all methods. Sets *n_outputs to the number of compared outputs.
 * UNSUPPORTED if no results are stored; INVALID names the output that differs. */
clave_status verify_model(model *model, int n_threads, int *n_outputs) STATUS_CHECK;
/* Works like verify_model on a second model, which sends no notes. */
clave_status verify_another(int n_threads) STATUS_CHECK;

#endif
