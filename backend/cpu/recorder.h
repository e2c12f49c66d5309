#ifndef BACKEND_CPU_RECORDER_H
#define BACKEND_CPU_RECORDER_H
/* The recorder's structs; cpu.h declares its functions. */
#include "backend/cpu/cpu.h"

typedef struct cpu_recording {
  recording base;
  cpu_command *commands; /* owned, (n) */
  int n;
  size_t capacity;
} cpu_recording;

/* The operand of a placeholder. While recording, a data pointer in the arguments is a placeholder:
 * the index of its place in cpu_recorder.places, plus 1. */
typedef struct place {
  uint32_t slot; /* or the index of a packed weight, see is_packed */
  bool is_packed;
  int64_t offset;  /* bytes */
  uint16_t unless; /* see cpu_operand_place */
} place;

struct cpu_recorder {
  backend *backend;
  cpu_recording *out;
  place *places; /* owned, (n_places) */
  int n_places;
  size_t cap_places;
  bool fast;
  bool failed;              /* an allocation failed */
  bool has_epilogue;        /* the node's own commands compute its epilogue */
  variant_choices *choices; /* node.choices */
  int n_threads;            /* for the node's commands; 0: all */
};

#endif
