#ifndef COMPILE_PLAN_H
#define COMPILE_PLAN_H
/* A method as it is printed: its schedule for fixed sizes on the CPU backend, and where in the
 * compiled program's memory its blocks lie; or, where sizes are open, its instructions alone. */
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
  schedule *schedule;        /* held; NULL: sizes are open */
  size_t *place; /* owned, by block: bytes from where the arena begins; of rebased ones a number */
  size_t *slot_place; /* owned, by slot: bytes from where the weights, or the state, begin */
  uint32_t *weights;  /* owned (n_weights): slots of constants, in the order of their bytes */
  uint32_t n_weights;
  size_t arena_bytes, weight_bytes, state_bytes;
  scalar_value
      *sizes;     /* owned (n_values): what decides the schedule; of open ones, what is fixed */
  uint32_t *open; /* owned (n_open): Vids of the sizes that the inputs decide, each once */
  uint32_t n_open;
  clave_status why; /* owned: the first that is open, in words; NULL: all are fixed */
  program made;     /* owned: its forms alone, which were packed for it */
  int n_rebased;
} compile_plan;

/* A form that a written program carries: packed.h. */
typedef struct packed_entry {
  int number;               /* of the form in the model */
  const program_form *form; /* borrowed */
  size_t offset;            /* of its bytes in the file of all */
} packed_entry;
typedef struct packed_list {
  packed_entry *items; /* owned (n) */
  size_t n, capacity, bytes;
} packed_list;

/* UNSUPPORTED names what cannot be compiled. */
clave_status plan_create(const program *program, const compile_options *options,
                         compile_plan *out) STATUS_CHECK;
void plan_destroy(compile_plan *plan); /* takes half-built ones */
/* Leaves out the constants that `wanted` (n_slots) has not. */
void plan_keep_weights(compile_plan *plan, const bool *wanted);
/* The weights as the executable maps them: weight_bytes. */
clave_status plan_write_weights(const compile_plan *plan, const char *path) STATUS_CHECK;
/* A file of what `append` appends; none where it fails. */
clave_status plan_write(const char *path,
                        clave_status (*append)(const void *of, file_writer *writer),
                        const void *of) STATUS_CHECK;
/* Bytes as they are taken of a buffer. */
size_t plan_aligned(size_t bytes);
/* The scratch memory of a recording's commands, one after the other, on one thread; level: as
 * cpu_command_scratch has it. */
size_t plan_scratch(const recording *recording, const char *level);
/* Whether an input is one of the compiled program's: not a scalar that is fixed. */
bool plan_has_input(const compile_plan *plan, const ir_argument *argument);
uint32_t compiled_inputs(const compile_plan *plan); /* how many */
/* A dimension of an argument as model_argument has it. */
int64_t plan_dim(const compile_plan *plan, const ir_int_or_vid *value);
/* Whether the method is one of those that are compiled. */
bool plan_has_method(const compile_options *options, uint32_t number);
/* What fixes the size, or scalar input, of that name; NULL: nothing does. */
const compile_dim *plan_find_dim(const compile_options *options, const char *name);
/* The open size, or scalar input, of that name; IR_NONE: the method has none. */
uint32_t plan_find_size(const program *program, const ir_method *method, const char *name);
bool plan_is_scalar(const program *program, const ir_argument *argument, const char *name);
/* The constant that state tensor i begins as; IR_NONE: zeros. */
uint32_t plan_initial_constant(const program *program, uint32_t i);

#endif
