#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H
/* The C backend from the inside: what the glue of each op family gets. A glue function cpu_<op>()
 * reads the instruction's struct, turns its operands into ktensors and calls a pure kernel of
 * backend/cpu/kernels/. */
#include "backend/backend.h"
#include "base/kernel.h"
#include "base/threads.h"

/* Memory for one kernel call at a time: a block that grows to the largest need, and what did not
 * fit into it. */
typedef struct cpu_scratch {
  char *block; /* owned, 64-byte aligned; NULL at first */
  size_t size, used;
  struct scratch_extra *extras; /* owned: requests of this call that did not fit */
  size_t wanted;                /* bytes asked for by this call in all */
} cpu_scratch;

typedef struct cpu_span {
  int64_t start_ns, end_ns;
} cpu_span;

typedef struct cpu_stream {
  stream base;
  thread_pool *threads;  /* borrowed from the backend */
  kernel_context kernel; /* its pool is this stream */
  cpu_scratch scratch;
  kernel_fault fault; /* of the node that runs */
  device_fault first; /* since the last finish */
  random_key random;  /* of the node that runs */
  bool profile;
  cpu_span *spans; /* owned, (n_spans), by node number */
  uint32_t n_spans;
} cpu_stream;

/* One row per op, generated from the schema (build/gen/cpu_table.c). */
typedef clave_status (*cpu_op)(cpu_stream *s, const node *n);
extern const cpu_op cpu_table[IR_OP_COUNT];

/* Operand `tid` of the node as kernels see it. */
ktensor cpu_tensor(const node *n, uint32_t tid);
ktensor cpu_bound_ktensor(const bound_tensor *b);
/* `t` laid over b's storage (t: a view of b->t with its own dims, strides and offset). */
ktensor cpu_view(const bound_tensor *b, const tensor *t);
/* b's operand broadcast to the shape of `shape`. */
tensor cpu_broadcast(const bound_tensor *b, const tensor *shape);

/* t with `axis` moved behind the others; a scalar becomes a row of one element. */
ktensor cpu_axis_last(const ktensor *t, int axis);

/* Of convolutions and pools: kernels always have three, missing ones stand in front. */
enum { SPATIAL_DIMS = 3 };
/* The numbers of n spatial dimensions, right-aligned; the missing ones become `absent`. */
void cpu_align_right(const ir_i32s *from, int n, int64_t absent, int64_t out[SPATIAL_DIMS]);
/* The last n sizes of t, right-aligned; the missing ones become 1. */
void cpu_align_dims(const ktensor *t, int n, int64_t out[SPATIAL_DIMS]);

/* A literal or the value slot it names. */
int64_t cpu_int(const node *n, const ir_int_or_vid *v);
double cpu_float(const node *n, const ir_float_or_vid *v);

/* `axis` counted from the end when negative. */
static inline int cpu_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }
/* The scratch memory of the kernels that ran so far is free again; run() does it after every node.
 */
void cpu_free_scratch(cpu_stream *s);
/* The status of a kernel that reports whether its scratch memory was granted. */
static inline clave_status cpu_done(bool ok) { return ok ? NULL : status_no_memory(); }

#endif
