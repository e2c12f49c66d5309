#ifndef BACKEND_OPENCL_OPS_SPLITS_H
#define BACKEND_OPENCL_OPS_SPLITS_H
/* Split-k sums: if a product or convolution has too few work-groups to fill the device,
 * several work-groups each add some of its terms, and a second kernel adds the partial sums. */
#include "backend/opencl/opencl.h"
#include "ops/matmul.h"

/* Returns the number of splits: 1 if `work_groups` fill the device. work: work-groups that fill one
 * compute unit; most: maximum number of splits; elements: of the result and of each split. */
int64_t choose_splits(cl_recorder *recorder, const char *family, const tuning_key *key,
                      int64_t work_groups, int64_t work, int64_t most, int64_t elements);

/* Requests scratch memory for the partial sums, whose dtype is that of `compute`. */
clave_status begin_splits(cl_recorder *recorder, int64_t n_splits, int64_t elements,
                          dtype compute) STATUS_CHECK;
/* Adds the splits and runs the op's epilogue. desc: the product, whose a and b are not read. */
clave_status add_splits(cl_recorder *recorder, const node *node, const matmul_desc *desc,
                        int64_t n_splits) STATUS_CHECK;

#endif
