/* Upsample. */
#include "ops/upsample.h"

#include <string.h>

#include "backend/cpu/kernels/upsample.h"
#include "cpu_ops.h"

clave_status cpu_upsample(cpu_recorder *r, const node *n) {
  upsample_form f;
  describe_upsample(n, &f);
  upsample_args p = {.x = cpu_operand(r, f.x).data,
                     .out = cpu_operand(r, f.out).data,
                     .x_type = f.x->t.type,
                     .out_type = f.out->t.type,
                     .planes = f.planes,
                     .precision = f.precision};
  memcpy(p.axes, f.axes, sizeof p.axes);
  return cpu_launch(r, upsample, &p);
}
