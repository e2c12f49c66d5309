/* Records Cumulate. */
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

clave_status cpu_cumulate(cpu_recorder *recorder, const node *node) {
  cumulate_desc desc;
  describe_cumulate(node, &desc);
  cumulate_args args = {.kind = kinds[desc.kind],
                        .x = cpu_view(recorder, desc.x, &desc.rows[0]),
                        .out = cpu_view(recorder, desc.out, &desc.rows[1]),
                        .n_rows = desc.n_rows,
                        .row = desc.row};
  if (desc.indices) args.indices = cpu_view(recorder, desc.indices, &desc.rows[1]);
  return cpu_launch(recorder, cumulate, &args);
}
