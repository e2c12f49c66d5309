/* Writing a part of a tensor whose rest is there already: slice_update, index_copy. */
#include "ops/update.h"

#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/scatter.h"
#include "opencl_ops.h"

clave_status opencl_slice_update(cl_recorder *s, const node *n) {
  copy_form f;
  describe_slice_update(n, &f);
  return move_elements(s, n, &f.x, &f.out);
}

clave_status opencl_index_copy(cl_recorder *s, const node *n) {
  scatter_form f;
  describe_index_copy(n, &f);
  return launch_scatter(s, n, &f);
}
