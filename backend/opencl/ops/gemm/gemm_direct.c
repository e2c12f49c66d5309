/* Products with a constant b on GPUs, without local memory: b is packed once, in words of 16 bytes,
 * which are read as a buffer or as an image. */
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm.h"

/* As in kernels_cl/gemm/gemm_direct.cl. */
enum { DEPTH = 4, SIDE = 8 };

static int64_t columns_of(const gemm *g) {
  return IMAGE_WORD / (int64_t)dtype_size(g->f.b->t.type);
}
static int64_t row_words(const gemm *g) { return ceil_div(g->f.n, columns_of(g)); }
static int64_t count_words(const gemm *g) { return row_words(g) * ceil_div(g->f.k, DEPTH) * DEPTH; }

bool gemm_direct_usable(const gemm *g) {
  return !recorder_traits(g->s)->is_cpu && !g->grouped && !gemm_is_encoded(g) && g->f.k > 0 &&
         gemm_is_small_float(g->f.a->t.type) && gemm_is_small_float(g->f.b->t.type) &&
         gemm_is_small_float(g->f.out->t.type) && gemm_has_one_b(g) &&
         count_words(g) <= INT32_MAX &&
         IMAGE_WORD * (uint64_t)count_words(g) <= recorder_traits(g->s)->max_alloc &&
         recorder_may_pack(g->s, g->f.b);
}

bool gemm_image_usable(const gemm *g) {
  return gemm_direct_usable(g) && (uint64_t)count_words(g) <= recorder_traits(g->s)->image_words;
}

static clave_status pack_b(cl_recorder *s, const gemm *g) {
  launch l;
  launch_begin(&l, s, g->node);
  launch_dtype(&l, "B_TYPE", g->f.b->t.type);
  launch_define(&l, "B_ORDER", g->f.b_n != 1);
  launch_args(&l, &(gemm_direct_pack_args){.b = buffer_arg(g->f.b),
                                           .b_k = g->f.b_k,
                                           .b_n = g->f.b_n,
                                           .packed = scratch_arg(0),
                                           .n_size = g->f.n,
                                           .k_size = g->f.k,
                                           .words = row_words(g)});
  return launch_items(&l, count_words(g));
}

static clave_status pack_words(const gemm *g, int *number) {
  const pack_request f = {.x = g->f.b,
                          .kind = PACKED_GEMM_WORDS,
                          .size = {g->f.k, g->f.n, g->f.b_n},
                          .bytes = IMAGE_WORD * (size_t)count_words(g)};
  cl_recorder *pack;
  TRY(recorder_pack(g->s, &f, number, &pack));
  return pack_b(pack, g);
}

/* Rows of a work-item: a word of b is read for all of them. More sums than these leave registers.
 */
static int rows_of(const gemm *g) {
  enum { SUMS = 32 };
  return g->each ? (int)g->each : (int)(SUMS / columns_of(g) / 2);
}

static void choose_kernel(launch *l, const gemm *g, bool as_image, int form) {
  if (as_image)
    launch_args(l, &(gemm_direct_image_args){.gemm = gemm_operands(g),
                                             .dense = gemm_dense_at(g, absent_arg()),
                                             .b_image = image_arg(form)});
  else
    launch_args(l, &(gemm_direct_args){.gemm = gemm_operands(g),
                                       .dense = gemm_dense_at(g, packed_arg(form))});
}

static clave_status multiply(const gemm *g, bool as_image) {
  int form, rows = rows_of(g);
  TRY(pack_words(g, &form));
  launch l;
  gemm_begin(&l, g);
  launch_define(&l, "ROWS", rows);
  launch_define(&l, "IMAGE", as_image);
  choose_kernel(&l, g, as_image, form);
  launch_epilogue(&l);
  size_t global[3] = {(size_t)row_words(g), (size_t)ceil_div(g->f.m, rows), (size_t)g->f.batches},
         local[3] = {SIDE, SIDE, 1};
  return launch_run(&l, 3, global, local);
}

clave_status gemm_direct(const void *product) { return multiply(product, false); }
clave_status gemm_image(const void *product) { return multiply(product, true); }
