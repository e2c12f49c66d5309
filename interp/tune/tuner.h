#ifndef INTERP_TUNE_TUNER_H
#define INTERP_TUNE_TUNER_H
/* Measuring the variants of a program's nodes, shared by the files of this folder. */
#include "base/tuning.h"
#include "interp/run/session.h"

/* A node as it was planned, without buffers. */
typedef struct tune_job {
  struct tune_job *next;
  int backend;
  const ir_instruction *instruction; /* of the tuner's executable */
  bound_tensor *operands;            /* owned (n): those that the instruction has, by slot */
  uint32_t n;
  scalar_value *values; /* owned (n_values) */
} tune_job;

typedef struct seen_choice {
  char family[TUNING_FAMILY], key[TUNING_KEY];
  bool is_settled; /* measured, or taken as it is */
} seen_choice;

typedef struct tuner {
  session *session;
  const tune_options *options;
  executable *executable; /* owned: planned for the tuner alone */
  tune_job *jobs, **last; /* owned */
  seen_choice *seen;      /* owned: all choices of the jobs, each once */
  size_t n_seen, cap_seen;
  size_t n_done;
  int64_t deadline_ns; /* 0: none */
  bool is_stopped;     /* by a callback, or the budget is spent: what is measured is left */
  bool has_rest;       /* nodes are planned only when the program runs */
} tuner;

#endif
