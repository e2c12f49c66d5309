#ifndef CLI_STAGES_H
#define CLI_STAGES_H
/* What clave verify compares: the CPU backend's run of a program, node by node, with a device's,
 * with its own fused one, with that of the program after the passes, and with tensors from a file.
 */
#include "cli/node_errors.h"

typedef struct stage {
  const char *name;    /* "device", "fusion", "passes", "reference"; NULL: there is none */
  const char *against; /* "the CPU backend": what is right */
  const char *right;   /* "cpu": what its numbers are called */
  run_pair pair;
  records subject;               /* owned */
  const clave_tensor **pointers; /* owned: pair.subject */
  clave_tensor *others;          /* owned: pair.others */
  clave_tensor *values;          /* owned: of the file */
  uint32_t compared, n_applied;  /* results; rewrites */
} stage;

enum { STAGE_DEVICE, STAGE_FUSION, STAGE_PASSES, STAGE_REFERENCE, N_STAGES };

typedef struct verification {
  model *model; /* the device, with a plain session */
  model cpu;    /* the CPU backend, unfused */
  graph graph;
  input_set inputs;
  records base;
  stage stages[N_STAGES];
} verification;

/* The inputs are there, m has its device and session. free_verification after a failure, too. */
int begin_verification(verification *verification) CHECK;
int compare_device(verification *verification) CHECK;
/* On the CPU backend: the outputs of the fused run with those of the unfused one. */
int compare_fusion(verification *verification) CHECK;
int compare_passes(verification *verification) CHECK;
int compare_reference(verification *verification) CHECK; /* inputs.file is the reference */
void free_verification(verification *verification);

/* What differs first, in a line. Empty: nothing. */
void describe_stage(const verification *verification, const stage *stage, page *out);

#endif
