/* Copies any strides to a contiguous tensor, by lines, by points or by transposed tiles. */
#include "ops/copy.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

/* MIN_LINE: shorter lines do not fill a vector. PART: elements per work-item on a CPU. */
enum { MIN_LINE = 16, TILE = 16, TILE_ROWS = 4, PART = 4096 };

static void opencl_copy_begin(launch *launch, cl_recorder *recorder, const node *node,
                              const tensor *tensor) {
  launch_begin(launch, recorder, node);
  launch_define(launch, "SIZE", (int)dtype_size(tensor->type));
}

/* Returns `whole` without dimension `axis`. */
static tensor without_axis(const tensor *whole, int axis) {
  tensor rest = *whole;
  for (int i = axis; i + 1 < rest.rank; i++) {
    rest.dims[i] = rest.dims[i + 1];
    rest.strides[i] = rest.strides[i + 1];
  }
  rest.rank--;
  return rest;
}

clave_status opencl_copy_lines(cl_recorder *recorder, const node *node, const bound_tensor *from,
                               arg_buffer to) {
  const tensor *x = &from->tensor;
  int inner = x->rank - 1;
  int64_t line = x->rank ? x->dims[inner] : 1, stride = x->rank ? x->strides[inner] : 1;
  tensor outer = x->rank ? without_axis(x, inner) : *x;
  const int64_t rows = tensor_numel(&outer), part = max_i64(min_i64(line, PART), 1),
                each = max_i64(PART / part, 1);
  launch launch;
  opencl_copy_begin(&launch, recorder, node, x);
  launch_define(&launch, "DENSE", stride == 1);
  launch_args(&launch, &(copy_lines_args){.x = buffer_arg(from),
                                          .dims = dims_arg(&outer),
                                          .strides = strides_arg(&outer),
                                          .stride = stride,
                                          .out = to,
                                          .n = line,
                                          .rows = rows,
                                          .span = part,
                                          .each = each});
  if (recorder_traits(recorder)->is_cpu)
    return launch_run(&launch, 2,
                      (size_t[]){(size_t)ceil_div(line, part), (size_t)ceil_div(rows, each)},
                      (size_t[]){1, 1});
  return launch_run(&launch, 2, (size_t[]){(size_t)line, (size_t)rows}, (size_t[]){LOCAL_SIZE, 1});
}

static clave_status copy_points(cl_recorder *recorder, const node *node, const copy_desc *desc) {
  const tensor *x = &desc->x.tensor;
  launch launch;
  opencl_copy_begin(&launch, recorder, node, x);
  launch_args(&launch, &(copy_points_args){.x = buffer_arg(&desc->x),
                                           .dims = dims_arg(x),
                                           .strides = strides_arg(x),
                                           .out = buffer_arg(&desc->out),
                                           .n = tensor_numel(x)});
  return launch_items(&launch, tensor_numel(x));
}

static clave_status copy_tiles(cl_recorder *recorder, const node *node, const copy_desc *desc,
                               int axis) {
  const tensor *x = &desc->x.tensor, *out = &desc->out.tensor;
  int inner = x->rank - 1;
  int64_t rows = x->dims[axis], columns = x->dims[inner];
  tensor x_planes = without_axis(x, inner), out_planes = without_axis(out, inner);
  x_planes = without_axis(&x_planes, axis);
  out_planes = without_axis(&out_planes, axis);
  launch launch;
  opencl_copy_begin(&launch, recorder, node, x);
  launch_args(&launch, &(copy_tiles_args){.x = buffer_arg(&desc->x),
                                          .x_stride = x->strides[inner],
                                          .out = buffer_arg(&desc->out),
                                          .out_stride = out->strides[axis],
                                          .rows = rows,
                                          .columns = columns,
                                          .dims = dims_arg(&x_planes),
                                          .x_strides = strides_arg(&x_planes),
                                          .out_strides = strides_arg(&out_planes)});
  size_t down = (size_t)((rows + TILE - 1) / TILE), across = (size_t)((columns + TILE - 1) / TILE);
  size_t planes = (size_t)tensor_numel(&x_planes);
  if (recorder_traits(recorder)->is_cpu)
    return launch_run(&launch, 3, (size_t[]){across, down, planes}, (size_t[]){1, 1, 1});
  return launch_run(&launch, 3, (size_t[]){across * TILE, down * TILE_ROWS, planes},
                    (size_t[]){TILE, TILE_ROWS, 1});
}

/* Returns the contiguous dimension if it is not the inner one and a tile fits, else -1. */
static int transposed_axis(const tensor *tensor) {
  if (tensor->rank < 2 || tensor->strides[tensor->rank - 1] == 1 ||
      tensor->dims[tensor->rank - 1] < TILE)
    return -1;
  for (int i = 0; i < tensor->rank - 1; i++)
    if (tensor->strides[i] == 1 && tensor->dims[i] >= TILE) return i;
  return -1;
}

static bool opencl_copy_accepts_tiles(const cl_recorder *recorder, const tensor *tensor, int axis) {
  const int64_t tiles = max_i64(tensor->dims[axis] * tensor->dims[tensor->rank - 1], 1);
  return recorder_accepts_work_groups(recorder, ceil_div(tensor->dims[axis], TILE)) &&
         recorder_accepts_work_groups(recorder, tensor_numel(tensor) / tiles);
}

static bool accepts_lines(const cl_recorder *recorder, const tensor *tensor) {
  const int64_t line = tensor->rank ? tensor->dims[tensor->rank - 1] : 1;
  return tensor->rank <= 1 ||
         (line >= MIN_LINE && recorder_accepts_work_groups(recorder, tensor_numel(tensor) / line));
}

clave_status opencl_copy(cl_recorder *recorder, const node *node) {
  copy_desc desc;
  describe_copy(node, &desc);
  const tensor *tensor = &desc.x.tensor;
  int axis = transposed_axis(tensor);
  if (axis >= 0 && opencl_copy_accepts_tiles(recorder, tensor, axis))
    return copy_tiles(recorder, node, &desc, axis);
  if (accepts_lines(recorder, tensor))
    return opencl_copy_lines(recorder, node, &desc.x, buffer_arg(&desc.out));
  return copy_points(recorder, node, &desc);
}

clave_status opencl_bitcast(cl_recorder *recorder, const node *node) {
  copy_desc desc;
  describe_bitcast(node, &desc);
  return move_elements(recorder, node, &desc.x, &desc.out);
}
