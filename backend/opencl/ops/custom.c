/* Custom ops: kernels of the user's, whose text lies in the program. Their head is written here, of
 * the parameters that the program lists, so that tensors may lie anywhere in a buffer. */
#include "ops/custom.h"

#include <stdio.h>
#include <string.h>

#include "opencl_ops.h"

/* Pointers to a tensor's elements as they are stored. */
#define POINTERS(to)                                                                               \
  {                                                                                                \
    [DTYPE_F32] = to " float *", [DTYPE_F16] = to " half *", [DTYPE_BF16] = to " ushort *",        \
    [DTYPE_F64] = to " double *", [DTYPE_I8] = to " char *", [DTYPE_U8] = to " uchar *",           \
    [DTYPE_I16] = to " short *", [DTYPE_I32] = to " int *", [DTYPE_I64] = to " long *",            \
    [DTYPE_BOOL] = to " uchar *", [DTYPE_U16] = to " ushort *", [DTYPE_U32] = to " uint *",        \
    [DTYPE_U64] = to " ulong *", [DTYPE_F8_E4M3] = to " uchar *", [DTYPE_F8_E5M2] = to " uchar *", \
  }
static const char *const read_types[DTYPE_COUNT] = POINTERS("__global const");
static const char *const written_types[DTYPE_COUNT] = POINTERS("__global");
static const char *const local_types[DTYPE_COUNT] = POINTERS("__local");

typedef struct number_type {
  arg_kind kind;
  const char *name;
} number_type;
static const number_type number_types[IR_CUSTOM_PARAMETER_KIND_COUNT] = {
    [IR_CUSTOM_PARAMETER_KIND_INT] = {ARG_INT, "int"},
    [IR_CUSTOM_PARAMETER_KIND_LONG] = {ARG_LONG, "long"},
    [IR_CUSTOM_PARAMETER_KIND_FLOAT] = {ARG_FLOAT, "float"},
    [IR_CUSTOM_PARAMETER_KIND_DOUBLE] = {ARG_DOUBLE, "double"}};

enum { OFFSET_NAME = 80 };

typedef struct custom_launch {
  const node *n;
  const ir_custom *op;
  const ir_custom_kernel *kernel;
  char (*offsets)[OFFSET_NAME]; /* by parameter: what the offset of its tensor is named */
} custom_launch;

/* ---------------------------------------------------------------- the text */

static arg_info describe_tensor(const custom_launch *c, const ir_custom_parameter *p) {
  dtype t = c->n->tensors[custom_tensor(c->op, p)].t.type;
  const char *const *types = custom_is_result(c->op, p) ? written_types : read_types;
  return (arg_info){.name = p->name, .type = types[t], .kind = ARG_BUFFER};
}

static int list_parameters(const custom_launch *c, arg_info *args) {
  int n = 0;
  for (uint32_t i = 0; i < c->kernel->parameters.count; i++) {
    const ir_custom_parameter *p = &c->kernel->parameters.items[i];
    const number_type *number = &number_types[p->kind];
    if (p->kind == IR_CUSTOM_PARAMETER_KIND_TENSOR) {
      snprintf(c->offsets[i], OFFSET_NAME, "%s_offset", p->name);
      args[n++] = describe_tensor(c, p);
      args[n++] = (arg_info){.name = c->offsets[i], .type = "long", .kind = ARG_LONG};
    } else if (p->kind == IR_CUSTOM_PARAMETER_KIND_LOCAL) {
      args[n++] = (arg_info){.name = p->name, .type = local_types[p->dtype], .kind = ARG_LOCAL};
    } else {
      args[n++] = (arg_info){.name = p->name, .type = number->name, .kind = number->kind};
    }
  }
  return n;
}

static clave_status write_kernel(const void *ctx, text *t, arg_info *args, int *n_args) {
  const custom_launch *c = ctx;
  *n_args = list_parameters(c, args);
  text_printf(t, "%s\n__kernel void %s() {\n", c->kernel->prelude, custom_kernel_name);
  for (int i = 0; i < *n_args; i++)
    if (args[i].kind == ARG_BUFFER) text_printf(t, "  %s += %s;\n", args[i].name, args[i + 1].name);
  text_puts(t, c->kernel->body);
  return text_status(t);
}

/* ---------------------------------------------------------------- the launch */

static void push_argument(launch *l, const custom_launch *c, const ir_custom_parameter *p) {
  if (p->kind == IR_CUSTOM_PARAMETER_KIND_TENSOR)
    launch_push_buffer(l, buffer_arg(&c->n->tensors[custom_tensor(c->op, p)]));
  else if (p->kind == IR_CUSTOM_PARAMETER_KIND_LOCAL)
    launch_push_local(l, (size_t)int_of(c->n, &p->i) * dtype_size(p->dtype));
  else if (p->kind == IR_CUSTOM_PARAMETER_KIND_FLOAT || p->kind == IR_CUSTOM_PARAMETER_KIND_DOUBLE)
    launch_push_float(l, float_of(c->n, &p->f));
  else
    launch_push_int(l, int_of(c->n, &p->i));
}

clave_status opencl_custom(cl_recorder *s, const node *n) {
  const ir_custom *op = n->instruction->op;
  char offsets[MAX_LAUNCH_ARGS][OFFSET_NAME];
  const custom_launch c = {n, op, custom_kernel_for(op, recorder_type(s)), offsets};
  const ir_custom_kernel *k = c.kernel;
  size_t global[3], local[3];
  launch l;
  launch_begin(&l, s, n);
  launch_generated(&l, custom_kernel_name, write_kernel, &c);
  for (uint32_t i = 0; i < k->parameters.count; i++) push_argument(&l, &c, &k->parameters.items[i]);
  for (uint32_t i = 0; i < k->global.count; i++) {
    global[i] = (size_t)int_of(n, &k->global.items[i]);
    local[i] = (size_t)k->local.items[i];
  }
  return status_while(launch_run(&l, (int)k->global.count, global, local), "%s", op->target);
}
