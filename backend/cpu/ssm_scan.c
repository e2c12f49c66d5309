/* SsmScan. */
#include "ops/ssm_scan.h"

#include "backend/cpu/kernels/ssm_scan.h"
#include "cpu_ops.h"

clave_status cpu_ssm_scan(cpu_recorder *r, const node *n) {
  ssm_scan_form f;
  describe_ssm_scan(n, &f);
  return cpu_launch(r, ssm_scan,
                    &(ssm_scan_args){.x = cpu_operand(r, f.x),
                                     .log_decay = cpu_operand(r, f.log_decay),
                                     .b = cpu_operand(r, f.b),
                                     .c = cpu_operand(r, f.c),
                                     .rate = cpu_operand(r, f.rate),
                                     .state = cpu_operand(r, f.state),
                                     .out = cpu_operand(r, f.out),
                                     .n_batch = f.n_batch,
                                     .length = f.length,
                                     .n_heads = f.n_heads,
                                     .share = f.share,
                                     .head_dim = f.head_dim,
                                     .n_state = f.n_state});
}
