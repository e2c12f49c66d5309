#ifndef COMPILE_EMITTER_H
#define COMPILE_EMITTER_H
/* State while model.c is written, shared by the files that write it. */
#include "compile/emitted.h"
#include "compile/plan.h"
#include "compile/self_test.h"

typedef struct weight_list {
  packed_weight_request *items; /* owned; their `pack` is borrowed */
  size_t n, capacity;
} weight_list;

typedef struct emitter {
  const compile_plan *plan;
  const compile_options *options;
  const schedule *schedule; /* owned by the plan */
  location *now;            /* owned (n_slots); current location of each slot, changed by copies */
  const command *copy;      /* a copy whose operands are the two slots after the program's */
  const char *source;       /* address expression of a copied loop-carried value; or NULL */
  const test_output *kept;  /* borrowed, or NULL */
  emitted *used;            /* borrowed */
  weight_list packed_weights;
  size_t packed_bytes, scratch_bytes; /* for one thread, on any processor */
  text functions;                     /* owned; one function for each command */
  text pack; /* owned; the body of the emitted function that packs weights */
  text run;  /* owned; the body of run_model */
  int depth; /* nesting depth of its statements */
} emitter;

/* ---- emit_calls.c ---- */
/* Writes an expression for the address `offset` bytes after the beginning of a storage. */
void write_storage(const emitter *emitter, uint32_t in, int64_t offset, text *to);
int64_t byte_offset(const tensor *tensor);
/* Writes static void NAME(model *m PARAMETERS), which runs the kernels of a command. */
clave_status emit_function(emitter *emitter, const command *command, const char *name,
                           const char *parameters) STATUS_CHECK;
/* ---- emit_control.c ---- */
/* Writes the statements of run_model. */
clave_status emit_commands(emitter *emitter, range commands) STATUS_CHECK;

#endif
