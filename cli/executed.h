#ifndef CLI_EXECUTED_H
#define CLI_EXECUTED_H
/* An executable of clave compile at work: files in, files out. */
#include "cli/inputs.h"

/* What its help says that it runs on: an OpenCL device, or the CPU. */
int ask_executable(const char *path, bool *is_opencl) CHECK;
/* Runs `path` on the tensors of the inputs and compares what it writes with what the model's
 * session gave in its last run, bit for bit but for which NaN a NaN is. Scalar inputs are what the
 * executable was compiled for, and no files. */
int compare_executable(const char *path, const model *model, const input_set *inputs,
                       page *out) CHECK;

#endif
