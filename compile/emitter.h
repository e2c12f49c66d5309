#ifndef COMPILE_EMITTER_H
#define COMPILE_EMITTER_H
/* model.c while it is written; what the files share that write it. */
#include "compile/emitted.h"
#include "compile/plan.h"
#include "compile/self_test.h"

typedef struct form_list {
  packed_weight_request *items; /* owned; `pack` borrowed */
  size_t n, capacity;
} form_list;

typedef struct emitter {
  const compile_plan *plan;
  const compile_options *options;
  const schedule *schedule; /* the plan's */
  location *now;            /* owned: (n_slots) where a slot is; copies move some */
  const command *copy;      /* whose operands are the two slots behind the program's */
  const char *source; /* of what a loop carries: the expression for where the first of them is, or
                         NULL */
  const test_output *kept; /* borrowed, or NULL */
  emitted *used;           /* borrowed */
  form_list forms;
  size_t form_bytes, scratch_bytes; /* as one thread has them, on any processor */
  text functions;                   /* owned: one for each command */
  text pack;                        /* owned: the body of pack_forms */
  text run;                         /* owned: that of run_model */
  int depth;                        /* of its statements */
} emitter;

/* ---- emit_calls.c ---- */
/* An expression for the address `offset` bytes behind the beginning of a storage. */
void write_storage(const emitter *emitter, uint32_t in, int64_t offset, text *to);
int64_t byte_offset(const tensor *tensor);
/* static void NAME(model *m PARAMETERS): the kernels of a command. */
clave_status emit_function(emitter *emitter, const command *command, const char *name,
                           const char *parameters) STATUS_CHECK;
/* ---- emit_control.c ---- */
/* The statements of run_model. */
clave_status emit_commands(emitter *emitter, range commands) STATUS_CHECK;

#endif
