#ifndef BACKEND_OPENCL_OPS_PARTS_H
#define BACKEND_OPENCL_OPS_PARTS_H
/* Split-k sums: if a product or convolution has too few groups of work-items to fill the device,
 * several groups each add some of its terms, and a second kernel adds the partial sums. */
#include "backend/opencl/opencl.h"
#include "ops/matmul.h"

/* Returns the number of parts: 1 if `groups` are enough. work: groups that keep one compute unit
 * busy; most: limit on the parts; elements: size of the result and of each part. */
int64_t choose_parts(cl_recorder *recorder, const char *family, const tuning_key *key,
                     int64_t groups, int64_t work, int64_t most, int64_t elements);

/* Requests scratch memory for the partial sums, whose dtype is that of `compute`. */
clave_status begin_parts(cl_recorder *recorder, int64_t n_parts, int64_t elements,
                         dtype compute) STATUS_CHECK;
/* Adds the parts and runs the op's epilogue. desc: the product, without a and b. */
clave_status add_parts(cl_recorder *recorder, const node *node, const matmul_desc *desc,
                       int64_t n_parts) STATUS_CHECK;

#endif
