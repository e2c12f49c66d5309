#ifndef CLI_BINARIES_H
#define CLI_BINARIES_H
/* Runs a program's kernels on a device so that the device can save their binaries. */
#include "cli/model.h"

/* A request for run_kernels, whose device and program are open. It runs the model's method or, with
 * `all`, every method. With `text`, the language model instead generates a few tokens after short
 * prompts. Inputs are random and have the smallest legal sizes, or the sizes in `dims`; results are
 * discarded. */
typedef struct kernel_runs {
  const char *program; /* path of its file */
  const text_list *dims;
  bool all, text;
} kernel_runs;
int run_kernels(model *model, const kernel_runs *runs) CHECK;

#endif
