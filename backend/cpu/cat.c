/* Cat: each operand is copied to its place along the axis. */
#include "ops/cat.h"

#include "backend/cpu/kernels/copy.h"
#include "cpu_ops.h"

clave_status cpu_cat(cpu_recorder *r, const node *n) {
  cat_form f;
  describe_cat(n, &f);
  while (next_part(&f))
    TRY(cpu_launch(r, copy,
                   &(copy_args){.x = cpu_operand(r, f.x), .out = cpu_operand(r, &f.part)}));
  return NULL;
}
