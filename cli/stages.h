#ifndef CLI_STAGES_H
#define CLI_STAGES_H
/* The comparisons of clave verify: the CPU backend's unfused run, node by node, against a device,
 * against its own fused run, against the program after the passes, and against tensors from a file.
 */
#include "cli/node_errors.h"

typedef struct stage {
  const char *name;    /* "device", "fusion", "passes", "reference"; NULL: not compared */
  const char *against; /* the other side, such as "the CPU backend" */
  const char *right;   /* label of the reference numbers, such as "cpu" */
  run_pair pair;
  records subject;               /* owned */
  const clave_tensor **pointers; /* owned; pair.subject */
  clave_tensor *others;          /* owned; pair.others */
  clave_tensor *values;          /* owned; from the file */
  uint32_t compared, n_applied;  /* numbers of results, and of rewrites */
} stage;

enum { STAGE_DEVICE, STAGE_FUSION, STAGE_PASSES, STAGE_REFERENCE, N_STAGES };

typedef struct verification {
  model *model; /* on the device, with a plain session */
  model cpu;    /* on the CPU backend, unfused */
  graph graph;
  input_set inputs;
  records base;
  stage stages[N_STAGES];
} verification;

/* The inputs are given; the model has its device and session. Call free_verification even on
 * failure. */
int begin_verification(verification *verification) CHECK;
int compare_device(verification *verification) CHECK;
/* Compares, on the CPU backend, the outputs of the fused run with those of the unfused run. */
int compare_fusion(verification *verification) CHECK;
int compare_passes(verification *verification) CHECK;
int compare_reference(verification *verification) CHECK; /* inputs.file is the reference */
void free_verification(verification *verification);

/* Describes the first difference in one line. The page stays empty if none exists. */
void describe_stage(const verification *verification, const stage *stage, page *out);

#endif
