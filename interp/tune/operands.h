#ifndef INTERP_TUNE_OPERANDS_H
#define INTERP_TUNE_OPERANDS_H
/* Memory and data for a node that is measured. */
#include "interp/tune/tuner.h"

/* A node with buffers of its own, in memory for all slots; constants are the session's. */
typedef struct tune_node {
  node nd;
  bound_tensor *tensors; /* owned (n_slots + 2): as records see them, which know constants */
  bound_tensor *bound;   /* owned, the same: as runs do */
  buffer **made;         /* owned (n_made) owned */
  uint32_t n_made;
  void *cache; /* the backend's */
} tune_node;
clave_status tune_node_create(tuner *tuner, const tune_job *job, tune_node *out) STATUS_CHECK;
/* What the node reads is as it was at first, and what it writes holds nothing of use. */
clave_status tune_node_fill(tuner *tuner, const tune_job *job, const tune_node *node) STATUS_CHECK;
/* Elements that a tensor reaches over, from the start of its buffer. */
int64_t tune_reach(const tensor *tensor);
void tune_node_destroy(tuner *tuner, const tune_job *job, tune_node *node);

#endif
