/* Cumulate. */
#include "ops/cumulate.h"

#include "backend/cpu/kernels/cumulate.h"

#include "cpu_ops.h"

static const kcumulate_kind kinds[IR_CUMULATE_KIND_COUNT] = {
    [IR_CUMULATE_KIND_SUM] = KCUMULATE_SUM,
    [IR_CUMULATE_KIND_PROD] = KCUMULATE_PROD,
    [IR_CUMULATE_KIND_MAX] = KCUMULATE_MAX,
    [IR_CUMULATE_KIND_MIN] = KCUMULATE_MIN,
    [IR_CUMULATE_KIND_LOGSUMEXP] = KCUMULATE_LOGSUMEXP,
};

clave_status cpu_cumulate(cpu_recorder *r, const node *n) {
  cumulate_form f;
  describe_cumulate(n, &f);
  cumulate_args args = {.kind = kinds[f.kind],
                        .x = cpu_view(r, f.x, &f.rows[0]),
                        .out = cpu_view(r, f.out, &f.rows[1]),
                        .n_rows = f.n_rows,
                        .row = f.row};
  if (f.indices) args.indices = cpu_view(r, f.indices, &f.rows[1]);
  return cpu_launch(r, cumulate, &args);
}
