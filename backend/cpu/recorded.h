#ifndef BACKEND_CPU_RECORDED_H
#define BACKEND_CPU_RECORDED_H
/* The CPU backend's recordings as data, for compile/, which prints programs as C. */
#include "backend/backend.h"

/* The location of the data of a command's operand. */
typedef struct cpu_operand_place {
  uint32_t slot; /* or the index of a packed weight, see is_packed */
  uint16_t at;   /* offset of the data pointer in the arguments, bytes */
  bool is_packed;
  uint16_t unless; /* 0, or 1 + index of a packed weight: if this weight is present, the pointer is
                      NULL */
  int64_t offset;
} cpu_operand_place;

typedef struct cpu_command {
  const kernel_desc *desc;
  void *args;                  /* owned, desc->args_size bytes, with NULL data pointers */
  cpu_operand_place *operands; /* owned, (n_operands) */
  int n_operands;
  int n_threads; /* limit; 0: all */
} cpu_command;

/* Returns the address of a data pointer in a command's arguments. */
static inline void **cpu_data_at(void *args, uint16_t at) {
  return (void **)(void *)((char *)args + at);
}
/* Returns the commands (*count), in execution order, borrowed from the recording. */
const cpu_command *cpu_recorded_commands(const recording *recording, int *count);
/* Returns the scratch bytes of a command that n_threads run: the maximum over processors of this
 * level (cpu_level_name), or over all processors if level is NULL. 0 may also mean that this build
 * supports no such processor. */
size_t cpu_command_scratch(const cpu_command *command, int n_threads, const char *level);
char *cpu_buffer_data(const buffer *buffer);

#endif
