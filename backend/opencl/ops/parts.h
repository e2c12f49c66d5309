#ifndef BACKEND_OPENCL_OPS_PARTS_H
#define BACKEND_OPENCL_OPS_PARTS_H
/* Sums in parts: where a product or a convolution has fewer groups of work-items than the device
 * has room for, each of several groups adds some of its terms, and a second kernel the parts. */
#include "backend/opencl/opencl.h"
#include "ops/matmul.h"

/* How many: 1 where `groups` are enough. work: of a unit of the device, the groups that keep it
 * busy; most: parts that can be; elements: of the result, of which scratch memory has each part. */
int64_t choose_parts(cl_recorder *recorder, const char *family, const tuning_key *key,
                     int64_t groups, int64_t work, int64_t most, int64_t elements);

/* Asks for scratch memory for the parts of a result whose sums are of a dtype. */
clave_status begin_parts(cl_recorder *recorder, int64_t n_parts, int64_t elements,
                         dtype compute) STATUS_CHECK;
/* desc: what its product would be of, without a and b. Takes the op's epilogue. */
clave_status add_parts(cl_recorder *recorder, const node *node, const matmul_form *desc,
                       int64_t n_parts) STATUS_CHECK;

#endif
