#ifndef BACKEND_CPU_RECORDED_H
#define BACKEND_CPU_RECORDED_H
/* Recordings of the CPU backend as data, for programs that are printed (compile/). */
#include "backend/backend.h"

/* Where a command's operand lies: bytes from where the slot begins. */
typedef struct cpu_operand_place {
  uint32_t slot; /* or the number of a packed weight */
  uint16_t at;   /* of the data pointer in the arguments */
  bool is_packed;
  uint16_t unless; /* 0, or a packed weight's number and 1: NULL where that is there */
  int64_t offset;
} cpu_operand_place;

typedef struct cpu_command {
  const kernel_desc *desc;
  void *args;                  /* owned (k->args_size), without data */
  cpu_operand_place *operands; /* owned */
  int n_operands;
  int n_threads; /* at most; 0: all */
} cpu_command;

/* Where a pointer stands in a command's arguments. */
static inline void **cpu_data_at(void *args, uint16_t at) {
  return (void **)(void *)((char *)args + at);
}
/* (count), borrowed; in the order in which they run. */
const cpu_command *cpu_recorded_commands(const recording *recording, int *count);
/* The scratch memory of a command that n_threads run: the most that it takes on any processor, or
 * on those of a level (cpu_level_name), of which 0 may also say that none is known here. */
size_t cpu_command_scratch(const cpu_command *command, int n_threads, const char *level);
char *cpu_buffer_data(const buffer *buffer);

#endif
