#ifndef OPS_CUSTOM_H
#define OPS_CUSTOM_H
/* Custom ops: selects the kernel for a device and resolves the kernel's parameters. */
#include "ops/node.h"

/* Returns the first kernel for a device type ("CPU", "GPU", ...), NULL if none exists. */
const ir_custom_kernel *custom_kernel_for(const ir_custom *op, const char *device_type);
/* Returns the work-items per work-group. */
int64_t custom_group_size(const ir_custom_kernel *kernel);
/* Returns the tensor that a parameter points to, which is an arg or a result of the op. */
uint32_t custom_tensor(const ir_custom *op, const ir_custom_parameter *parameter);
bool custom_is_result(const ir_custom *op, const ir_custom_parameter *parameter);

#endif
