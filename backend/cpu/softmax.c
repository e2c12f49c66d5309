/* Softmax and log-softmax. */
#include "ops/softmax.h"

#include "backend/cpu/kernels/softmax.h"
#include "cpu_ops.h"

clave_status cpu_softmax(cpu_recorder *r, const node *n) {
  softmax_form f;
  describe_softmax(n, &f);
  return cpu_launch(r, softmax,
                    &(softmax_args){.log = f.log,
                                    .x = cpu_view(r, f.x, &f.rows[0]),
                                    .out = cpu_view(r, f.out, &f.rows[1]),
                                    .n_rows = f.n_rows,
                                    .row = f.row});
}
