#ifndef CLI_EXECUTED_H
#define CLI_EXECUTED_H
/* Runs an executable that clave compile made on files of inputs. */
#include "cli/inputs.h"

/* Reads from the executable's help whether it runs on an OpenCL device. */
int query_executable(const char *path, bool *is_opencl) CHECK;
/* Runs `path` on the input tensors and compares its outputs with those of the last run of the
 * model's session. They must be equal bit for bit, except that any NaN equals any other. Scalar
 * inputs were fixed at compile time and are not passed. */
int compare_executable(const char *path, const model *model, const input_set *inputs,
                       page *out) CHECK;

#endif
