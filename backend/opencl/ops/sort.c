/* Stable merge sort: kernels_cl/sort.cl. Of every run only the first k entries go on, so that a
 * small k costs little more than one pass over x. On CPUs runs are as long as the rows, or as
 * leaves some for every core: made by insertion where few entries are wanted, else by digits. */
#include "ops/sort.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { CPU_RUN = 128, GPU_RUN = 16 }; /* entries that are sorted by insertion at most */
enum { CPU_CHUNK = 1024, GPU_CHUNK = 16 };
enum { CPU_STRETCH = 4096, GPU_STRETCH = 1024 }; /* elements: at least; at most */

typedef struct sorting {
  cl_recorder *s;
  const node *n;
  sort_form f;
  tensor kept[2], over[2]; /* of x and out */
  bool long_key, by_digits;
  int64_t stretch, length, m, pitch; /* length: of a run; m: entries of a row, first `pitch` */
  int now;                           /* which half of the scratch memory has the entries */
} sorting;

static bool has_long_key(dtype t) { return t == DTYPE_F64 || t == DTYPE_I64; }

static int run_of(const sorting *g) { return recorder_traits(g->s)->is_cpu ? CPU_RUN : GPU_RUN; }

/* Scratch memory: entries of both halves, each a key and a place as large. */
static size_t entry_bytes(const sorting *g) { return g->long_key ? 16 : 8; }
static int64_t entries_offset(const sorting *g, int half) { return half * g->f.n_rows * g->pitch; }

static clave_status make_entries(sorting *g) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)(g->f.n_rows * g->pitch), 2 * entry_bytes(g), &bytes))
    return status_no_memory();
  return recorder_scratch(g->s, bytes);
}

/* Work-items that are worth having: enough for every core, and of what is merged later one. */
static int64_t wanted_runs(const sorting *g) {
  const device_traits *t = recorder_traits(g->s);
  return (int64_t)t->compute_units * (!t->is_cpu ? 512 : g->by_digits ? 1 : 4);
}

/* A row's stretches are as long as each other. */
static int64_t cpu_stretch(const sorting *g) {
  int64_t least = max_i64(CPU_STRETCH, ceil_div(g->f.n_rows * g->f.size, wanted_runs(g)));
  return ceil_div(g->f.size, ceil_div(g->f.size, least));
}

static int64_t gpu_stretch(const sorting *g, int64_t run) {
  if (g->f.k >= run) return run;
  return max_i64(run, min_i64(GPU_STRETCH, g->f.n_rows * g->f.size / wanted_runs(g)));
}

static void lay_out(sorting *g) {
  split_rows(g->f.rows, 2, g->kept, g->over);
  g->long_key = has_long_key(g->f.x->t.type);
  int64_t run = run_of(g);
  bool is_cpu = recorder_traits(g->s)->is_cpu;
  g->by_digits = is_cpu && g->f.k > run;
  g->stretch = is_cpu ? cpu_stretch(g) : gpu_stretch(g, run);
  g->length = g->by_digits ? g->stretch : min_i64(g->f.k, run);
  g->m = g->f.size / g->stretch * g->length + min_i64(g->f.size % g->stretch, g->length);
  g->pitch = g->m;
}

static void begin_runs(launch *l, const sorting *g) {
  launch_begin(l, g->s, g->n);
  launch_dtype(l, "X_TYPE", g->f.x->t.type);
  launch_compute(l, g->f.x->t.type);
  launch_define(l, "DESCENDING", g->f.descending);
  launch_define(l, "LONG_KEY", g->long_key);
}

static clave_status launch_runs(sorting *g) {
  launch l;
  begin_runs(&l, g);
  launch_define(&l, "RUN", run_of(g));
  int64_t per_row = ceil_div(g->f.size, g->stretch);
  launch_args(&l, &(sort_runs_args){.x = buffer_arg(g->f.x),
                                    .entries = scratch_arg(entries_offset(g, 0)),
                                    .kept_dims = dims_arg(&g->kept[0]),
                                    .x_strides = strides_arg(&g->kept[0]),
                                    .items = g->f.n_rows * per_row,
                                    .per_row = per_row,
                                    .pitch = g->pitch,
                                    .n = g->f.size,
                                    .step = g->over[0].strides[0],
                                    .stretch = g->stretch,
                                    .keep = g->length});
  return launch_loops(&l, g->f.n_rows * per_row, 1, g->stretch * 4);
}

static clave_status launch_digits(sorting *g) {
  launch l;
  begin_runs(&l, g);
  int64_t per_row = ceil_div(g->f.size, g->stretch);
  launch_args(&l, &(sort_digits_args){.x = buffer_arg(g->f.x),
                                      .entries = scratch_arg(entries_offset(g, 0)),
                                      .entries_b = scratch_arg(entries_offset(g, 1)),
                                      .kept_dims = dims_arg(&g->kept[0]),
                                      .x_strides = strides_arg(&g->kept[0]),
                                      .items = g->f.n_rows * per_row,
                                      .per_row = per_row,
                                      .n = g->f.size,
                                      .step = g->over[0].strides[0],
                                      .stretch = g->stretch,
                                      .keep = per_row > 1 ? g->stretch : g->f.k});
  return launch_loops(&l, g->f.n_rows * per_row, 1, g->stretch * 8);
}

static clave_status launch_merge(sorting *g) {
  launch l;
  launch_begin(&l, g->s, g->n);
  launch_define(&l, "LONG_KEY", g->long_key);
  launch_dtype(&l, "X_TYPE", g->long_key ? DTYPE_I64 : DTYPE_I32);
  launch_compute(&l, DTYPE_I64);
  if (g->f.n_rows * g->pitch > INT32_MAX) launch_wide(&l);
  int64_t keep = min_i64(2 * g->length, g->f.k), pairs = ceil_div(g->m, 2 * g->length);
  int64_t chunk = min_i64(keep, recorder_traits(g->s)->is_cpu ? CPU_CHUNK : GPU_CHUNK);
  int64_t per_pair = ceil_div(keep, chunk), items = g->f.n_rows * pairs * per_pair;
  launch_args(&l, &(sort_merge_args){.entries = scratch_arg(entries_offset(g, g->now)),
                                     .out = scratch_arg(entries_offset(g, 1 - g->now)),
                                     .items = items,
                                     .per_row = pairs,
                                     .per_pair = per_pair,
                                     .pitch = g->pitch,
                                     .m = g->m,
                                     .length = g->length,
                                     .keep = keep,
                                     .chunk = chunk});
  TRY(launch_loops(&l, items, 1, chunk * 4));
  g->m = g->m / (2 * g->length) * keep + min_i64(g->m % (2 * g->length), keep);
  g->length = keep;
  g->now = 1 - g->now;
  return NULL;
}

static clave_status launch_order(sorting *g) {
  if (g->f.size > UINT32_MAX) return UNSUPPORTED("sorting rows of 2^32 elements or more");
  TRY(make_entries(g));
  TRY(g->by_digits ? launch_digits(g) : launch_runs(g));
  while (g->m > g->length) TRY(launch_merge(g));
  return NULL;
}

clave_status launch_sort(cl_recorder *s, const node *n, const bound_tensor *x, int axis,
                         sorted_places *out) {
  sorting g = {.s = s, .n = n};
  describe_order(x, axis, &g.f);
  lay_out(&g);
  TRY(launch_order(&g));
  const int64_t step = (int64_t)(entry_bytes(&g) / sizeof(uint32_t));
  *out = (sorted_places){entries_offset(&g, g.now) * step, g.pitch * step, step};
  return NULL;
}

static clave_status launch_store(sorting *g) {
  launch l;
  launch_begin(&l, g->s, g->n);
  launch_dtype(&l, "TYPE", moved_type(g->f.x->t.type));
  launch_define(&l, "LONG_KEY", g->long_key);
  launch_dtype(&l, "X_TYPE", g->long_key ? DTYPE_I64 : DTYPE_I32);
  launch_define(&l, "INDICES", g->f.indices != NULL);
  launch_compute(&l, DTYPE_I64);
  launch_args(&l, &(sort_store_args){.x = buffer_arg(g->f.x),
                                     .entries = scratch_arg(entries_offset(g, g->now)),
                                     .out = buffer_arg(g->f.out),
                                     .indices = optional_arg(g->f.indices),
                                     .kept_dims = dims_arg(&g->kept[0]),
                                     .x_strides = strides_arg(&g->kept[0]),
                                     .out_strides = strides_arg(&g->kept[1]),
                                     .items = g->f.n_rows * g->f.k,
                                     .k = g->f.k,
                                     .pitch = g->pitch,
                                     .x_step = g->over[0].strides[0],
                                     .out_step = g->over[1].strides[0]});
  return launch_loops(&l, g->f.n_rows * g->f.k, 1, 8);
}

clave_status opencl_sort(cl_recorder *s, const node *n) {
  sorting g = {.s = s, .n = n};
  describe_sort(n, &g.f);
  if (g.f.n_rows * g.f.k == 0) return NULL;
  lay_out(&g);
  TRY(launch_order(&g));
  return launch_store(&g);
}
