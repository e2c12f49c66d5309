#ifndef OPS_UPDATE_H
#define OPS_UPDATE_H
/* Descriptions of SliceUpdate and IndexCopy: they cover only the elements that are replaced. out
 * already contains the rest. */
#include "ops/copy.h"
#include "ops/scatter.h"

void describe_slice_update(const node *node, copy_desc *desc);
void describe_index_copy(const node *node, scatter_desc *desc);

#endif
