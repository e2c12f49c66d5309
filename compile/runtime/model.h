#ifndef COMPILE_RUNTIME_MODEL_H
#define COMPILE_RUNTIME_MODEL_H
/* The interface of a compiled program for its command line and for library functions: its methods,
 * their arguments, and runs. written.c implements it for an emitted schedule (model.c),
 * compile/carried/ for an embedded program that the library runs. */
#include "base/status.h"
#include "compile/runtime/info.h"

/* Creates a model to be queried; it cannot run yet. */
clave_status model_create(model **out) STATUS_CHECK;
const model_info *model_get_info(const model *model);
/* Sets the receiver of notes, which may be called from another thread; NULL (the default) discards
 * notes. Call before model_start. */
typedef void (*model_note_fn)(void *ctx, const char *line);
void model_set_note(model *model, model_note_fn note, void *ctx);
/* Prepares memory, threads and packed weights for runs; call once. n_threads: as in base/threads.h.
 */
clave_status model_start(model *model, int n_threads) STATUS_CHECK;
/* Runs method number `method`. inputs (n_inputs) have sizes within their bounds; outputs
 * (n_outputs) get dims and data. State is kept between runs. */
clave_status model_run(model *model, int method, const model_value *inputs,
                       model_value *outputs) STATUS_CHECK;
clave_status model_reset(model *model) STATUS_CHECK; /* restores the initial state */
void model_destroy(model *model); /* accepts NULL and a model that was not started */

/* The command line (main.c). Returns the process's exit status. */
int model_main(int argc, char **argv);

#endif
