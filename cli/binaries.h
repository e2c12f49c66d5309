#ifndef CLI_BINARIES_H
#define CLI_BINARIES_H
/* Runs a program's kernels on a device so that the device can save their binaries. */
#include "cli/model.h"

/* The device and the program are open. Runs the model's method, or all methods with `all`. With
 * `text`, the language model instead generates a few tokens after a short prompt. Inputs are random
 * and have the smallest legal sizes, or those that dims fixes; results are discarded. */
typedef struct kernel_runs {
  const char *program; /* path of its file */
  const text_list *dims;
  bool all, text;
} kernel_runs;
int run_kernels(model *model, const kernel_runs *runs) CHECK;

#endif
