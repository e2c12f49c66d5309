/* The CPU's GEMM: packs a once, then one launch over strips of columns and chunks of rows. */
#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm_codes.h"

/* k of a block of the panels of a, as in kernels_cl/gemm/gemm_tile.h; and rows of a work-item whose
 * sums lie in local memory, beside DEPTH k of its columns of b. */
enum { DEPTH = 128, SUM_ROWS = 256 };
/* Columns of out per work-item: a block of b (64 or 128 KB) and of a stay in the second-level
 * cache. */
enum { MAX_STRIP = 128, MOST_STRIP = 256 /* by variant, as in the kernel */ };
/* Work-items for each core, so that all are done at about the same time. */
enum { ITEMS_PER_UNIT = 8 };

/* Where b is. */
typedef struct b_place {
  arg_buffer buffer;
  bool packed; /* in panels of gemm_panels.c */
  bool coded;  /* in panels of gemm_codes.c */
  code_panels layout;
  int codes; /* the form's number */
} b_place;

static int panel_rows(const gemm *g) { return gemm_panel_rows(recorder_traits(g->s)); }
static int64_t count_panels(const gemm *g) { return ceil_div(g->f.m, panel_rows(g)); }
/* What fits in local memory, whole panels; 0: not even one. */
static int64_t fitting_strip(const gemm *g, int64_t most) {
  const device_traits *t = recorder_traits(g->s);
  int64_t fits = (int64_t)(t->local_memory / (sizeof(float) * SUM_ROWS)),
          panel = 2 * (int64_t)t->vector_width;
  return min_i64(fits, most) / panel * panel;
}
/* Whether b becomes floats, or their columns in panels, in local memory. */
static bool copies_b(const gemm *g) {
  return !gemm_panels_usable(g) || g->f.b->t.type != DTYPE_F32;
}
static bool sums_are_local(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  const size_t strip = sizeof(float) * SUM_ROWS * 2 * (size_t)t->vector_width;
  return gemm_panels_usable(g) && (copies_b(g) ? 2 : 1) * strip <= t->local_memory;
}
/* Columns of a work-item: fewer where there would be few work-items. */
static int64_t strip_of(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  const bool is_local = sums_are_local(g);
  int64_t most = g->each ? g->each : MAX_STRIP, rows = ceil_div(g->f.m, SUM_ROWS) * g->f.batches,
          least = 2 * (int64_t)t->vector_width;
  if (is_local && copies_b(g)) most = min_i64(most, fitting_strip(g, INT64_MAX) / 2);
  while (is_local && !g->each && most / 2 >= least &&
         ceil_div(g->f.n, most) * rows < ITEMS_PER_UNIT * (int64_t)t->compute_units)
    most /= 2;
  return fitting_strip(g, most);
}

bool gemm_packed_takes(const gemm *g, int64_t columns) {
  return fitting_strip(g, columns) == columns && columns != fitting_strip(g, MAX_STRIP);
}

bool gemm_packed_usable(const gemm *g) {
  return recorder_traits(g->s)->is_cpu && g->f.k > 0 &&
         fitting_strip(g, g->each ? g->each : MAX_STRIP) > 0;
}

static int b_order(const gemm *g) {
  return g->f.b_n == 1 || g->f.n == 1 ? 0 : g->f.b_k == 1 ? 1 : 2;
}

static void define_shape(launch *l, const gemm *g) {
  launch_define(l, "WIDTH", (int)recorder_traits(g->s)->vector_width);
  launch_define(l, "A_ORDER", g->f.a_k == 1);
}

/* Whether all batches have the same a: a weight. */
static bool has_one_a(const gemm *g) {
  for (int i = 0; i < g->f.batch_a.rank; i++)
    if (g->f.batch_a.dims[i] > 1 && g->f.batch_a.strides[i] != 0) return false;
  return true;
}
static int64_t count_matrices(const gemm *g) { return has_one_a(g) ? 1 : g->f.batches; }

static clave_status pack_a(const gemm *g, arg_buffer a, arg_buffer packed) {
  launch l;
  gemm_begin_a(&l, g);
  define_shape(&l, g);
  launch_args(&l, &(gemm_pack_args){.a = a,
                                    .a_batch = strides_arg(&g->f.batch_a),
                                    .batch_dims = dims_arg(&g->f.batch_a),
                                    .a_m = g->f.a_m,
                                    .a_k = g->f.a_k,
                                    .packed = packed,
                                    .m_size = g->f.m,
                                    .k_size = g->f.k});
  size_t global[3] = {(size_t)count_panels(g), (size_t)ceil_div(g->f.k, DEPTH),
                      (size_t)count_matrices(g)},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

/* Panels of rows per work-item: all of them where it packs b, which is then packed once, unless
 * that leaves cores idle; below MIN_PANELS packing b again costs more than another core brings.
 * Where sums are local, as many as have room there. */
static int64_t share_panels(const gemm *g, int64_t panels) {
  enum { MIN_PANELS = 4 };
  const bool is_local = sums_are_local(g);
  int64_t strips = ceil_div(g->f.n, strip_of(g)) * g->f.batches,
          wanted = (is_local ? ITEMS_PER_UNIT : 4) * (int64_t)recorder_traits(g->s)->compute_units;
  int64_t chunks = strips >= wanted ? 1 : ceil_div(wanted, strips);
  if (chunks > panels / MIN_PANELS) chunks = panels / MIN_PANELS;
  if (is_local) chunks = max_i64(chunks, ceil_div(panels, SUM_ROWS / panel_rows(g)));
  return chunks > 1 ? ceil_div(panels, chunks) : panels;
}

static panels_params all_panels(const gemm *g, arg_buffer a, int64_t a_stride, int64_t each) {
  return (panels_params){
      .a = a,
      .a_stride = a_stride,
      .bias = optional_arg(g->f.bias),
      .bias_batch = strides_arg(&g->f.batch_bias),
      .bias_m = g->f.bias_m,
      .bias_n = g->f.bias_n,
      .out = buffer_arg(g->f.out),
      .sums = g->f.out->t.type == DTYPE_F32 ? buffer_arg(g->f.out) : scratch_arg(0),
      .batch_dims = dims_arg(&g->f.batch_a),
      .m_size = g->f.m,
      .n_size = g->f.n,
      .k_size = g->f.k,
      .panels_each = each,
      .strip = strip_of(g),
      .alpha = g->f.alpha,
      .beta = g->f.beta};
}

/* The kernel for where b is, and its arguments. */
static void choose_kernel(launch *l, const gemm *g, const panels_params *panels, const b_place *b) {
  const size_t room = sizeof(float) * SUM_ROWS * (size_t)strip_of(g);
  const arg_local memory = local_arg(room * (size_t)(copies_b(g) + sums_are_local(g)));
  if (b->coded) {
    gemm_codes_define(l, &b->layout);
    launch_args(l, &(gemm_codes_args){.panels = *panels,
                                      .codes = gemm_codes_operand(&b->layout, b->codes),
                                      .packed = memory});
  } else if (gemm_is_encoded(g)) {
    launch_encoding(l, &g->f.b->t.encoding);
    launch_args(l, &(gemm_encoded_args){
                       .panels = *panels, .encoded = encoded_operand(g->f.b), .packed = memory});
  } else {
    launch_dtype(l, "B_TYPE", g->f.b->t.type);
    launch_define(l, "B_ORDER", b_order(g));
    launch_define(l, "B_PACKED", b->packed);
    launch_define(l, "SUMS_LOCAL", sums_are_local(g));
    launch_args(
        l, &(gemm_args){.panels = *panels, .dense = gemm_dense_at(g, b->buffer), .memory = memory});
  }
}

static clave_status multiply(const gemm *g, arg_buffer a, int64_t a_stride, const b_place *b) {
  int64_t panels = count_panels(g), each = share_panels(g, panels);
  const panels_params all = all_panels(g, a, a_stride, each);
  launch l;
  gemm_begin_a(&l, g);
  define_shape(&l, g);
  choose_kernel(&l, g, &all, b);
  launch_epilogue(&l);
  size_t global[3] = {(size_t)ceil_div(g->f.n, strip_of(g)), (size_t)ceil_div(panels, each),
                      (size_t)g->f.batches},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

/* The floats of g->codes behind `used` floats of scratch memory, then panels of them in `to`. */
static clave_status pack_codes(const gemm *g, int64_t used, arg_buffer to) {
  const arg_buffer floats = scratch_arg(used);
  int64_t decoded = tensor_numel(&g->codes->t);
  TRY(recorder_scratch(g->s, sizeof(float) * (size_t)(used + decoded)));
  TRY(opencl_decode(g->s, g->node, g->codes, floats));
  return pack_a(g, floats, to);
}

static int64_t matrix_floats(const gemm *g) { return count_panels(g) * panel_rows(g) * g->f.k; }
static int64_t packed_floats(const gemm *g) { return count_matrices(g) * matrix_floats(g); }

static clave_status pack_weight_a(cl_recorder *s, const gemm *product) {
  gemm g = *product;
  g.s = s;
  if (g.codes) return pack_codes(&g, packed_floats(&g), scratch_arg(0));
  return pack_a(&g, buffer_arg(g.f.a), scratch_arg(0));
}

clave_status gemm_a_panels(const gemm *g, int64_t used, arg_buffer *a) {
  const bound_tensor *x = g->codes ? g->codes : g->f.a;
  bool is_packed = recorder_may_pack(g->s, x);
  int64_t packed = packed_floats(g);
  *a = scratch_arg(used);
  TRY(recorder_scratch(g->s, sizeof(float) * (size_t)(used + (is_packed ? 0 : packed))));
  if (!is_packed && g->codes) return pack_codes(g, used + packed, *a);
  if (!is_packed) return pack_a(g, buffer_arg(g->f.a), *a);
  const pack_request f = {.x = x,
                          .kind = PACKED_GEMM_A,
                          .size = {panel_rows(g), g->f.m, g->f.k},
                          .bytes = sizeof(float) * (size_t)packed};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(g->s, &f, &number, &pack));
  TRY(pack_weight_a(pack, g));
  *a = packed_arg(number);
  return NULL;
}

clave_status gemm_packed(const void *product) {
  const gemm *g = product;
  int64_t matrix = matrix_floats(g), matrices = count_matrices(g);
  bool waits = g->f.out->t.type != DTYPE_F32 && g->f.k > DEPTH && !sums_are_local(g);
  int64_t sums = waits ? g->f.batches * g->f.m * g->f.n : 0;
  arg_buffer a;
  b_place b = {.buffer = buffer_arg(g->f.b), .packed = gemm_panels_usable(g)};
  b.coded = gemm_codes_usable(g, &b.layout);
  TRY(gemm_a_panels(g, sums, &a));
  if (b.packed) TRY(gemm_b_panels(g, &b.buffer));
  if (b.coded) TRY(gemm_codes_form(g, &b.layout, &b.codes));
  return multiply(g, a, matrices > 1 ? matrix : 0, &b);
}
