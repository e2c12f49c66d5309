/* The recurrence of state space models: kernels_cl/ssm_scan.cl. */
#include "ops/ssm_scan.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_WIDTH = 16 };

clave_status opencl_ssm_scan(cl_recorder *recorder, const node *node) {
  ssm_scan_desc desc;
  describe_ssm_scan(node, &desc);
  bool wide = recorder_traits(recorder)->is_cpu && desc.n_state % CPU_WIDTH == 0;
  int64_t items = desc.n_batch * desc.n_heads * desc.head_dim;
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "TYPE", desc.x->tensor.type);
  launch_compute(&launch, desc.x->tensor.type);
  launch_define(&launch, "W", wide ? CPU_WIDTH : 1);
  launch_define(&launch, "RATE", desc.rate != NULL);
  launch_args(&launch, &(ssm_scan_args){.x = buffer_arg(desc.x),
                                        .log_decay = buffer_arg(desc.log_decay),
                                        .b = buffer_arg(desc.b),
                                        .c = buffer_arg(desc.c),
                                        .rate = optional_arg(desc.rate),
                                        .state = buffer_arg(desc.state),
                                        .out = buffer_arg(desc.out),
                                        .x_strides = strides_arg(&desc.x->tensor),
                                        .decay_strides = strides_arg(&desc.log_decay->tensor),
                                        .b_strides = strides_arg(&desc.b->tensor),
                                        .c_strides = strides_arg(&desc.c->tensor),
                                        .items = items,
                                        .length = desc.length,
                                        .n_heads = desc.n_heads,
                                        .share = desc.share,
                                        .head_dim = desc.head_dim,
                                        .n_state = desc.n_state});
  return launch_loops(&launch, items, 1, desc.length * desc.n_state);
}
