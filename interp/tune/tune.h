#ifndef INTERP_TUNE_H
#define INTERP_TUNE_H
/* Measuring the variants of a program's nodes, shared by the files of this folder. */
#include "interp/run/running.h"
#include "interp/tune/contest.h"

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
  session *s;
  const tune_options *o;
  executable *x;          /* owned: planned for the tuner alone */
  tune_job *jobs, **last; /* owned */
  seen_choice *seen;      /* owned: all choices of the jobs, each once */
  size_t n_seen, cap_seen;
  size_t n_done;
  int64_t deadline_ns; /* 0: none */
  bool is_stopped;     /* by a callback, or the budget is spent: what is measured is left */
  bool has_rest;       /* nodes are planned only when the program runs */
} tuner;

/* ---- plan.c ---- */
/* Plans the method, and keeps the nodes that have something to choose. */
clave_status tune_collect(tuner *t, uint32_t index) STATUS_CHECK;
void tune_free(tuner *t);
/* The choice among those that were seen; NULL: it was not. */
seen_choice *tune_find_seen(const tuner *t, const variant_choice *c);
clave_status tune_add_seen(tuner *t, const variant_choice *c) STATUS_CHECK;

/* ---- operands.c ---- */
/* A node with buffers of its own, in memory for all slots; constants are the session's. */
typedef struct tune_node {
  node nd;
  bound_tensor *tensors; /* owned (n_slots + 2): as records see them, which know constants */
  bound_tensor *bound;   /* owned, the same: as runs do */
  buffer **made;         /* owned (n_made) owned */
  uint32_t n_made;
  void *cache; /* the backend's */
} tune_node;
clave_status tune_node_create(tuner *t, const tune_job *j, tune_node *out) STATUS_CHECK;
/* What the node reads is as it was at first, and what it writes holds nothing of use. */
clave_status tune_node_fill(tuner *t, const tune_job *j, const tune_node *n) STATUS_CHECK;
/* Elements that a tensor reaches over, from the start of its buffer. */
int64_t tune_reach(const tensor *t);
void tune_node_destroy(tuner *t, const tune_job *j, tune_node *n);

/* ---- measure.c ---- */
/* Measures one choice of a node, the recordings of which `c` describes. *winner: its index; *ratio:
 * how much of the time by rule it takes. *good: how many gave right results; 0: the rule's does
 * not, or fails. Void where t->is_stopped. */
clave_status tune_measure(tuner *t, const tune_job *j, tune_node *n, const variant_choice *c,
                          int *winner, double *ratio, int *good) STATUS_CHECK;

#endif
