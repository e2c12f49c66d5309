/* Products of integers: kernels_cl/matmul_integer.cl. By dot products on CPUs that have them, where
 * b is constant: it is packed once, a in each run. */
#include "backend/opencl/families.h"
#include "opencl_ops.h"
#include "ops/matmul.h"

/* As in kernels_cl/matmul_integer.cl and amx_bytes.h. */
enum { BLOCK = 32, STEP_BYTES = 64 };
/* As in kernels_cl/matmul_integer.cl. */
enum { TILE = 64, STRIP = 16, COLUMNS = 4, TILE_STRIP = 64 };

typedef struct integer_product {
  const node *n;
  integer_matmul_form f;
  bound_tensor out; /* before the epilogue */
  dots_kind dots;
  int64_t words, tiles;
  amx_bytes_kind tiles_by;
  int64_t row_bytes, rows; /* of a, of whole steps and blocks */
} integer_product;

static void begin(launch *l, cl_recorder *s, const integer_product *p) {
  launch_begin(l, s, p->n);
  launch_dots(l, p->dots);
  launch_define(l, "SIGNED", p->f.a->t.type == DTYPE_I8);
}

static int64_t form_words(const integer_product *p) { return p->f.n * (p->words + 1); }
static int64_t packed_words(const integer_product *p) { return p->tiles * TILE * p->words; }

static clave_status finds_dots(cl_recorder *s, integer_product *p, bool *found) {
  *found = false;
  if (!recorder_traits(s)->is_cpu || !recorder_takes_form(s, p->f.b)) return NULL;
  if (packed_words(p) > INT32_MAX / 2 || form_words(p) > INT32_MAX / 2) return NULL;
  TRY(recorder_dots(s, &p->dots));
  *found = p->dots == DOTS_AVX512_VNNI || p->dots == DOTS_AVX_VNNI;
  return NULL;
}

static clave_status fill_weight(cl_recorder *s, const void *ctx) {
  const integer_product *p = ctx;
  launch l;
  begin(&l, s, p);
  launch_args(&l, &(conv_dots_weight_args){.weight = buffer_arg(p->f.b),
                                           .form = scratch_arg(0),
                                           .items = p->f.n,
                                           .k_size = p->f.k,
                                           .words = p->words});
  return launch_loops(&l, p->f.n, 1, p->f.k);
}

static clave_status pack_weight(cl_recorder *s, const integer_product *p, arg_buffer *form) {
  const form_request f = {.x = p->f.b,
                          .kind = FORM_CONV_DOTS,
                          .size = {p->f.n, p->f.k, p->f.a->t.type},
                          .bytes = sizeof(int32_t) * (size_t)form_words(p),
                          .fill = fill_weight,
                          .ctx = p};
  int number;
  TRY(recorder_form(s, &f, &number));
  *form = form_arg(number);
  return NULL;
}

static clave_status pack_rows(cl_recorder *s, const integer_product *p) {
  launch l;
  begin(&l, s, p);
  launch_args(&l, &(matmul_integer_words_args){.a = buffer_arg(p->f.a),
                                               .to = scratch_arg(0),
                                               .items = p->f.m,
                                               .k_size = p->f.k,
                                               .words = p->words});
  return launch_loops(&l, p->f.m, 1, p->f.k);
}

/* Columns of a work-item: fewer where there are few tiles, several for each core. */
static int64_t choose_outputs(cl_recorder *s, const integer_product *p) {
  const int64_t wanted = ceil_div(4 * (int64_t)recorder_traits(s)->compute_units, p->tiles);
  return ceil_div(ceil_div(p->f.n, wanted), STRIP) * STRIP;
}

static clave_status multiply(cl_recorder *s, const integer_product *p) {
  const int64_t outputs = choose_outputs(s, p), items = ceil_div(p->f.n, outputs) * p->tiles;
  arg_buffer form;
  launch l;
  TRY(pack_weight(s, p, &form));
  TRY(recorder_scratch(s, sizeof(uint32_t) * (size_t)packed_words(p)));
  TRY(pack_rows(s, p));
  begin(&l, s, p);
  launch_define(&l, "HAS_BIAS", p->f.bias != NULL);
  launch_args(&l, &(matmul_integer_dots_args){.a = scratch_arg(0),
                                              .form = form,
                                              .bias = optional_arg(p->f.bias),
                                              .out = buffer_arg(&p->out),
                                              .items = items,
                                              .outputs = outputs,
                                              .tiles = p->tiles,
                                              .m_size = p->f.m,
                                              .n_size = p->f.n,
                                              .words = p->words});
  launch_epilogue_of_result(&l);
  return launch_loops(&l, items, 1, outputs * TILE * p->words);
}

/* ---------------------------------------------------------------- by tiles */

/* Whether rows of a are whole blocks and steps. */
static bool is_whole(const integer_product *p) {
  return p->rows == p->f.m && p->row_bytes == p->f.k;
}

static clave_status finds_tiles(cl_recorder *s, integer_product *p, bool *found) {
  const int64_t columns = ceil_div(p->f.n, TILE_STRIP) * TILE_STRIP;
  *found = false;
  p->row_bytes = ceil_div(p->f.k, STEP_BYTES) * STEP_BYTES;
  p->rows = ceil_div(p->f.m, BLOCK) * BLOCK;
  if (!recorder_traits(s)->is_cpu || p->f.k == 0 || !recorder_takes_form(s, p->f.b)) return NULL;
  if (columns > INT32_MAX / 2 / (p->row_bytes + 4)) return NULL;
  if (!is_whole(p) && p->rows > INT32_MAX / p->row_bytes) return NULL; /* far more than a has */
  TRY(recorder_amx_bytes(s, &p->tiles_by));
  *found = p->tiles_by != AMX_BYTES_NONE;
  return NULL;
}

static void begin_tiles(launch *l, cl_recorder *s, const integer_product *p) {
  launch_begin(l, s, p->n);
  launch_define(l, "AMX_BYTES", (int)p->tiles_by);
}

static clave_status fill_tiles(cl_recorder *s, const void *ctx) {
  const integer_product *p = ctx;
  const int64_t items = ceil_div(p->f.n, BLOCK) * BLOCK;
  launch l;
  begin_tiles(&l, s, p);
  launch_args(&l, &(conv_dots_tiles_weight_args){.weight = buffer_arg(p->f.b),
                                                 .form = scratch_arg(0),
                                                 .items = items,
                                                 .n_outputs = p->f.n,
                                                 .k_size = p->f.k,
                                                 .depth = ceil_div(p->f.k, STEP_BYTES),
                                                 .turned = 1});
  return launch_loops(&l, items, 1, p->f.k);
}

static clave_status pack_tiles(cl_recorder *s, const integer_product *p, arg_buffer *form) {
  const int64_t columns = ceil_div(p->f.n, BLOCK) * BLOCK;
  const form_request f = {.x = p->f.b,
                          .kind = FORM_MATMUL_TILES,
                          .size = {p->f.n, p->f.k},
                          .bytes = (size_t)(columns * p->row_bytes + p->f.n * 4),
                          .fill = fill_tiles,
                          .ctx = p};
  int number;
  TRY(recorder_form(s, &f, &number));
  *form = form_arg(number);
  return NULL;
}

/* Whole blocks and steps of a, which its own rows may be. */
static clave_status pad_rows(cl_recorder *s, const integer_product *p, arg_buffer *a) {
  launch l;
  *a = buffer_arg(p->f.a);
  if (is_whole(p)) return NULL;
  TRY(recorder_scratch(s, (size_t)(p->rows * p->row_bytes)));
  *a = scratch_arg(0);
  begin_tiles(&l, s, p);
  launch_args(&l, &(matmul_integer_rows_args){.a = buffer_arg(p->f.a),
                                              .to = scratch_arg(0),
                                              .items = p->rows,
                                              .m_size = p->f.m,
                                              .k_size = p->f.k,
                                              .row_bytes = p->row_bytes});
  return launch_loops(&l, p->rows, 1, p->row_bytes);
}

static clave_status multiply_tiles(cl_recorder *s, const integer_product *p) {
  enum { MOST_ROWS = 256, TASKS = 4 /* work-items of a core, at least */ };
  const int64_t strips = ceil_div(p->f.n, TILE_STRIP),
                wanted = ceil_div(TASKS * (int64_t)recorder_traits(s)->compute_units, strips),
                least = ceil_div(p->rows / BLOCK, wanted) * BLOCK, each = min_i64(MOST_ROWS, least),
                chunks = ceil_div(p->f.m, each), items = strips * chunks;
  arg_buffer form, a;
  launch l;
  TRY(pack_tiles(s, p, &form));
  TRY(pad_rows(s, p, &a));
  begin_tiles(&l, s, p);
  launch_define(&l, "SIGNED", p->f.a->t.type == DTYPE_I8);
  launch_define(&l, "HAS_BIAS", p->f.bias != NULL);
  launch_args(&l, &(matmul_integer_tiles_args){.a = a,
                                               .form = form,
                                               .bias = optional_arg(p->f.bias),
                                               .out = buffer_arg(&p->out),
                                               .items = items,
                                               .each = each,
                                               .chunks = chunks,
                                               .m_size = p->f.m,
                                               .n_size = p->f.n,
                                               .row_bytes = p->row_bytes});
  launch_epilogue_of_result(&l);
  return launch_loops(&l, items, 1, each * TILE_STRIP * p->row_bytes);
}

/* ---------------------------------------------------------------- of b as it is */

static clave_status multiply_bytes(cl_recorder *s, const integer_product *p) {
  const int64_t blocks = ceil_div(p->f.n, COLUMNS), items = p->f.m * blocks;
  launch l;
  launch_begin(&l, s, p->n);
  launch_define(&l, "SIGNED", p->f.a->t.type == DTYPE_I8);
  launch_define(&l, "HAS_BIAS", p->f.bias != NULL);
  launch_args(&l, &(matmul_integer_args){.a = buffer_arg(p->f.a),
                                         .b = buffer_arg(p->f.b),
                                         .bias = optional_arg(p->f.bias),
                                         .out = buffer_arg(&p->out),
                                         .items = items,
                                         .blocks = blocks,
                                         .n_size = p->f.n,
                                         .k_size = p->f.k});
  launch_epilogue_of_result(&l);
  return launch_loops(&l, items, 1, COLUMNS * p->f.k);
}

clave_status opencl_matmul_integer(cl_recorder *s, const node *n) {
  integer_product p = {.n = n};
  bool has_dots, has_tiles;
  describe_matmul_integer(n, &p.f);
  if (p.f.m == 0 || p.f.n == 0) return NULL;
  if (p.f.n > INT32_MAX / 2 || p.f.k > INT32_MAX / 2)
    return UNSUPPORTED("products of integers of 2^30 columns or more");
  p.out = op_result(s, p.f.out);
  p.words = ceil_div(p.f.k, 4);
  p.tiles = ceil_div(p.f.m, TILE);
  TRY(finds_tiles(s, &p, &has_tiles));
  if (has_tiles) return multiply_tiles(s, &p);
  TRY(finds_dots(s, &p, &has_dots));
  return has_dots ? multiply(s, &p) : multiply_bytes(s, &p);
}
