/* The recurrence of state space models: kernels_cl/ssm_scan.cl. */
#include "ops/ssm_scan.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_WIDTH = 16 };

clave_status opencl_ssm_scan(cl_recorder *s, const node *n) {
  ssm_scan_form f;
  describe_ssm_scan(n, &f);
  bool wide = recorder_traits(s)->is_cpu && f.n_state % CPU_WIDTH == 0;
  int64_t items = f.n_batch * f.n_heads * f.head_dim;
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "TYPE", f.x->t.type);
  launch_compute(&l, f.x->t.type);
  launch_define(&l, "W", wide ? CPU_WIDTH : 1);
  launch_define(&l, "RATE", f.rate != NULL);
  launch_args(&l, &(ssm_scan_args){.x = buffer_arg(f.x),
                                   .log_decay = buffer_arg(f.log_decay),
                                   .b = buffer_arg(f.b),
                                   .c = buffer_arg(f.c),
                                   .rate = optional_arg(f.rate),
                                   .state = buffer_arg(f.state),
                                   .out = buffer_arg(f.out),
                                   .x_strides = strides_arg(&f.x->t),
                                   .decay_strides = strides_arg(&f.log_decay->t),
                                   .b_strides = strides_arg(&f.b->t),
                                   .c_strides = strides_arg(&f.c->t),
                                   .items = items,
                                   .length = f.length,
                                   .n_heads = f.n_heads,
                                   .share = f.share,
                                   .head_dim = f.head_dim,
                                   .n_state = f.n_state});
  return launch_loops(&l, items, 1, f.length * f.n_state);
}
