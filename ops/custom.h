#ifndef OPS_CUSTOM_H
#define OPS_CUSTOM_H
/* Custom ops: which of their kernels a device runs, and what the parameters of one stand for. */
#include "ops/node.h"

/* The first kernel for devices of a type ("CPU", "GPU", ...); NULL: there is none. */
const ir_custom_kernel *custom_kernel_for(const ir_custom *op, const char *device_type);
/* Work-items of a group. */
int64_t custom_group_size(const ir_custom_kernel *kernel);
/* The tensor that a parameter points to: an arg, or a result. */
uint32_t custom_tensor(const ir_custom *op, const ir_custom_parameter *parameter);
bool custom_is_result(const ir_custom *op, const ir_custom_parameter *parameter);

#endif
