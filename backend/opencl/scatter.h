#ifndef BACKEND_OPENCL_SCATTER_H
#define BACKEND_OPENCL_SCATTER_H
/* The scatter that several ops are made of. */
#include "backend/opencl/families.h"

typedef struct scatter_operands {
  const bound_tensor *index, *source, *out;
  tensor index_layout; /* of the index over source's dims */
  int axis;
  bool wrap; /* negative indices count from the end */
} scatter_operands;

/* For every position p of the index in order: out[q] = kind(out[q], source[p]), q being p with its
 * axis replaced by index[p]. */
clave_status launch_scatter(cl_recorder *s, const node *n, ir_scatter_kind kind,
                            const scatter_operands *o) STATUS_CHECK;

#endif
