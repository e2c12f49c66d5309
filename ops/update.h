#ifndef OPS_UPDATE_H
#define OPS_UPDATE_H
/* A tensor with a part of it replaced: what is written where; the rest is in out already. */
#include "ops/copy.h"
#include "ops/scatter.h"

void describe_slice_update(const node *node, copy_form *desc);
void describe_index_copy(const node *node, scatter_form *desc);

#endif
