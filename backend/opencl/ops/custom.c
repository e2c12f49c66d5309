/* Custom ops: the user's kernels, whose text is in the program. Their heads are written here from
 * the program's lists of parameters, so that a tensor may begin at any offset of a buffer. */
#include "ops/custom.h"

#include <stdio.h>
#include <string.h>

#include "opencl_ops.h"

/* The pointer types of a tensor's stored elements. */
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
  const node *node;
  const ir_custom *op;
  const ir_custom_kernel *kernel;
  char (*offsets)[OFFSET_NAME]; /* by parameter: the name of the offset of its tensor */
} custom_launch;

/* ---------------------------------------------------------------- the text */

static arg_info describe_tensor(const custom_launch *launch, const ir_custom_parameter *parameter) {
  dtype t = launch->node->tensors[custom_tensor(launch->op, parameter)].tensor.type;
  const char *const *types = custom_is_result(launch->op, parameter) ? written_types : read_types;
  return (arg_info){.name = parameter->name, .type = types[t], .kind = ARG_BUFFER};
}

static int opencl_custom_list_parameters(const custom_launch *launch, arg_info *args) {
  int n = 0;
  for (uint32_t i = 0; i < launch->kernel->parameters.count; i++) {
    const ir_custom_parameter *parameter = &launch->kernel->parameters.items[i];
    const number_type *number = &number_types[parameter->kind];
    if (parameter->kind == IR_CUSTOM_PARAMETER_KIND_TENSOR) {
      snprintf(launch->offsets[i], OFFSET_NAME, "%s_offset", parameter->name);
      args[n++] = describe_tensor(launch, parameter);
      args[n++] = (arg_info){.name = launch->offsets[i], .type = "long", .kind = ARG_LONG};
    } else if (parameter->kind == IR_CUSTOM_PARAMETER_KIND_LOCAL) {
      args[n++] = (arg_info){
          .name = parameter->name, .type = local_types[parameter->dtype], .kind = ARG_LOCAL};
    } else {
      args[n++] = (arg_info){.name = parameter->name, .type = number->name, .kind = number->kind};
    }
  }
  return n;
}

static clave_status opencl_custom_write_kernel(const void *ctx, text *text, arg_info *args,
                                               int *n_args) {
  const custom_launch *launch = ctx;
  *n_args = opencl_custom_list_parameters(launch, args);
  text_printf(text, "%s\n__kernel void %s() {\n", launch->kernel->prelude, custom_kernel_name);
  for (int i = 0; i < *n_args; i++)
    if (args[i].kind == ARG_BUFFER)
      text_printf(text, "  %s += %s;\n", args[i].name, args[i + 1].name);
  text_puts(text, launch->kernel->body);
  return text_status(text);
}

/* ---------------------------------------------------------------- the launch */

static void push_argument(launch *launch, const custom_launch *custom_launch,
                          const ir_custom_parameter *parameter) {
  if (parameter->kind == IR_CUSTOM_PARAMETER_KIND_TENSOR)
    launch_push_buffer(
        launch,
        buffer_arg(&custom_launch->node->tensors[custom_tensor(custom_launch->op, parameter)]));
  else if (parameter->kind == IR_CUSTOM_PARAMETER_KIND_LOCAL)
    launch_push_local(
        launch, (size_t)int_of(custom_launch->node, &parameter->i) * dtype_size(parameter->dtype));
  else if (parameter->kind == IR_CUSTOM_PARAMETER_KIND_FLOAT ||
           parameter->kind == IR_CUSTOM_PARAMETER_KIND_DOUBLE)
    launch_push_float(launch, float_of(custom_launch->node, &parameter->f));
  else
    launch_push_int(launch, int_of(custom_launch->node, &parameter->i));
}

clave_status opencl_custom(cl_recorder *recorder, const node *node) {
  const ir_custom *op = node->instruction->op;
  char offsets[MAX_LAUNCH_ARGS][OFFSET_NAME];
  const custom_launch custom_launch = {node, op, custom_kernel_for(op, recorder_type(recorder)),
                                       offsets};
  const ir_custom_kernel *kernel = custom_launch.kernel;
  size_t global[3], local[3];
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_generated(&launch, custom_kernel_name, opencl_custom_write_kernel, &custom_launch);
  for (uint32_t i = 0; i < kernel->parameters.count; i++)
    push_argument(&launch, &custom_launch, &kernel->parameters.items[i]);
  for (uint32_t i = 0; i < kernel->global.count; i++) {
    global[i] = (size_t)int_of(node, &kernel->global.items[i]);
    local[i] = (size_t)kernel->local.items[i];
  }
  return status_while(launch_run(&launch, (int)kernel->global.count, global, local), "%s",
                      op->target);
}
