#ifndef BACKEND_CPU_RECORDED_H
#define BACKEND_CPU_RECORDED_H
/* The CPU backend's recordings as data, for programs that are printed as C (compile/). */
#include "backend/backend.h"

/* Tells where the data of a command's operand is. */
typedef struct cpu_operand_place {
  uint32_t slot; /* or the index of a packed weight, see is_packed */
  uint16_t at;   /* offset of the data pointer in the arguments, bytes */
  bool is_packed;
  uint16_t unless; /* 0, or 1 + index of a packed weight: if that is present, the pointer is NULL */
  int64_t offset;
} cpu_operand_place;

typedef struct cpu_command {
  const kernel_desc *desc;
  void *args;                  /* owned, desc->args_size bytes, with NULL data pointers */
  cpu_operand_place *operands; /* owned, (n_operands) */
  int n_operands;
  int n_threads; /* limit; 0: all */
} cpu_command;

/* Returns the location of a data pointer in a command's arguments. */
static inline void **cpu_data_at(void *args, uint16_t at) {
  return (void **)(void *)((char *)args + at);
}
/* Returns the commands, (*count), in execution order. Borrowed from the recording. */
const cpu_command *cpu_recorded_commands(const recording *recording, int *count);
/* Returns the scratch bytes of a command that n_threads run. If level is NULL, this is the maximum
 * over all processors; otherwise the maximum over processors of that level (cpu_level_name). A
 * result of 0 may also mean that no such processor is known to this build. */
size_t cpu_command_scratch(const cpu_command *command, int n_threads, const char *level);
char *cpu_buffer_data(const buffer *buffer);

#endif
