#ifndef COMPILE_RUNTIME_MODEL_H
#define COMPILE_RUNTIME_MODEL_H
/* A compiled program as its command line and the functions of a library see it: methods with their
 * arguments, and runs. written.c implements it for a schedule that is printed as C (model.c,
 * written.h), compile/carried/ over the library for a program that is carried as it is. */
#include "base/status.h"
#include "compile/runtime/info.h"

/* What there is to know of it; nothing can run yet. */
clave_status model_create(model **out) STATUS_CHECK;
const model_info *model_get_info(const model *model);
/* Before it is started: who hears of what is worth a note, perhaps in another thread; NULL, as at
 * first: nobody. */
typedef void (*model_note_fn)(void *ctx, const char *line);
void model_set_note(model *model, model_note_fn note, void *ctx);
/* Makes it ready for runs: its memory, its threads, what is packed of its weights. Once. n_threads:
 * as base/threads.h has it. */
clave_status model_start(model *model, int n_threads) STATUS_CHECK;
/* Runs method `method` of its info. inputs, outputs: (n_inputs), (n_outputs); the former of sizes
 * within their bounds, of the latter dims and data are filled in. State is kept from one run to the
 * next. */
clave_status model_run(model *model, int method, const model_value *inputs,
                       model_value *outputs) STATUS_CHECK;
clave_status model_reset(model *model) STATUS_CHECK; /* state as it is at first */
void model_destroy(model *model);                    /* takes NULL and what was not started */

/* main.c: the command line; the process's exit status. */
int model_main(int argc, char **argv);

#endif
