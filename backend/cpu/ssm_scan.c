/* Records SsmScan. */
#include "ops/ssm_scan.h"

#include "backend/cpu/kernels/ssm_scan.h"
#include "cpu_ops.h"

clave_status cpu_ssm_scan(cpu_recorder *recorder, const node *node) {
  ssm_scan_desc desc;
  describe_ssm_scan(node, &desc);
  return cpu_launch(recorder, ssm_scan,
                    &(ssm_scan_args){.x = cpu_operand(recorder, desc.x),
                                     .log_decay = cpu_operand(recorder, desc.log_decay),
                                     .b = cpu_operand(recorder, desc.b),
                                     .c = cpu_operand(recorder, desc.c),
                                     .rate = cpu_operand(recorder, desc.rate),
                                     .state = cpu_operand(recorder, desc.state),
                                     .out = cpu_operand(recorder, desc.out),
                                     .n_batch = desc.n_batch,
                                     .length = desc.length,
                                     .n_heads = desc.n_heads,
                                     .share = desc.share,
                                     .head_dim = desc.head_dim,
                                     .n_state = desc.n_state});
}
