/* Attention: kernels_cl/attention*.cl. Chooses the kernel and the class of head sizes, and splits
 * the keys where there are few rows. With a cache: rows are stored, then attended to, by one kernel
 * where there is one new row; where a ring has no room for all of them, piece by piece. In pages:
 * token by token where there are few for each sequence, else those that stand together and are of
 * one. On CPUs floats of many keys whose rows lie apart are copied before. */
#include "ops/attention.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { SPLIT_KEYS = 128, LARGEST_CLASS = 256, FEW_ROWS = 8, FEW_ITEMS = 3, FEW_TOKENS = 2 };

/* With a cache: a piece of its queries, [skip, skip + f.n_queries), and of its new rows. */
typedef struct attention {
  cl_recorder *s;
  attention_form f;
  const attention_cached_form *cache; /* NULL without */
  const attention_paged_form *pages;  /* NULL: the cache is in one piece */
  int64_t skip;
  int64_t items, n_splits;
  int kernel;
  bool is_few;     /* rows, as a token's are */
  int width, rows; /* rows: of a work-item, or of a group of them */
  bool by_token;   /* work-items, or groups, have rows of one token each */
  bool one_token;  /* a kernel stores the one new row, too */
  bool one_block;  /* keys and values are copied to where each head's follow each other */
} attention;

/* Private arrays come in few sizes: the kernel's key must not depend on shapes. */
static int size_class(int64_t n) { return n <= 64 ? 64 : n <= 128 ? 128 : LARGEST_CLASS; }
/* One token's heads that share keys, for one program at all lengths. */
static int rows_class(int64_t share) { return share > 4 ? 8 : share > 2 ? 4 : share > 1 ? 2 : 1; }

/* How many rows there are of the queries in all pieces. */
static int64_t count_rows(const attention *a) {
  return a->cache ? a->cache->attention.n_queries : a->f.n_queries;
}

/* ---------------------------------------------------------------- variants */

static tuning_key attention_key(const cl_recorder *s, const attention *a) {
  const attention_form *f = &a->f;
  tuning_key k = recorder_key(s);
  tuning_key_text(&k, "q", dtype_name(f->q->t.type));
  tuning_key_text(&k, "k", dtype_name(f->k->t.type));
  tuning_key_int(&k, "batch", f->n_batch);
  tuning_key_int(&k, "heads", f->n_kv);
  tuning_key_int(&k, "share", f->share);
  tuning_key_int(&k, "queries", f->n_queries);
  tuning_key_int(&k, "keys", f->n_keys);
  tuning_key_int(&k, "size", f->head_dim);
  tuning_key_int(&k, "v", f->v_dim);
  if (f->mask) tuning_key_text(&k, "mask", dtype_name(f->mask->t.type));
  if (f->causal) tuning_key_int(&k, "causal", 1);
  if (a->cache) tuning_key_int(&k, "window", a->cache->window);
  if (a->pages) tuning_key_int(&k, "pages", a->pages->n_pages);
  return k;
}

/* Local memory of attention_groups and attention_team: queries, keys or values, weights, and what
 * rows share. */
static bool fits_group(const attention *a, int rows) {
  enum { KEYS = 32, DEPTH = 32, TEAM_KEYS = 64, SIDE = 8 };
  const device_traits *t = recorder_traits(a->s);
  const int q_max = size_class(a->f.head_dim), keys = rows ? KEYS : TEAM_KEYS;
  int64_t columns = rows ? (int64_t)(rows + 1) * q_max + DEPTH * (KEYS + 1) + rows * (KEYS + SIDE)
                         : FEW_ROWS * (q_max + TEAM_KEYS * (SIDE + 2) + SIDE + 1);
  bool is_wide = a->f.q->t.type == DTYPE_F64;
  return (uint64_t)(columns * (is_wide ? 8 : 4) + keys * 8) <= t->local_memory;
}

/* Sums of a work-item of attention_groups, which have to stay in its registers. */
static bool fits_registers(const attention *a, int rows) {
  enum { LARGEST = 32 * 128 };
  return rows * size_class(a->f.v_dim) <= LARGEST;
}

/* The kernels: a work-item for a block of rows of one head, or for the few rows of one token;
 * groups of work-items for few rows, and for blocks. parameters: the kernel; rows of a group's
 * block. */
enum { BLOCK, ROW, TEAM, GROUPS };

static bool fits_classes(const attention *a) {
  return max_i64(a->f.head_dim, a->f.v_dim) <= LARGEST_CLASS;
}

static bool takes_row(const void *problem, const kernel_variant *variant) {
  const attention *a = problem;
  (void)variant;
  return fits_classes(a) && recorder_traits(a->s)->is_cpu;
}

static bool takes_groups(const void *problem, const kernel_variant *variant) {
  const attention *a = problem;
  const int rows = (int)variant->parameters[1];
  return fits_classes(a) && !recorder_traits(a->s)->is_cpu && fits_registers(a, rows) &&
         fits_group(a, rows);
}

static double cost_of_few(const void *problem, const kernel_variant *variant) {
  return ((const attention *)problem)->is_few ? variant->cost : ON_REQUEST;
}

static double cost_of_many(const void *problem, const kernel_variant *variant) {
  const attention *a = problem;
  return a->is_few || a->f.share * a->f.n_queries > 16 ? variant->cost : ON_REQUEST;
}

static const kernel_variant attention_variants[] = {
    {.name = "block", .cost = 3, .parameters = {BLOCK}},
    {"row", takes_row, .cost_of = cost_of_few, .parameters = {ROW}},
    {"team", takes_groups, .cost_of = cost_of_few, .parameters = {TEAM}},
    {"groups 16", takes_groups, .cost = 2, .parameters = {GROUPS, 16}},
    {"groups 32", takes_groups, .cost = 1, .cost_of = cost_of_many, .parameters = {GROUPS, 32}},
    {"groups 64", takes_groups, .cost = ON_REQUEST, .parameters = {GROUPS, 64}}};

static const kernel_variant *choose_variant(const attention *a) {
  const tuning_key k = attention_key(a->s, a);
  const variants all = {.family = "attention",
                        .rows = attention_variants,
                        .n = sizeof attention_variants / sizeof *attention_variants,
                        .problem = a};
  return recorder_choose(a->s, &all, &k);
}

/* parameters: how many splits. */
static bool takes_splits(const void *problem, const kernel_variant *variant) {
  enum { LEAST_KEYS = 16 };
  return variant->parameters[0] <= ((const attention *)problem)->f.n_keys / LEAST_KEYS;
}

static const kernel_variant splits_variants[] = {{.name = "rule"},
                                                 {.name = "1", .parameters = {1}},
                                                 {"2", takes_splits, .parameters = {2}},
                                                 {"4", takes_splits, .parameters = {4}},
                                                 {"8", takes_splits, .parameters = {8}},
                                                 {"16", takes_splits, .parameters = {16}},
                                                 {"32", takes_splits, .parameters = {32}},
                                                 {"64", takes_splits, .parameters = {64}},
                                                 {"128", takes_splits, .parameters = {128}}};

/* Whether groups of work-items make what single ones do elsewhere. */
static bool by_groups(const attention *a) { return a->kernel == TEAM || a->kernel == GROUPS; }
/* Whether there are few rows, of one token's heads. */
static bool by_row(const attention *a) { return a->kernel == ROW || a->kernel == TEAM; }

/* A CPU's cores get one work-item each, if there are as few as that: more splits would cost a
 * launch that joins them, for what is done in time as it is. */
static int64_t splits_by_rule(const cl_recorder *s, const attention *a) {
  const device_traits *t = recorder_traits(s);
  int64_t items = max_i64(a->items, 1) * (by_groups(a) ? LOCAL_SIZE : 1),
          wanted = (int64_t)t->compute_units * (t->is_cpu ? 1 : 256);
  int64_t splits = t->is_cpu ? ceil_div(wanted, items) : wanted / items;
  return max_i64(min_i64(splits, a->f.n_keys / SPLIT_KEYS), 1);
}

static void choose_splits(attention *a, const char *variant) {
  tuning_key k = attention_key(a->s, a);
  tuning_key_text(&k, "by", variant);
  const variants all = {.family = "attention splits",
                        .rows = splits_variants,
                        .n = sizeof splits_variants / sizeof *splits_variants,
                        .problem = a};
  const int64_t n = recorder_choose(a->s, &all, &k)->parameters[0];
  a->n_splits = n ? n : splits_by_rule(a->s, a);
}

/* Whether keys and values, which many work-items read, are copied before: rows that are a step
 * apart in memory fall on few places of the caches. */
static bool copies_keys(const cl_recorder *s, const attention *a) {
  enum { LEAST_KEYS = 512, LEAST_READERS = 4, MOST_FLOATS = 16 << 20 };
  const attention_form *f = &a->f;
  const int64_t step = f->k->t.strides[f->k->t.rank - 2], apart = f->head_dim;
  if (a->kernel != BLOCK || !recorder_traits(s)->is_cpu || a->cache || f->k->t.type != DTYPE_F32 ||
      step == apart || f->n_keys < LEAST_KEYS)
    return false;
  return ceil_div(f->share * f->n_queries, a->rows) >= LEAST_READERS &&
         tensor_numel(&f->k->t) + tensor_numel(&f->v->t) <= MOST_FLOATS;
}

static void choose_kernel(attention *a) {
  const attention_form *f = &a->f;
  const device_traits *traits = recorder_traits(a->s);
  a->width = traits->is_cpu ? 16 : 1;
  int64_t rows = f->share * f->n_queries;
  int few = rows_class(f->share);
  a->is_few = a->pages ? f->n_queries <= FEW_TOKENS * a->pages->n_sequences
                       : rows <= FEW_ROWS && ceil_div(rows, few) <= FEW_ITEMS;
  const kernel_variant *variant = choose_variant(a);
  a->kernel = (int)variant->parameters[0];
  a->by_token = by_row(a) && a->pages;
  const int block = a->width > 1 && traits->vector_width == 16 && rows > a->width ? 2 : 1;
  a->rows = by_row(a) ? few : by_groups(a) ? (int)variant->parameters[1] : block * a->width;
  a->items = f->n_batch * f->n_kv *
             (a->by_token ? f->n_queries * ceil_div(f->share, a->rows) : ceil_div(rows, a->rows));
  a->one_block = copies_keys(a->s, a);
  a->one_token = a->cache && by_row(a) && count_rows(a) == 1 && rows <= a->rows;
  choose_splits(a, variant->name);
}

/* ---------------------------------------------------------------- launches */

/* Strides of all but the last dimension, innermost first. */
static arg_index8 row_strides(const tensor *t) {
  tensor rows = take_dims(t, 0, t->rank > 0 ? t->rank - 1 : 0);
  return strides_arg(&rows);
}

static int64_t page_shift(const attention_paged_form *p) {
  int64_t shift = 0;
  while (p && (int64_t)1 << shift < p->page_rows) shift++;
  return shift;
}

/* Elements of scratch memory that hold keys and values. */
static int64_t count_copied(const attention *a) {
  return a->one_block ? tensor_numel(&a->f.k->t) + tensor_numel(&a->f.v->t) : 0;
}

/* In scratch memory, behind those. */
static arg_buffer parts_of(const attention *a) { return scratch_arg(count_copied(a)); }

/* x as it lies in scratch memory. */
static tensor contiguous_of(const bound_tensor *x) {
  tensor t = x->t;
  tensor_set_contiguous(&t);
  return t;
}

static attention_params arguments_of(const attention *a) {
  const attention_form *f = &a->f;
  const attention_cached_form *c = a->cache;
  const attention_paged_form *p = a->pages;
  const tensor *mask = &f->mask_view;
  tensor batch = take_dims(&f->q->t, 0, f->q->t.rank - 3);
  const tensor k = a->one_block ? contiguous_of(f->k) : f->k->t,
               v = a->one_block ? contiguous_of(f->v) : f->v->t;
  return (attention_params){.q = buffer_arg(f->q),
                            .k = a->one_block ? scratch_arg(0) : buffer_arg(f->k),
                            .v = a->one_block ? scratch_arg(tensor_numel(&k)) : buffer_arg(f->v),
                            .mask = optional_arg(f->mask),
                            .out = buffer_arg(f->out),
                            .parts = a->n_splits > 1 ? parts_of(a) : absent_arg(),
                            .k_scale = optional_arg(c ? c->k_scale : NULL),
                            .v_scale = optional_arg(c ? c->v_scale : NULL),
                            .position = optional_arg(c ? c->position : NULL),
                            .batch_dims = dims_arg(&batch),
                            .q_strides = row_strides(&f->q->t),
                            .k_strides = row_strides(&k),
                            .v_strides = row_strides(&v),
                            .mask_strides = row_strides(mask),
                            .mask_step = f->mask ? mask->strides[mask->rank - 1] : 0,
                            .items = a->items,
                            .n_kv = f->n_kv,
                            .share = f->share,
                            .n_queries = f->n_queries,
                            .n_keys = f->n_keys,
                            .head_dim = f->head_dim,
                            .v_dim = f->v_dim,
                            .n_splits = a->n_splits,
                            .out_rows = count_rows(a),
                            .skip = a->skip,
                            .window = c ? c->window : 0,
                            .scale = f->scale,
                            .masked = f->masked,
                            .softcap = c ? c->softcap : 0,
                            .sequence = optional_arg(p ? p->sequence : NULL),
                            .page_table = optional_arg(p ? p->page_table : NULL),
                            .n_sequences = p ? p->n_sequences : 0,
                            .most_pages = p ? p->most_pages : 0,
                            .n_pages = p ? p->n_pages : 0,
                            .page_shift = page_shift(p)};
}

static void launch_types(launch *l, const attention *a) {
  launch_dtype(l, "X_TYPE", a->f.q->t.type);
  launch_dtype(l, "KEY_TYPE", a->f.k->t.type);
  launch_compute(l, a->f.q->t.type);
  launch_define(l, "CACHED", a->cache != NULL);
  launch_define(l, "WINDOWED", a->cache && a->cache->window > 0);
  launch_define(l, "PAGED", a->pages != NULL);
}

static void define_attention(launch *l, const attention *a) {
  const attention_form *f = &a->f;
  dtype mask_type = f->mask ? f->mask->t.type : DTYPE_BOOL;
  launch_types(l, a);
  launch_dtype(l, "MASK_TYPE", mask_type);
  launch_define(l, "W", a->width);
  launch_define(l, by_groups(a) && a->kernel != TEAM ? "QUERIES" : "ROWS", a->rows);
  launch_define(l, "BY_TOKEN", a->by_token);
  launch_define(l, "MASK", !f->mask ? 0 : mask_type == DTYPE_BOOL ? 1 : 2);
  launch_define(l, "CAUSAL", f->causal);
  launch_define(l, "SOFTCAP", a->cache && a->cache->softcap > 0);
  launch_define(l, "EMPTY_NAN", f->empty_nan);
  launch_define(l, "Q_MAX", f->head_dim > LARGEST_CLASS ? 0 : size_class(f->head_dim));
  launch_define(l, "V_MAX", size_class(f->v_dim));
  launch_define(l, "SPLIT", a->n_splits > 1);
  if (f->mask && tensor_numel(&f->mask_view) > INT32_MAX / 2) launch_wide(l);
}

static void take_token(launch *l, const attention *a) {
  const attention_params all = arguments_of(a);
  const attention_cached_form *c = a->cache;
  if (a->kernel == TEAM)
    launch_args(l, &(attention_team_token_args){.attention = all,
                                                .new_k = buffer_arg(c->new_k),
                                                .new_v = buffer_arg(c->new_v),
                                                .new_k_strides = row_strides(&c->new_k->t),
                                                .new_v_strides = row_strides(&c->new_v->t)});
  else
    launch_args(l, &(attention_token_args){.attention = all,
                                           .new_k = buffer_arg(c->new_k),
                                           .new_v = buffer_arg(c->new_v),
                                           .new_k_strides = row_strides(&c->new_k->t),
                                           .new_v_strides = row_strides(&c->new_v->t)});
}

static void take_arguments(launch *l, const attention *a) {
  const attention_params all = arguments_of(a);
  if (a->one_token)
    take_token(l, a);
  else if (a->kernel == BLOCK)
    launch_args(l, &(attention_args){.attention = all});
  else if (a->kernel == ROW)
    launch_args(l, &(attention_row_args){.attention = all});
  else if (a->kernel == TEAM)
    launch_args(l, &(attention_team_args){.attention = all});
  else
    launch_args(l, &(attention_groups_args){.attention = all});
}

static clave_status launch_attention(cl_recorder *s, const node *n, const attention *a) {
  launch l;
  launch_begin(&l, s, n);
  define_attention(&l, a);
  take_arguments(&l, a);
  size_t local = recorder_traits(s)->is_cpu ? 1 : LOCAL_SIZE, items = (size_t)a->items,
         columns = (size_t)(a->kernel == BLOCK ? ceil_div(a->f.v_dim, size_class(a->f.v_dim)) : 1);
  size_t global[3] = {by_groups(a) ? items * local : items, (size_t)a->n_splits, columns},
         locals[3] = {local, 1, 1};
  return launch_run(&l, 3, global, locals);
}

static int64_t count_queries(const attention *a) {
  return a->f.n_batch * a->f.n_kv * a->f.share * a->f.n_queries;
}

static clave_status launch_merge(cl_recorder *s, const node *n, const attention *a) {
  const attention_form *f = &a->f;
  int64_t rows = count_queries(a), size = max_i64(f->v_dim, 1),
          chunk = recorder_traits(s)->is_cpu ? size : 1, n_chunks = ceil_div(size, chunk);
  launch l;
  launch_begin(&l, s, n);
  launch_dtype(&l, "X_TYPE", f->q->t.type);
  launch_compute(&l, f->q->t.type);
  launch_define(&l, "EMPTY_NAN", f->empty_nan);
  launch_args(&l, &(attention_merge_args){.parts = parts_of(a),
                                          .out = buffer_arg(f->out),
                                          .items = rows * n_chunks,
                                          .n_chunks = n_chunks,
                                          .chunk = chunk,
                                          .v_dim = f->v_dim,
                                          .n_splits = a->n_splits,
                                          .n_queries = f->n_queries,
                                          .out_rows = count_rows(a)});
  return launch_loops(&l, rows * n_chunks, 1, chunk * a->n_splits * 8);
}

static clave_status copy_keys(cl_recorder *s, const node *n, const attention *a) {
  TRY(recorder_scratch(s, (size_t)count_copied(a) * sizeof(float)));
  TRY(opencl_copy_lines(s, n, a->f.k, scratch_arg(0)));
  return opencl_copy_lines(s, n, a->f.v, scratch_arg(tensor_numel(&a->f.k->t)));
}

static clave_status attend(cl_recorder *s, const node *n, const attention *a) {
  if (a->one_block) TRY(copy_keys(s, n, a));
  if (a->n_splits == 1) return launch_attention(s, n, a);
  size_t bytes = (size_t)(count_queries(a) * a->n_splits * (a->f.v_dim + 2)) * sizeof(double);
  TRY(recorder_scratch(s, bytes + (size_t)count_copied(a) * sizeof(float)));
  TRY(launch_attention(s, n, a));
  return launch_merge(s, n, a);
}

clave_status opencl_attention(cl_recorder *s, const node *n) {
  attention a = {.s = s};
  describe_attention(n, &a.f);
  choose_kernel(&a);
  return attend(s, n, &a);
}

/* ---------------------------------------------------------------- with a cache */

/* The new rows go to the caches. Those of I8 need all of a row for its scale. */
static clave_status launch_store(cl_recorder *s, const node *n, const attention *a) {
  const attention_form *f = &a->f;
  const attention_cached_form *c = a->cache;
  const attention_paged_form *p = a->pages;
  int64_t size = max_i64(f->head_dim, f->v_dim);
  int64_t chunk = recorder_traits(s)->is_cpu || f->k->t.type == DTYPE_I8 ? max_i64(size, 1) : 1;
  int64_t n_chunks = ceil_div(size, chunk), items = f->n_batch * f->n_kv * f->n_queries * n_chunks;
  launch l;
  launch_begin(&l, s, n);
  launch_types(&l, a);
  launch_args(&l, &(attention_store_args){.k = buffer_arg(c->new_k),
                                          .v = buffer_arg(c->new_v),
                                          .key_cache = buffer_arg(f->k),
                                          .value_cache = buffer_arg(f->v),
                                          .k_scale = optional_arg(c->k_scale),
                                          .v_scale = optional_arg(c->v_scale),
                                          .position = buffer_arg(c->position),
                                          .k_strides = row_strides(&c->new_k->t),
                                          .v_strides = row_strides(&c->new_v->t),
                                          .items = items,
                                          .n_chunks = n_chunks,
                                          .chunk = chunk,
                                          .n_kv = f->n_kv,
                                          .n_new = f->n_queries,
                                          .n_keys = f->n_keys,
                                          .head_dim = f->head_dim,
                                          .v_dim = f->v_dim,
                                          .total = count_rows(a),
                                          .skip = a->skip,
                                          .sequence = optional_arg(p ? p->sequence : NULL),
                                          .page_table = optional_arg(p ? p->page_table : NULL),
                                          .n_sequences = p ? p->n_sequences : 0,
                                          .most_pages = p ? p->most_pages : 0,
                                          .n_pages = p ? p->n_pages : 0,
                                          .page_shift = page_shift(p)});
  return launch_loops(&l, items, 2, chunk);
}

/* Rows [first, first + n) of t: (B, heads, L, size). */
static bound_tensor rows_from(const bound_tensor *t, int64_t first, int64_t n) {
  bound_tensor part = *t;
  part.t.offset += first * t->t.strides[2];
  part.t.dims[2] = n;
  return part;
}

static clave_status attend_piece(cl_recorder *s, const node *n, const attention_cached_form *c,
                                 int64_t first, int64_t count) {
  bound_tensor q = rows_from(c->attention.q, first, count),
               out = rows_from(c->attention.out, first, count),
               k = rows_from(c->new_k, first, count), v = rows_from(c->new_v, first, count);
  attention_cached_form piece = *c;
  piece.new_k = &k;
  piece.new_v = &v;
  attention a = {.s = s, .f = c->attention, .cache = &piece, .skip = first};
  a.f.q = &q;
  a.f.out = &out;
  a.f.n_queries = count;
  choose_kernel(&a);
  if (!a.one_token) TRY(launch_store(s, n, &a));
  return attend(s, n, &a);
}

clave_status opencl_attention_cached(cl_recorder *s, const node *n) {
  attention_cached_form f;
  describe_attention_cached(n, &f);
  int64_t rows = f.attention.n_queries;
  for (int64_t first = 0; first < rows; first += f.room)
    TRY(attend_piece(s, n, &f, first, min_i64(f.room, rows - first)));
  return NULL;
}

/* ---------------------------------------------------------------- in pages */

clave_status opencl_attention_paged(cl_recorder *s, const node *n) {
  attention_paged_form f;
  describe_attention_paged(n, &f);
  attention a = {.s = s, .f = f.cached.attention, .cache = &f.cached, .pages = &f};
  bool has_rows = f.n_pages > 0 && a.f.n_keys > 0;
  choose_kernel(&a);
  if (!a.one_token || !has_rows) TRY(launch_store(s, n, &a));
  return has_rows ? attend(s, n, &a) : NULL;
}
