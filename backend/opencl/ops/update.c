/* Writes a part of a tensor whose other elements are in place: slice_update, index_copy. */
#include "ops/update.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/scatter.h"
#include "opencl_ops.h"

clave_status opencl_slice_update(cl_recorder *recorder, const node *node) {
  copy_desc desc;
  describe_slice_update(node, &desc);
  return move_elements(recorder, node, &desc.x, &desc.out);
}

clave_status opencl_index_copy(cl_recorder *recorder, const node *node) {
  scatter_desc desc;
  describe_index_copy(node, &desc);
  return launch_scatter(recorder, node, &desc);
}
