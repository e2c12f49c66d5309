/* Copy: any strides to contiguous, by lines, points or transposing tiles. */
#include "ops/copy.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

/* Below MIN_LINE an inner dimension does not fill a vector. PART: elements of a work-item of a CPU.
 */
enum { MIN_LINE = 16, TILE = 16, TILE_ROWS = 4, PART = 4096 };

static void begin(launch *l, cl_recorder *s, const node *n, const tensor *x) {
  launch_begin(l, s, n);
  launch_define(l, "SIZE", (int)dtype_size(x->type));
}

/* t without dimension `axis`. */
static tensor without_axis(const tensor *t, int axis) {
  tensor r = *t;
  for (int i = axis; i + 1 < r.rank; i++) {
    r.dims[i] = r.dims[i + 1];
    r.strides[i] = r.strides[i + 1];
  }
  r.rank--;
  return r;
}

clave_status opencl_copy_lines(cl_recorder *s, const node *n, const bound_tensor *from,
                               arg_buffer to) {
  const tensor *x = &from->t;
  int inner = x->rank - 1;
  int64_t line = x->rank ? x->dims[inner] : 1, stride = x->rank ? x->strides[inner] : 1;
  tensor outer = x->rank ? without_axis(x, inner) : *x;
  const int64_t rows = tensor_numel(&outer), part = max_i64(min_i64(line, PART), 1),
                each = max_i64(PART / part, 1);
  launch l;
  begin(&l, s, n, x);
  launch_define(&l, "DENSE", stride == 1);
  launch_args(&l, &(copy_lines_args){.x = buffer_arg(from),
                                     .dims = dims_arg(&outer),
                                     .strides = strides_arg(&outer),
                                     .stride = stride,
                                     .out = to,
                                     .n = line,
                                     .rows = rows,
                                     .span = part,
                                     .each = each});
  if (recorder_traits(s)->is_cpu)
    return launch_run(&l, 2, (size_t[]){(size_t)ceil_div(line, part), (size_t)ceil_div(rows, each)},
                      (size_t[]){1, 1});
  return launch_run(&l, 2, (size_t[]){(size_t)line, (size_t)rows}, (size_t[]){LOCAL_SIZE, 1});
}

static clave_status copy_points(cl_recorder *s, const node *n, const copy_form *f) {
  const tensor *x = &f->x.t;
  launch l;
  begin(&l, s, n, x);
  launch_args(&l, &(copy_points_args){.x = buffer_arg(&f->x),
                                      .dims = dims_arg(x),
                                      .strides = strides_arg(x),
                                      .out = buffer_arg(&f->out),
                                      .n = tensor_numel(x)});
  return launch_items(&l, tensor_numel(x));
}

static clave_status copy_tiles(cl_recorder *s, const node *n, const copy_form *f, int axis) {
  const tensor *x = &f->x.t, *out = &f->out.t;
  int inner = x->rank - 1;
  int64_t rows = x->dims[axis], columns = x->dims[inner];
  tensor x_planes = without_axis(x, inner), out_planes = without_axis(out, inner);
  x_planes = without_axis(&x_planes, axis);
  out_planes = without_axis(&out_planes, axis);
  launch l;
  begin(&l, s, n, x);
  launch_args(&l, &(copy_tiles_args){.x = buffer_arg(&f->x),
                                     .x_stride = x->strides[inner],
                                     .out = buffer_arg(&f->out),
                                     .out_stride = out->strides[axis],
                                     .rows = rows,
                                     .columns = columns,
                                     .dims = dims_arg(&x_planes),
                                     .x_strides = strides_arg(&x_planes),
                                     .out_strides = strides_arg(&out_planes)});
  size_t down = (size_t)((rows + TILE - 1) / TILE), across = (size_t)((columns + TILE - 1) / TILE);
  size_t planes = (size_t)tensor_numel(&x_planes);
  if (recorder_traits(s)->is_cpu)
    return launch_run(&l, 3, (size_t[]){across, down, planes}, (size_t[]){1, 1, 1});
  return launch_run(&l, 3, (size_t[]){across * TILE, down * TILE_ROWS, planes},
                    (size_t[]){TILE, TILE_ROWS, 1});
}

/* The dimension that is contiguous in x, if it is not the inner one and a tile fits; else -1. */
static int transposed_axis(const tensor *x) {
  if (x->rank < 2 || x->strides[x->rank - 1] == 1 || x->dims[x->rank - 1] < TILE) return -1;
  for (int i = 0; i < x->rank - 1; i++)
    if (x->strides[i] == 1 && x->dims[i] >= TILE) return i;
  return -1;
}

static bool takes_tiles(const cl_recorder *s, const tensor *x, int axis) {
  const int64_t tiles = max_i64(x->dims[axis] * x->dims[x->rank - 1], 1);
  return recorder_takes_groups(s, ceil_div(x->dims[axis], TILE)) &&
         recorder_takes_groups(s, tensor_numel(x) / tiles);
}

static bool takes_lines(const cl_recorder *s, const tensor *x) {
  const int64_t line = x->rank ? x->dims[x->rank - 1] : 1;
  return x->rank <= 1 || (line >= MIN_LINE && recorder_takes_groups(s, tensor_numel(x) / line));
}

clave_status opencl_copy(cl_recorder *s, const node *n) {
  copy_form f;
  describe_copy(n, &f);
  const tensor *x = &f.x.t;
  int axis = transposed_axis(x);
  if (axis >= 0 && takes_tiles(s, x, axis)) return copy_tiles(s, n, &f, axis);
  if (takes_lines(s, x)) return opencl_copy_lines(s, n, &f.x, buffer_arg(&f.out));
  return copy_points(s, n, &f);
}

clave_status opencl_bitcast(cl_recorder *s, const node *n) {
  copy_form f;
  describe_bitcast(n, &f);
  return move_elements(s, n, &f.x, &f.out);
}
