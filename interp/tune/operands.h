#ifndef INTERP_TUNE_OPERANDS_H
#define INTERP_TUNE_OPERANDS_H
/* Memory and data for a node that is measured. */
#include "interp/tune/tuner.h"

/* A node with its own buffers for all operands except constants, which are the session's. */
typedef struct tune_node {
  node nd;
  bound_tensor *tensors; /* owned (n_slots + 2): for recording, with constants marked */
  bound_tensor *bound;   /* owned (n_slots + 2): for running */
  buffer **made;         /* owned (n_made), and so are the buffers */
  uint32_t n_made;
  void *cache; /* the backend's cache of this node */
} tune_node;
clave_status tune_node_create(tuner *tuner, const tune_job *job, tune_node *out) STATUS_CHECK;
/* Writes the initial data of operands, and a pattern into results. */
clave_status tune_node_fill(tuner *tuner, const tune_job *job, const tune_node *node) STATUS_CHECK;
/* Returns the number of elements that a tensor spans from the start of its buffer. */
int64_t tune_span(const tensor *tensor);
void tune_node_destroy(tuner *tuner, const tune_job *job, tune_node *node);

#endif
