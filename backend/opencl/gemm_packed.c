/* The CPU's GEMM: packs a once, then one launch over strips of columns and chunks of rows. */
#include "backend/opencl/gemm.h"

/* As in kernels_cl/gemm.cl. */
enum { DEPTH = 256 };
/* Columns of out per work-item: a block of b (128 KB) and of a stay in the second-level cache. */
enum { MAX_STRIP = 128 };

static int panel_rows(uint32_t vector_width) { return vector_width == 8 ? 6 : 8; }
/* What fits in local memory, whole panels; 0: not even one. */
static int64_t strip_of(const gemm *g) {
  const device_traits *t = recorder_traits(g->s);
  int64_t fits = (int64_t)(t->local_memory / (sizeof(float) * DEPTH)),
          panel = 2 * (int64_t)t->vector_width;
  return (fits < MAX_STRIP ? fits : MAX_STRIP) / panel * panel;
}

bool gemm_packed_usable(const gemm *g) {
  return recorder_traits(g->s)->is_cpu && g->k > 0 && strip_of(g) > 0;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int b_order(const gemm *g) { return g->b_n == 1 || g->n == 1 ? 0 : g->b_k == 1 ? 1 : 2; }

/* One key for both kernels: one program. */
static void begin(launch *l, const gemm *g, const char *kernel) {
  gemm_begin(l, g, "gemm", kernel);
  launch_define(l, "WIDTH", (int)recorder_traits(g->s)->vector_width);
  launch_define(l, "A_ORDER", g->a_k == 1);
  launch_define(l, "B_ORDER", b_order(g));
}

static clave_status pack_a(const gemm *g, int64_t panels) {
  launch l;
  begin(&l, g, "gemm_pack");
  launch_buffer(&l, g->a);
  launch_strides(&l, &g->batch_a);
  launch_dims(&l, &g->batch_a);
  launch_int(&l, g->a_m);
  launch_int(&l, g->a_k);
  launch_scratch(&l, 0);
  launch_int(&l, g->m);
  launch_int(&l, g->k);
  size_t global[3] = {(size_t)panels, (size_t)divide_up(g->k, DEPTH), (size_t)g->batches},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

/* Panels of rows per work-item: all of them, so that b is packed once, unless that leaves cores
 * idle. Below MIN_PANELS packing b again costs more than another core brings. */
static int64_t share_panels(const gemm *g, int64_t panels) {
  enum { MIN_PANELS = 4 };
  int64_t strips = divide_up(g->n, strip_of(g)) * g->batches,
          wanted = 4 * (int64_t)recorder_traits(g->s)->compute_units;
  int64_t chunks = strips >= wanted ? 1 : divide_up(wanted, strips);
  if (chunks > panels / MIN_PANELS) chunks = panels / MIN_PANELS;
  return chunks > 1 ? divide_up(panels, chunks) : panels;
}

static clave_status multiply(const gemm *g, int64_t panels, int64_t sums_offset) {
  int64_t each = share_panels(g, panels), strip = strip_of(g);
  launch l;
  begin(&l, g, "gemm");
  launch_scratch(&l, 0);
  launch_buffer(&l, g->b);
  launch_strides(&l, &g->batch_b);
  launch_int(&l, g->b_k);
  launch_int(&l, g->b_n);
  if (g->bias)
    launch_buffer(&l, g->bias);
  else
    launch_absent(&l);
  launch_strides(&l, &g->batch_bias);
  launch_int(&l, g->bias_m);
  launch_int(&l, g->bias_n);
  launch_buffer(&l, g->out);
  if (g->out->t.type == DTYPE_F32)
    launch_buffer(&l, g->out);
  else
    launch_scratch(&l, sums_offset);
  launch_dims(&l, &g->batch_a);
  launch_int(&l, g->m);
  launch_int(&l, g->n);
  launch_int(&l, g->k);
  launch_int(&l, each);
  launch_int(&l, strip);
  launch_float(&l, g->alpha);
  launch_float(&l, g->beta);
  launch_local(&l, sizeof(float) * DEPTH * (size_t)strip);
  size_t global[3] = {(size_t)divide_up(g->n, strip), (size_t)divide_up(panels, each),
                      (size_t)g->batches},
         local[3] = {1, 1, 1};
  return launch_run(&l, 3, global, local);
}

clave_status gemm_packed(const gemm *g) {
  int64_t rows = panel_rows(recorder_traits(g->s)->vector_width), panels = divide_up(g->m, rows);
  int64_t packed = g->batches * panels * rows * g->k;
  bool waits = g->out->t.type != DTYPE_F32 && g->k > DEPTH;
  int64_t sums = waits ? g->batches * g->m * g->n : 0;
  TRY(recorder_scratch(g->s, sizeof(float) * (size_t)(packed + sums)));
  TRY(pack_a(g, panels));
  return multiply(g, panels, waits ? packed : 0);
}
