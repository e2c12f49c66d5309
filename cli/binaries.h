#ifndef CLI_BINARIES_H
#define CLI_BINARIES_H
/* Kernels of a program on a device, run so that the device has their binaries. */
#include "cli/model.h"

/* Device and program are open. Runs the method of m (all: each of the program's; text: the model
 * writes a little behind a short prompt, instead) on drawn inputs of the smallest sizes, or those
 * that dims fixes. Results go nowhere. */
typedef struct kernel_runs {
  const char *program; /* its file */
  const text_list *dims;
  bool all, text;
} kernel_runs;
int run_kernels(model *model, const kernel_runs *runs) CHECK;

#endif
