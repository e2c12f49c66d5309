/* Attention: the kernels of kernels_cl/attention/. Chooses the kernel and the size of its private
 * arrays for a head, and splits the keys if there are few rows.
 *
 * With a cache, the new rows are stored first, then attention runs over the cache. If there is only
 * one new row, one kernel does both. If a ring buffer cannot hold all new rows, they are processed
 * in several passes. With pages, rows are processed token by token if each sequence has few, else
 * in blocks of rows of one sequence. On CPUs, F32 keys and values with strided rows are first
 * copied if there are many keys. */
#include "ops/attention.h"

#include "backend/opencl/ops/families.h"
#include "opencl_ops.h"

enum { SPLIT_KEYS = 128, LARGEST_CLASS = 256, FEW_ROWS = 8, FEW_ITEMS = 3, FEW_TOKENS = 2 };

/* An attention or, with a cache, a pass: queries and new rows [skip, skip + desc.n_queries). */
typedef struct attention {
  cl_recorder *recorder;
  attention_desc desc;
  const attention_cached_desc *cache; /* NULL without a cache */
  const attention_paged_desc *pages;  /* NULL if the cache is contiguous */
  int64_t skip;
  int64_t items, n_splits;
  bool is_split; /* partial results are merged: of several splits, or with sinks */
  int kernel;
  mma_unit unit; /* the matrix unit for blocks of block_type; its kind may be MMA_NONE */
  dtype block_type;
  bool is_few;     /* few rows, such as those of one token */
  int width, rows; /* width: W; rows: per work-item, or per work-group */
  bool by_token;   /* each work-item or group has the rows of one token */
  bool one_token;  /* the kernel also stores the one new row */
  bool one_block;  /* keys and values are first copied to make each head's rows contiguous */
} attention;

/* Rounds the size of private arrays up to one of three, so that the kernel has few variants. */
static int size_class(int64_t n) { return n <= 64 ? 64 : n <= 128 ? 128 : LARGEST_CLASS; }
/* Returns the rows per work-item, if it has the heads of one token that share keys. */
static int rows_class(int64_t share) { return share > 4 ? 8 : share > 2 ? 4 : share > 1 ? 2 : 1; }

/* Returns the number of query rows in all passes. */
static int64_t opencl_attention_count_rows(const attention *attention) {
  return attention->cache ? attention->cache->attention.n_queries : attention->desc.n_queries;
}

/* ---------------------------------------------------------------- variants */

static tuning_key attention_key(const cl_recorder *recorder, const attention *attention) {
  const attention_desc *desc = &attention->desc;
  tuning_key key = recorder_key(recorder);
  tuning_key_text(&key, "q", dtype_name(desc->q->tensor.type));
  tuning_key_text(&key, "k", dtype_name(desc->k->tensor.type));
  tuning_key_int(&key, "batch", desc->n_batch);
  tuning_key_int(&key, "heads", desc->n_kv);
  tuning_key_int(&key, "share", desc->share);
  tuning_key_int(&key, "queries", desc->n_queries);
  tuning_key_int(&key, "keys", desc->n_keys);
  tuning_key_int(&key, "size", desc->head_dim);
  tuning_key_int(&key, "v", desc->v_dim);
  if (desc->mask) tuning_key_text(&key, "mask", dtype_name(desc->mask->tensor.type));
  if (desc->causal) tuning_key_int(&key, "causal", 1);
  if (attention->cache) tuning_key_int(&key, "window", attention->cache->window);
  if (attention->pages) tuning_key_int(&key, "pages", attention->pages->n_pages);
  return key;
}

/* True if local memory suffices for attention_groups with this many rows, or for attention_team if
 * rows is 0. It holds queries, keys or values, weights, and the partial sums of rows. */
static bool fits_group(const attention *attention, int rows) {
  enum { KEYS = 32, DEPTH = 32, TEAM_KEYS = 64, SIDE = 8 };
  const device_traits *traits = recorder_traits(attention->recorder);
  const int q_max = size_class(attention->desc.head_dim), keys = rows ? KEYS : TEAM_KEYS;
  int64_t columns = rows ? (int64_t)(rows + 1) * q_max + DEPTH * (KEYS + 1) + rows * (KEYS + SIDE)
                         : FEW_ROWS * (q_max + TEAM_KEYS * (SIDE + 2) + SIDE + 1);
  bool is_wide = attention->desc.q->tensor.type == DTYPE_F64;
  return (uint64_t)(columns * (is_wide ? 8 : 4) + keys * 8) <= traits->local_memory;
}

/* True if the sums of a work-item of attention_groups fit its registers, or if there are no fewer
 * rows. */
static bool fits_registers(const attention *attention, int rows) {
  enum { LEAST = 16, LARGEST = 32 * 128, SMALL_REGISTERS = 128 };
  const bool is_small = recorder_traits(attention->recorder)->registers <= SMALL_REGISTERS;
  const int largest = is_small && rows > LEAST ? LARGEST / 2 : LARGEST;
  return rows * size_class(attention->desc.v_dim) <= largest;
}

/* The kernels. BLOCK: each work-item computes a block of rows of one head. ROW: each work-item
 * computes the few rows of one token. TEAM: each work-group computes the few rows of one token.
 * GROUPS: each work-group computes a block of rows. MMA: like GROUPS, with a matrix instruction.
 * parameters: the kernel; for GROUPS and MMA, rows per block. */
enum { BLOCK, ROW, TEAM, GROUPS, MMA };
enum { MMA_ROWS = 64, MMA_LARGEST = 128 };

/* Returns the work-items per work-group of attention_mma. */
static size_t mma_items(const attention *attention) {
  return (size_t)(MMA_ROWS / attention->unit.rows * attention->unit.lanes);
}

/* Sets the dtype to which blocks are rounded: that of the operands, or BF16 for F32 in fast
 * precision without a cache. Returns false for other operands. */
static bool choose_block_type(const attention *attention, dtype *type) {
  const dtype q = attention->desc.q->tensor.type, k = attention->desc.k->tensor.type;
  *type = q == DTYPE_F32 ? DTYPE_BF16 : q;
  if (q != k || (q == DTYPE_F32 && (attention->cache || !recorder_is_fast(attention->recorder))))
    return false;
  return q == DTYPE_F32 || q == DTYPE_F16 || q == DTYPE_BF16;
}

static clave_status choose_unit(attention *attention) {
  const attention_desc *desc = &attention->desc;
  if (!choose_block_type(attention, &attention->block_type) ||
      max_i64(desc->head_dim, desc->v_dim) > MMA_LARGEST)
    return NULL;
  TRY(recorder_mma(attention->recorder, &attention->unit));
  if (attention->block_type == DTYPE_BF16 && !attention->unit.has_bf16)
    attention->unit.kind = MMA_NONE;
  return NULL;
}

/* True if the arrays of kernels_cl/attention/attention_mma.cl fit local memory. */
static bool accepts_attention_mma(const void *problem, const kernel_variant *variant) {
  enum { KEYS = 32, PAD = 4, INDEX_WORDS = 2 };
  const attention *attention = problem;
  const device_traits *traits = recorder_traits(attention->recorder);
  const mma_unit *unit = &attention->unit;
  (void)variant;
  if (unit->kind == MMA_NONE || mma_items(attention) > traits->max_local) return false;
  const int row = size_class(attention->desc.head_dim) / 2 + PAD, parts = unit->lanes / unit->rows,
            values = size_class(attention->desc.v_dim) * (KEYS / 2 + PAD);
  const int words = MMA_ROWS * (row + KEYS + PAD + 1 + parts + 4 * INDEX_WORDS) +
                    (int)max_i64(KEYS * row, values) + KEYS * INDEX_WORDS;
  return (uint64_t)words * sizeof(uint32_t) <= traits->local_memory;
}

static double cost_of_attention_mma(const void *problem, const kernel_variant *variant) {
  const attention *attention = problem;
  return !attention->unit.emulated && attention->desc.share * attention->desc.n_queries > 16
             ? variant->cost
             : ON_REQUEST;
}

static bool fits_classes(const attention *attention) {
  return max_i64(attention->desc.head_dim, attention->desc.v_dim) <= LARGEST_CLASS;
}

static bool accepts_row(const void *problem, const kernel_variant *variant) {
  const attention *attention = problem;
  (void)variant;
  return fits_classes(attention) && recorder_traits(attention->recorder)->is_cpu;
}

static bool accepts_groups(const void *problem, const kernel_variant *variant) {
  const attention *attention = problem;
  const int rows = (int)variant->parameters[1];
  return fits_classes(attention) && !recorder_traits(attention->recorder)->is_cpu &&
         fits_registers(attention, rows) && fits_group(attention, rows);
}

static double cost_of_few(const void *problem, const kernel_variant *variant) {
  return ((const attention *)problem)->is_few ? variant->cost : ON_REQUEST;
}

static double cost_of_many(const void *problem, const kernel_variant *variant) {
  const attention *attention = problem;
  return attention->is_few || attention->desc.share * attention->desc.n_queries > 16 ? variant->cost
                                                                                     : ON_REQUEST;
}

static const kernel_variant attention_variants[] = {
    {.name = "block", .cost = 3, .parameters = {BLOCK}},
    {"row", accepts_row, .cost_of = cost_of_few, .parameters = {ROW}},
    {"team", accepts_groups, .cost_of = cost_of_few, .parameters = {TEAM}},
    {"groups 16", accepts_groups, .cost = 2, .parameters = {GROUPS, 16}},
    {"groups 32", accepts_groups, .cost = 1, .cost_of = cost_of_many, .parameters = {GROUPS, 32}},
    {"groups 64", accepts_groups, .cost = ON_REQUEST, .parameters = {GROUPS, 64}},
    {"mma", accepts_attention_mma, .cost = 0.5, .cost_of = cost_of_attention_mma,
     .parameters = {MMA, MMA_ROWS}}};

static const kernel_variant *opencl_attention_choose_variant(const attention *attention) {
  const tuning_key key = attention_key(attention->recorder, attention);
  const variants all = {.family = "attention",
                        .rows = attention_variants,
                        .n = sizeof attention_variants / sizeof *attention_variants,
                        .problem = attention};
  return recorder_choose(attention->recorder, &all, &key);
}

/* parameters: number of splits. */
static bool opencl_attention_accepts_splits(const void *problem, const kernel_variant *variant) {
  enum { MIN_KEYS = 16 };
  return variant->parameters[0] <= ((const attention *)problem)->desc.n_keys / MIN_KEYS;
}

static const kernel_variant splits_variants[] = {
    {.name = "rule"},
    {.name = "1", .parameters = {1}},
    {"2", opencl_attention_accepts_splits, .parameters = {2}},
    {"4", opencl_attention_accepts_splits, .parameters = {4}},
    {"8", opencl_attention_accepts_splits, .parameters = {8}},
    {"16", opencl_attention_accepts_splits, .parameters = {16}},
    {"32", opencl_attention_accepts_splits, .parameters = {32}},
    {"64", opencl_attention_accepts_splits, .parameters = {64}},
    {"128", opencl_attention_accepts_splits, .parameters = {128}}};

/* True if a work-group computes the rows, instead of a single work-item. */
static bool by_groups(const attention *attention) {
  return attention->kernel == TEAM || attention->kernel == GROUPS || attention->kernel == MMA;
}
/* True if the kernel is for the few rows of one token. */
static bool by_row(const attention *attention) {
  return attention->kernel == ROW || attention->kernel == TEAM;
}

/* Returns the number of splits. A CPU core gets one work-item; more splits would only add the
 * launch that merges them. */
static int64_t splits_by_rule(const cl_recorder *recorder, const attention *attention) {
  const device_traits *traits = recorder_traits(recorder);
  int64_t items = max_i64(attention->items, 1) * (by_groups(attention) ? LOCAL_SIZE : 1),
          wanted = (int64_t)traits->compute_units * (traits->is_cpu ? 1 : 256);
  int64_t splits = traits->is_cpu ? ceil_div(wanted, items) : wanted / items;
  return max_i64(min_i64(splits, attention->desc.n_keys / SPLIT_KEYS), 1);
}

static void opencl_attention_choose_splits(attention *attention, const char *variant) {
  tuning_key key = attention_key(attention->recorder, attention);
  tuning_key_text(&key, "by", variant);
  const variants all = {.family = "attention splits",
                        .rows = splits_variants,
                        .n = sizeof splits_variants / sizeof *splits_variants,
                        .problem = attention};
  const int64_t n = recorder_choose(attention->recorder, &all, &key)->parameters[0];
  attention->n_splits = n ? n : splits_by_rule(attention->recorder, attention);
  attention->is_split = attention->n_splits > 1 || attention->desc.sinks;
}

/* True if keys and values are first copied. Many work-items read them, and rows at a large stride
 * map to few sets of the caches. */
static bool copies_keys(const cl_recorder *recorder, const attention *attention) {
  enum { MIN_KEYS = 512, MIN_READERS = 4, MAX_FLOATS = 16 << 20 };
  const attention_desc *desc = &attention->desc;
  const int64_t step = desc->k->tensor.strides[desc->k->tensor.rank - 2], apart = desc->head_dim;
  if (attention->kernel != BLOCK || !recorder_traits(recorder)->is_cpu || attention->cache ||
      desc->k->tensor.type != DTYPE_F32 || step == apart || desc->n_keys < MIN_KEYS)
    return false;
  return ceil_div(desc->share * desc->n_queries, attention->rows) >= MIN_READERS &&
         tensor_numel(&desc->k->tensor) + tensor_numel(&desc->v->tensor) <= MAX_FLOATS;
}

static clave_status opencl_attention_choose_kernel(attention *attention) {
  const attention_desc *desc = &attention->desc;
  const device_traits *traits = recorder_traits(attention->recorder);
  attention->width = traits->is_cpu ? 16 : 1;
  int64_t rows = desc->share * desc->n_queries;
  int few = rows_class(desc->share);
  attention->is_few = attention->pages
                          ? desc->n_queries <= FEW_TOKENS * attention->pages->n_sequences
                          : rows <= FEW_ROWS && ceil_div(rows, few) <= FEW_ITEMS;
  if (!attention->is_few) TRY(choose_unit(attention));
  const kernel_variant *variant = opencl_attention_choose_variant(attention);
  attention->kernel = (int)variant->parameters[0];
  attention->by_token = by_row(attention) && attention->pages;
  const int block =
      attention->width > 1 && traits->vector_width == 16 && rows > attention->width ? 2 : 1;
  attention->rows = by_row(attention)      ? few
                    : by_groups(attention) ? (int)variant->parameters[1]
                                           : block * attention->width;
  attention->items = desc->n_batch * desc->n_kv *
                     (attention->by_token ? desc->n_queries * ceil_div(desc->share, attention->rows)
                                          : ceil_div(rows, attention->rows));
  attention->one_block = copies_keys(attention->recorder, attention);
  attention->one_token = attention->cache && by_row(attention) &&
                         opencl_attention_count_rows(attention) == 1 && rows <= attention->rows;
  if (attention->kernel == MMA && attention->block_type != desc->q->tensor.type)
    recorder_rounds(attention->recorder, ROUNDS_TO_BF16);
  opencl_attention_choose_splits(attention, variant->name);
  return NULL;
}

/* ---------------------------------------------------------------- launches */

/* Returns the strides of all dimensions but the last, innermost first. */
static arg_index8 row_strides(const tensor *value) {
  tensor rows = take_dims(value, 0, value->rank > 0 ? value->rank - 1 : 0);
  return strides_arg(&rows);
}

static int64_t page_shift(const attention_paged_desc *desc) {
  int64_t shift = 0;
  while (desc && (int64_t)1 << shift < desc->page_rows) shift++;
  return shift;
}

/* Returns the number of scratch elements for copied keys and values. */
static int64_t count_copied(const attention *attention) {
  return attention->one_block
             ? tensor_numel(&attention->desc.k->tensor) + tensor_numel(&attention->desc.v->tensor)
             : 0;
}

/* Returns the splits, which follow the copies in scratch memory. */
static arg_buffer opencl_attention_splits_of(const attention *attention) {
  return scratch_arg(count_copied(attention));
}

/* Returns the contiguous layout of operand in scratch memory. */
static tensor contiguous_of(const bound_tensor *operand) {
  tensor tensor = operand->tensor;
  tensor_set_contiguous(&tensor);
  return tensor;
}

static attention_params opencl_attention_arguments_of(const attention *attention) {
  const attention_desc *desc = &attention->desc;
  const attention_cached_desc *cached = attention->cache;
  const attention_paged_desc *paged = attention->pages;
  const tensor *mask = &desc->mask_view;
  tensor batch = take_dims(&desc->q->tensor, 0, desc->q->tensor.rank - 3);
  const tensor k = attention->one_block ? contiguous_of(desc->k) : desc->k->tensor,
               v = attention->one_block ? contiguous_of(desc->v) : desc->v->tensor;
  return (attention_params){
      .q = buffer_arg(desc->q),
      .k = attention->one_block ? scratch_arg(0) : buffer_arg(desc->k),
      .v = attention->one_block ? scratch_arg(tensor_numel(&k)) : buffer_arg(desc->v),
      .mask = optional_arg(desc->mask),
      .out = buffer_arg(desc->out),
      .splits = attention->is_split ? opencl_attention_splits_of(attention) : absent_arg(),
      .k_scale = optional_arg(cached ? cached->k_scale : NULL),
      .v_scale = optional_arg(cached ? cached->v_scale : NULL),
      .position = optional_arg(cached ? cached->position : NULL),
      .batch_dims = dims_arg(&batch),
      .q_strides = row_strides(&desc->q->tensor),
      .k_strides = row_strides(&k),
      .v_strides = row_strides(&v),
      .mask_strides = row_strides(mask),
      .mask_step = desc->mask ? mask->strides[mask->rank - 1] : 0,
      .items = attention->items,
      .n_kv = desc->n_kv,
      .share = desc->share,
      .n_queries = desc->n_queries,
      .n_keys = desc->n_keys,
      .head_dim = desc->head_dim,
      .v_dim = desc->v_dim,
      .n_splits = attention->n_splits,
      .out_rows = opencl_attention_count_rows(attention),
      .skip = attention->skip,
      .window = cached ? cached->window : 0,
      .scale = desc->scale,
      .masked = desc->masked,
      .softcap = cached ? cached->softcap : 0,
      .sequence = optional_arg(paged ? paged->sequence : NULL),
      .page_table = optional_arg(paged ? paged->page_table : NULL),
      .n_sequences = paged ? paged->n_sequences : 0,
      .max_pages = paged ? paged->max_pages : 0,
      .n_pages = paged ? paged->n_pages : 0,
      .page_shift = page_shift(paged)};
}

static void launch_types(launch *launch, const attention *attention) {
  launch_dtype(launch, "X_TYPE", attention->desc.q->tensor.type);
  launch_dtype(launch, "KEY_TYPE", attention->desc.k->tensor.type);
  launch_compute(launch, attention->desc.q->tensor.type);
  launch_define(launch, "CACHED", attention->cache != NULL);
  launch_define(launch, "WINDOWED", attention->cache && attention->cache->window > 0);
  launch_define(launch, "PAGED", attention->pages != NULL);
}

static void define_attention(launch *launch, const attention *attention) {
  const attention_desc *desc = &attention->desc;
  dtype mask_type = desc->mask ? desc->mask->tensor.type : DTYPE_BOOL;
  launch_types(launch, attention);
  launch_dtype(launch, "MASK_TYPE", mask_type);
  if (attention->kernel == MMA) {
    launch_mma(launch, &attention->unit);
    launch_dtype(launch, "MMA_TYPE", attention->block_type);
  } else {
    launch_define(launch, "W", attention->width);
    launch_define(launch, attention->kernel == GROUPS ? "QUERIES" : "ROWS", attention->rows);
  }
  launch_define(launch, "BY_TOKEN", attention->by_token);
  launch_define(launch, "MASK", !desc->mask ? 0 : mask_type == DTYPE_BOOL ? 1 : 2);
  launch_define(launch, "CAUSAL", desc->causal);
  launch_define(launch, "SOFTCAP", attention->cache && attention->cache->softcap > 0);
  launch_define(launch, "EMPTY_NAN", desc->empty_nan);
  launch_define(launch, "Q_MAX", desc->head_dim > LARGEST_CLASS ? 0 : size_class(desc->head_dim));
  launch_define(launch, "V_MAX", size_class(desc->v_dim));
  launch_define(launch, "SPLIT", attention->is_split);
  if (desc->mask && tensor_numel(&desc->mask_view) > INT32_MAX / 2) launch_wide(launch);
}

static void opencl_attention_take_token(launch *launch, const attention *attention) {
  const attention_params all = opencl_attention_arguments_of(attention);
  const attention_cached_desc *desc = attention->cache;
  if (attention->kernel == TEAM)
    launch_args(launch,
                &(attention_team_token_args){.attention = all,
                                             .new_k = buffer_arg(desc->new_k),
                                             .new_v = buffer_arg(desc->new_v),
                                             .new_k_strides = row_strides(&desc->new_k->tensor),
                                             .new_v_strides = row_strides(&desc->new_v->tensor)});
  else
    launch_args(launch,
                &(attention_token_args){.attention = all,
                                        .new_k = buffer_arg(desc->new_k),
                                        .new_v = buffer_arg(desc->new_v),
                                        .new_k_strides = row_strides(&desc->new_k->tensor),
                                        .new_v_strides = row_strides(&desc->new_v->tensor)});
}

static void opencl_attention_take_arguments(launch *launch, const attention *attention) {
  const attention_params all = opencl_attention_arguments_of(attention);
  if (attention->one_token)
    opencl_attention_take_token(launch, attention);
  else if (attention->kernel == BLOCK)
    launch_args(launch, &(attention_args){.attention = all});
  else if (attention->kernel == ROW)
    launch_args(launch, &(attention_row_args){.attention = all});
  else if (attention->kernel == TEAM)
    launch_args(launch, &(attention_team_args){.attention = all});
  else if (attention->kernel == MMA)
    launch_args(launch, &(attention_mma_args){.attention = all});
  else
    launch_args(launch, &(attention_groups_args){.attention = all});
}

static clave_status launch_attention(cl_recorder *recorder, const node *node,
                                     const attention *attention) {
  launch launch;
  launch_begin(&launch, recorder, node);
  define_attention(&launch, attention);
  opencl_attention_take_arguments(&launch, attention);
  size_t local = attention->kernel == MMA            ? mma_items(attention)
                 : recorder_traits(recorder)->is_cpu ? 1
                                                     : LOCAL_SIZE,
         items = (size_t)attention->items,
         columns = (size_t)(attention->kernel == BLOCK
                                ? ceil_div(attention->desc.v_dim, size_class(attention->desc.v_dim))
                                : 1);
  size_t global[3] = {by_groups(attention) ? items * local : items, (size_t)attention->n_splits,
                      columns},
         locals[3] = {local, 1, 1};
  return launch_run(&launch, 3, global, locals);
}

static int64_t count_queries(const attention *attention) {
  return attention->desc.n_batch * attention->desc.n_kv * attention->desc.share *
         attention->desc.n_queries;
}

static clave_status opencl_attention_launch_merge(cl_recorder *recorder, const node *node,
                                                  const attention *attention) {
  const attention_desc *desc = &attention->desc;
  int64_t rows = count_queries(attention), size = max_i64(desc->v_dim, 1),
          chunk = recorder_traits(recorder)->is_cpu ? size : 1, n_chunks = ceil_div(size, chunk);
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_dtype(&launch, "X_TYPE", desc->q->tensor.type);
  launch_compute(&launch, desc->q->tensor.type);
  launch_define(&launch, "EMPTY_NAN", desc->empty_nan);
  launch_define(&launch, "SINKS", desc->sinks != NULL);
  launch_args(&launch, &(attention_merge_args){.splits = opencl_attention_splits_of(attention),
                                               .out = buffer_arg(desc->out),
                                               .sinks = optional_arg(desc->sinks),
                                               .n_heads = desc->n_kv * desc->share,
                                               .items = rows * n_chunks,
                                               .n_chunks = n_chunks,
                                               .chunk = chunk,
                                               .v_dim = desc->v_dim,
                                               .n_splits = attention->n_splits,
                                               .n_queries = desc->n_queries,
                                               .out_rows = opencl_attention_count_rows(attention)});
  return launch_loops(&launch, rows * n_chunks, 1, chunk * attention->n_splits * 8);
}

static clave_status copy_keys(cl_recorder *recorder, const node *node, const attention *attention) {
  TRY(recorder_scratch(recorder, (size_t)count_copied(attention) * sizeof(float)));
  TRY(opencl_copy_lines(recorder, node, attention->desc.k, scratch_arg(0)));
  return opencl_copy_lines(recorder, node, attention->desc.v,
                           scratch_arg(tensor_numel(&attention->desc.k->tensor)));
}

static clave_status opencl_attention_attend(cl_recorder *recorder, const node *node,
                                            const attention *attention) {
  if (attention->one_block) TRY(copy_keys(recorder, node, attention));
  if (!attention->is_split) return launch_attention(recorder, node, attention);
  size_t bytes =
      (size_t)(count_queries(attention) * attention->n_splits * (attention->desc.v_dim + 2)) *
      sizeof(double);
  TRY(recorder_scratch(recorder, bytes + (size_t)count_copied(attention) * sizeof(float)));
  TRY(launch_attention(recorder, node, attention));
  return opencl_attention_launch_merge(recorder, node, attention);
}

clave_status opencl_attention(cl_recorder *recorder, const node *node) {
  attention attention = {.recorder = recorder};
  describe_attention(node, &attention.desc);
  TRY(opencl_attention_choose_kernel(&attention));
  return opencl_attention_attend(recorder, node, &attention);
}

/* ---------------------------------------------------------------- with a cache */

/* Stores the new rows in the caches. The scale of an I8 row depends on the whole row. */
static clave_status opencl_attention_launch_store(cl_recorder *recorder, const node *node,
                                                  const attention *attention) {
  const attention_desc *desc = &attention->desc;
  const attention_cached_desc *cached = attention->cache;
  const attention_paged_desc *paged = attention->pages;
  int64_t size = max_i64(desc->head_dim, desc->v_dim);
  int64_t chunk =
      recorder_traits(recorder)->is_cpu || desc->k->tensor.type == DTYPE_I8 ? max_i64(size, 1) : 1;
  int64_t n_chunks = ceil_div(size, chunk),
          items = desc->n_batch * desc->n_kv * desc->n_queries * n_chunks;
  launch launch;
  launch_begin(&launch, recorder, node);
  launch_types(&launch, attention);
  launch_args(&launch,
              &(attention_store_args){.k = buffer_arg(cached->new_k),
                                      .v = buffer_arg(cached->new_v),
                                      .key_cache = buffer_arg(desc->k),
                                      .value_cache = buffer_arg(desc->v),
                                      .k_scale = optional_arg(cached->k_scale),
                                      .v_scale = optional_arg(cached->v_scale),
                                      .position = buffer_arg(cached->position),
                                      .k_strides = row_strides(&cached->new_k->tensor),
                                      .v_strides = row_strides(&cached->new_v->tensor),
                                      .items = items,
                                      .n_chunks = n_chunks,
                                      .chunk = chunk,
                                      .n_kv = desc->n_kv,
                                      .n_new = desc->n_queries,
                                      .n_keys = desc->n_keys,
                                      .head_dim = desc->head_dim,
                                      .v_dim = desc->v_dim,
                                      .total = opencl_attention_count_rows(attention),
                                      .skip = attention->skip,
                                      .sequence = optional_arg(paged ? paged->sequence : NULL),
                                      .page_table = optional_arg(paged ? paged->page_table : NULL),
                                      .n_sequences = paged ? paged->n_sequences : 0,
                                      .max_pages = paged ? paged->max_pages : 0,
                                      .n_pages = paged ? paged->n_pages : 0,
                                      .page_shift = page_shift(paged)});
  return launch_loops(&launch, items, 2, chunk);
}

/* Returns rows [first, first + n) of tensor: (B, heads, L, size). */
static bound_tensor opencl_attention_rows_from(const bound_tensor *tensor, int64_t first,
                                               int64_t n) {
  bound_tensor rows = *tensor;
  rows.tensor.offset += first * tensor->tensor.strides[2];
  rows.tensor.dims[2] = n;
  return rows;
}

static clave_status opencl_attention_attend_piece(cl_recorder *recorder, const node *node,
                                                  const attention_cached_desc *desc, int64_t first,
                                                  int64_t count) {
  bound_tensor q = opencl_attention_rows_from(desc->attention.q, first, count),
               out = opencl_attention_rows_from(desc->attention.out, first, count),
               new_k = opencl_attention_rows_from(desc->new_k, first, count),
               new_v = opencl_attention_rows_from(desc->new_v, first, count);
  attention_cached_desc piece = *desc;
  piece.new_k = &new_k;
  piece.new_v = &new_v;
  attention attention = {
      .recorder = recorder, .desc = desc->attention, .cache = &piece, .skip = first};
  attention.desc.q = &q;
  attention.desc.out = &out;
  attention.desc.n_queries = count;
  TRY(opencl_attention_choose_kernel(&attention));
  if (!attention.one_token) TRY(opencl_attention_launch_store(recorder, node, &attention));
  return opencl_attention_attend(recorder, node, &attention);
}

clave_status opencl_attention_cached(cl_recorder *recorder, const node *node) {
  attention_cached_desc desc;
  describe_attention_cached(node, &desc);
  int64_t rows = desc.attention.n_queries;
  for (int64_t first = 0; first < rows; first += desc.max_new_rows)
    TRY(opencl_attention_attend_piece(recorder, node, &desc, first,
                                      min_i64(desc.max_new_rows, rows - first)));
  return NULL;
}

/* ---------------------------------------------------------------- paged caches */

clave_status opencl_attention_paged(cl_recorder *recorder, const node *node) {
  attention_paged_desc desc;
  describe_attention_paged(node, &desc);
  attention attention = {
      .recorder = recorder, .desc = desc.cached.attention, .cache = &desc.cached, .pages = &desc};
  bool has_rows = desc.n_pages > 0 && attention.desc.n_keys > 0;
  TRY(opencl_attention_choose_kernel(&attention));
  if (!attention.one_token || !has_rows)
    TRY(opencl_attention_launch_store(recorder, node, &attention));
  return has_rows ? opencl_attention_attend(recorder, node, &attention) : NULL;
}
