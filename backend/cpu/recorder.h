#ifndef BACKEND_CPU_RECORDER_H
#define BACKEND_CPU_RECORDER_H
/* The structs of the recorder, whose functions cpu.h declares. */
#include "backend/cpu/cpu.h"

typedef struct cpu_recording {
  recording base;
  cpu_command *commands; /* owned */
  int n;
  size_t capacity;
} cpu_recording;

/* A data pointer in a struct of arguments holds the number of a place, from 1 on, until a run. */
typedef struct place {
  uint32_t slot; /* or the number of a packed weight */
  bool is_packed;
  int64_t offset;  /* bytes */
  uint16_t unless; /* as cpu_operand_place has it */
} place;

struct cpu_recorder {
  backend *backend;
  cpu_recording *out;
  place *places; /* owned */
  int n_places;
  size_t cap_places;
  bool fast;
  bool failed;              /* memory was out */
  bool has_epilogue;        /* in the node's own commands */
  variant_choices *choices; /* node.choices */
  int n_threads;            /* of the node's commands; 0: all */
};

#endif
