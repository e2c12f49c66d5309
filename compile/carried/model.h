#ifndef COMPILE_CARRIED_MODEL_H
#define COMPILE_CARRIED_MODEL_H
/* What model.c has of a model beside compile/runtime/model.h. */
#include "compile/runtime/model.h"

/* Compares what another model of the program computes with what was kept, quietly. */
clave_status carried_verify(int n_threads) STATUS_CHECK;

#endif
