#ifndef COMPILE_CARRIED_MODEL_H
#define COMPILE_CARRIED_MODEL_H
/* What model.c has of a model beside compile/runtime/model.h. */
#include "compile/runtime/model.h"

typedef void (*carried_note)(void *ctx, const char *line);
/* Before it is started: who hears of what is worth a note, perhaps in another thread; NULL: nobody.
 * Without it standard error has them. */
void carried_set_note(model *m, carried_note note, void *ctx);
/* Compares what another model of the program computes with what was kept, quietly. */
clave_status carried_verify(int n_threads) STATUS_CHECK;

#endif
