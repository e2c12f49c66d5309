/* Records softmax and log-softmax. */
#include "ops/softmax.h"

#include "backend/cpu/kernels/softmax.h"
#include "cpu_ops.h"

clave_status cpu_softmax(cpu_recorder *recorder, const node *node) {
  softmax_desc desc;
  describe_softmax(node, &desc);
  return cpu_launch(recorder, softmax,
                    &(softmax_args){.log = desc.log,
                                    .x = cpu_view(recorder, desc.x, &desc.rows[0]),
                                    .out = cpu_view(recorder, desc.out, &desc.rows[1]),
                                    .n_rows = desc.n_rows,
                                    .row = desc.row});
}
