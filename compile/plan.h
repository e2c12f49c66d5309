#ifndef COMPILE_PLAN_H
#define COMPILE_PLAN_H
/* The method to emit: its schedule for fixed sizes on the CPU backend, with the offsets of all
 * blocks in the compiled program's memory; or, with open sizes, only its instructions. */
#include "base/file.h"
#include "compile/compile.h"
#include "interp/executable.h"

#define NO_PLACE SIZE_MAX

typedef struct compile_plan {
  const program *prog; /* borrowed */
  uint32_t method;
  const graph *graph;
  backend *cpu;              /* owned */
  executable *executable;    /* owned */
  constant_store *constants; /* owned */
  schedule *schedule;        /* holds a reference; NULL: sizes are open */
  size_t *place;      /* owned, by block: byte offset in the arena; a number for rebased blocks */
  size_t *slot_place; /* owned, by slot: byte offset in the weights or in the state */
  uint32_t *weights;  /* owned (n_weights); slots of constants, ordered by offset */
  uint32_t n_weights;
  size_t arena_bytes, weight_bytes, state_bytes;
  scalar_value *sizes; /* owned (n_values); values that decide the schedule; with open sizes, only
                          those fixed */
  uint32_t *open;      /* owned (n_open); Vids of the open sizes of inputs, each once */
  uint32_t n_open;
  clave_status why; /* owned; names the first open size; NULL: all are fixed */
  program made;     /* owned; holds only weights packed for the plan */
  int n_rebased;
} compile_plan;

/* A packed weight of an emitted program (packed.h). */
typedef struct packed_entry {
  int number;                          /* packed weight's number in the model */
  const program_packed_weight *weight; /* borrowed */
  size_t offset;                       /* offset of its bytes in the file */
} packed_entry;
typedef struct packed_list {
  packed_entry *items; /* owned (n) */
  size_t n, capacity, bytes;
} packed_list;

/* Fails with UNSUPPORTED, which names the cause, if the method cannot be emitted. */
clave_status plan_create(const program *program, const compile_options *options,
                         compile_plan *out) STATUS_CHECK;
void plan_destroy(compile_plan *plan); /* accepts a partly made plan */
/* Removes constants that are not in `wanted` (n_slots). */
void plan_keep_weights(compile_plan *plan, const bool *wanted);
/* Writes the weight_bytes bytes that the executable maps. */
clave_status plan_write_weights(const compile_plan *plan, const char *path) STATUS_CHECK;
/* Creates a file with the bytes that `append` writes; removes it if that fails. of: passed to
 * append. */
clave_status plan_write(const char *path,
                        clave_status (*append)(const void *of, file_writer *writer),
                        const void *of) STATUS_CHECK;
/* Returns the bytes that a buffer of this size reserves. */
size_t plan_aligned(size_t bytes);
/* Returns the bytes of scratch memory of a recording's commands, run in order on one thread. level:
 * as in cpu_command_scratch. */
size_t plan_scratch(const recording *recording, const char *level);
/* True if the argument is an input of the compiled program, and not a fixed scalar. */
bool plan_has_input(const compile_plan *plan, const ir_argument *argument);
uint32_t compiled_inputs(
    const compile_plan *plan); /* returns the number of inputs of the compiled program */
/* Converts a dimension to the encoding of model_argument. */
int64_t plan_dim(const compile_plan *plan, const ir_int_or_vid *value);
/* True if the method is compiled. */
bool plan_has_method(const compile_options *options, uint32_t number);
/* Returns the option that fixes the size or scalar input of this name; NULL if no option does. */
const compile_dim *plan_find_dim(const compile_options *options, const char *name);
/* Returns the value id of the open size or scalar input of this name; IR_NONE if the method has
 * none. */
uint32_t plan_find_size(const program *program, const ir_method *method, const char *name);
bool plan_is_scalar(const program *program, const ir_argument *argument, const char *name);
/* Returns the constant with the initial value of state tensor i; IR_NONE: zeros. */
uint32_t plan_initial_constant(const program *program, uint32_t i);

#endif
