#ifndef BACKEND_OPENCL_OPS_CONV_CONV_GROUPS_H
#define BACKEND_OPENCL_OPS_CONV_CONV_GROUPS_H
/* Direct convolutions in float by groups of work-items. */
#include "backend/opencl/opencl.h"
#include "ops/conv.h"

/* Whether `opencl_conv_groups` runs it on the recorder's device, which takes no transposed ones. */
bool conv_groups_usable(const cl_recorder *s, const conv_form *f);
/* weight: f's, as it lies or as floats; of weight_type. key: decides which block a group makes. */
clave_status opencl_conv_groups(cl_recorder *s, const node *n, const conv_form *f,
                                arg_buffer weight, dtype weight_type, tuning_key key) STATUS_CHECK;

#endif
