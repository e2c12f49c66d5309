#ifndef INTERP_TUNE_TUNER_H
#define INTERP_TUNE_TUNER_H
/* The tuner's state, shared by the files of this folder. */
#include "base/tuning.h"
#include "interp/run/session.h"

/* A planned node without buffers. */
typedef struct tune_job {
  struct tune_job *next;
  int backend;
  const ir_instruction *instruction; /* in the tuner's executable */
  bound_tensor *operands;            /* owned (n): the instruction's operands, in their order */
  uint32_t n;
  scalar_value *values; /* owned (n_values) */
} tune_job;

typedef struct seen_choice {
  char family[TUNING_FAMILY], key[TUNING_KEY];
  bool is_settled; /* measured, or reported without measuring */
} seen_choice;

typedef struct tuner {
  session *session;
  const tune_options *options;
  executable *executable; /* owned: used only for planning in the tuner */
  tune_job *jobs, **last; /* owned */
  seen_choice *seen;      /* owned: all choices of the jobs, without duplicates */
  size_t n_seen, cap_seen;
  size_t n_done;
  int64_t deadline_ns; /* 0: no deadline */
  bool is_stopped;     /* by a callback or the deadline; no more choices are measured */
  bool has_rest;       /* some nodes can be planned only while the program runs */
} tuner;

#endif
