/* Products with rounded rows on GPUs: one launch rounds a to 8 bits and packs it in tiles, another
 * multiplies integers. */
#include "backend/opencl/ops/gemm/gemm_dots.h"

#include "backend/opencl/ops/families.h"
#include "base/rounded.h"

bool gemm_dots_usable(const gemm *gemm, code_panels *panels) {
  return recorder_is_fast(gemm->recorder) && !recorder_traits(gemm->recorder)->is_cpu &&
         gemm_codes_of(gemm, panels) && code_panels_accept_rounded(panels);
}

/* The tile of sums in registers, and how products are added, as in kernels_cl/gemm/dots.h. */
typedef struct tile {
  dots_kind dots;
  int rows, panels;
  int lanes;     /* with few rows: work-items that share a column; 0: chosen by rule */
  int64_t side;  /* rows and columns of a group of matmul_dots_mma, or 0 for other kernels */
  mma_unit unit; /* its kind may be MMA_NONE */
} tile;

/* A work-item has a register for each sum. Up to LANES_ROWS rows are a single tile, one panel wide,
 * and gemv_dots computes them. More rows are divided into tiles, of which a work-group of
 * matmul_dots computes LANES. */
enum { LANES_ROWS = 8, LANES = 4, LANES_PANELS = 2 };

static bool is_few(const gemm *gemm) { return gemm->desc.m <= LANES_ROWS; }

static void choose_lanes_tile(const gemm *gemm, tile *tile) {
  int64_t rows = is_few(gemm) ? gemm->desc.m : ceil_div(gemm->desc.m, LANES);
  while (tile->rows < LANES_ROWS && tile->rows < rows) tile->rows *= 2;
  tile->panels = is_few(gemm) ? 1 : LANES_PANELS;
}

/* At peak rates, a unit for matrices is up to 8 times as fast as dot products of bytes. It is used
 * if half of the rows of a small group exist. No GPU was timed. BLOCK_ROWS: rows of a packed tile.
 */
enum { SMALL = 64, LARGE = 128, BLOCK_ROWS = 8, UNIT_ROWS = SMALL / 2 };

/* Returns the work-items of a group of matmul_dots_mma. */
static size_t unit_items(const mma_unit *unit, int64_t side) {
  const uint8_t *warps = unit->warps[side == LARGE];
  return (size_t)warps[0] * warps[1] * unit->lanes;
}

/* True if a group of that side fits the device. */
static bool fits_unit(const gemm *gemm, const code_panels *panels, const mma_unit *unit,
                      int64_t side) {
  enum { PITCH = 20, STAGE = 2 }; /* as in kernels_cl/gemm/matmul_dots_mma.cl */
  const device_traits *traits = recorder_traits(gemm->recorder);
  const int factors = 1 + panels->spans * (2 + panels->has_lows);
  return unit->kind != MMA_NONE && traits->max_local >= unit_items(unit, side) &&
         traits->local_memory >=
             sizeof(uint32_t) * (size_t)(side * (2 * PITCH + STAGE * factors) + 1);
}

/* Finds the unit of a product of many rows, and the side of its groups by rule. */
static clave_status gemm_dots_choose_unit(const gemm *gemm, const code_panels *panels, tile *tile) {
  if (gemm->desc.m < UNIT_ROWS || gemm->grouped) return NULL;
  TRY(recorder_mma_codes(gemm->recorder, &tile->unit));
  if (tile->unit.emulated) return NULL;
  const int64_t units = (int64_t)recorder_traits(gemm->recorder)->compute_units;
  if (fits_unit(gemm, panels, &tile->unit, SMALL)) tile->side = SMALL;
  if (fits_unit(gemm, panels, &tile->unit, LARGE) && gemm_work_groups(gemm, LARGE) >= units)
    tile->side = LARGE;
  return NULL;
}

/* All variants produce the same bits: sums in a part are integers, and parts are added in order. */
typedef struct tile_problem {
  const gemm *gemm;
  const code_panels *panels;
  const mma_unit *unit;
} tile_problem;

/* parameters: for many rows, rows and panels of a tile, or the side of a group of matmul_dots_mma;
 * for few, lanes that share a column. */
static bool gemm_dots_accepts_rows(const void *problem, const kernel_variant *variant) {
  (void)variant;
  return !is_few(((const tile_problem *)problem)->gemm);
}

static bool accepts_lanes(const void *problem, const kernel_variant *variant) {
  const tile_problem *tile_problem = problem;
  const int64_t lanes = variant->parameters[2];
  return is_few(tile_problem->gemm) && tile_problem->panels->parts >= lanes &&
         recorder_traits(tile_problem->gemm->recorder)->max_local >= (size_t)(lanes * CODE_PANEL);
}

static bool accepts_unit(const void *problem, const kernel_variant *variant) {
  const tile_problem *of = problem;
  return fits_unit(of->gemm, of->panels, of->unit, variant->parameters[0]);
}

static const kernel_variant tile_variants[] = {
    {.name = "rule"},
    {"2x2", gemm_dots_accepts_rows, .parameters = {2, 2, 0}},
    {"4x2", gemm_dots_accepts_rows, .parameters = {4, 2, 0}},
    {"lanes 4", accepts_lanes, .parameters = {0, 0, 4}},
    {"lanes 8", accepts_lanes, .parameters = {0, 0, 8}},
    {"lanes 16", accepts_lanes, .parameters = {0, 0, 16}},
    {"mma 64", accepts_unit, .parameters = {SMALL}},
    {"mma 128", accepts_unit, .parameters = {LARGE}}};

/* Replaces members of *tile by the values of the tuning table, if it has any. */
static void tune_tile(const tile_problem *problem, tile *tile) {
  const gemm *gemm = problem->gemm;
  tuning_key key = gemm_key(gemm);
  tuning_key_encoding(&key, "encoding", &gemm->desc.b->tensor.encoding);
  const variants all = {.family = "dots tile",
                        .rows = tile_variants,
                        .n = sizeof tile_variants / sizeof *tile_variants,
                        .problem = problem};
  const int64_t *taken = recorder_choose(gemm->recorder, &all, &key)->parameters;
  tile->lanes = (int)taken[2];
  if (!taken[0]) return;
  tile->side = taken[1] ? 0 : taken[0];
  if (tile->side) return;
  tile->rows = (int)taken[0];
  tile->panels = (int)taken[1];
}

static clave_status choose_tile(const gemm *gemm, const code_panels *panels, tile *block) {
  const tile_problem problem = {.gemm = gemm, .panels = panels, .unit = &block->unit};
  *block = (tile){.rows = 1};
  TRY(gemm_dots_choose_unit(gemm, panels, block));
  choose_lanes_tile(gemm, block);
  tune_tile(&problem, block);
  if (block->side) block->rows = BLOCK_ROWS;
  return block->side ? NULL : recorder_dots(gemm->recorder, &block->dots);
}

static int64_t gemm_dots_count_tiles(const gemm *gemm, const tile *tile) {
  return ceil_div(gemm->desc.m, tile->rows);
}

static int64_t tile_words(const code_panels *panels, const tile *tile) {
  return (int64_t)(ROUNDED_GROUP / 4 + 1 + panels->spans) * tile->rows;
}

static void define_tile(launch *launch, const code_panels *panels, const tile *tile) {
  gemm_codes_define(launch, panels);
  launch_dots(launch, tile->dots);
  launch_define(launch, "M", tile->rows);
  launch_define(launch, "BY_ROWS", tile->side != 0);
}

/* Returns the packed a in scratch memory. In a grouped product it follows the table of tiles, with
 * three longs per tile. */
static arg_buffer packed_a(const gemm *gemm) {
  return scratch_arg(gemm->grouped ? 6 * gemm->desc.batches : 0);
}
static arg_buffer tiles_of_rows(const gemm *gemm) {
  return gemm->grouped ? scratch_arg(0) : absent_arg();
}

static clave_status gemm_dots_pack_a(const gemm *gemm, const code_panels *panels,
                                     const tile *tile) {
  launch launch;
  launch_begin(&launch, gemm->recorder, gemm->node);
  launch_dtype(&launch, "A_TYPE", gemm->desc.a->tensor.type);
  launch_define(&launch, "A_ORDER", gemm->desc.a_k == 1);
  launch_define(&launch, "GROUPED", gemm->grouped);
  define_tile(&launch, panels, tile);
  launch_args(&launch, &(gemm_dots_pack_args){.a = buffer_arg(gemm->desc.a),
                                              .a_batch = strides_arg(&gemm->desc.batch_a),
                                              .a_m = gemm->desc.a_m,
                                              .a_k = gemm->desc.a_k,
                                              .packed = packed_a(gemm),
                                              .row_tiles = tiles_of_rows(gemm),
                                              .batch_dims = dims_arg(&gemm->desc.batch_a),
                                              .m_size = gemm->desc.m,
                                              .k_size = gemm->desc.k,
                                              .parts = panels->parts});
  size_t global[3] = {(size_t)gemm_dots_count_tiles(gemm, tile), (size_t)panels->parts,
                      (size_t)gemm->desc.batches},
         local[3] = {1, LOCAL_SIZE, 1};
  return launch_run(&launch, 3, global, local);
}

static void begin_multiply(launch *launch, const gemm *gemm, const code_panels *panels,
                           const tile *tile) {
  launch_begin(launch, gemm->recorder, gemm->node);
  launch_dtype(launch, "OUT_TYPE", gemm->desc.out->tensor.type);
  launch_dtype(launch, "BIAS_TYPE",
               gemm->desc.bias ? gemm->desc.bias->tensor.type : gemm->desc.out->tensor.type);
  launch_define(launch, "HAS_BIAS", gemm->desc.bias != NULL);
  launch_define(launch, "GROUPED", gemm->grouped);
  define_tile(launch, panels, tile);
}

static dots_params operands(const gemm *gemm) {
  return (dots_params){.a = packed_a(gemm),
                       .row_tiles = tiles_of_rows(gemm),
                       .bias = optional_arg(gemm->desc.bias),
                       .bias_batch = strides_arg(&gemm->desc.batch_bias),
                       .bias_m = gemm->desc.bias_m,
                       .bias_n = gemm->desc.bias_n,
                       .out = buffer_arg(gemm->desc.out),
                       .batch_dims = dims_arg(&gemm->desc.batch_a),
                       .m_size = gemm->desc.m,
                       .n_size = gemm->desc.n,
                       .alpha = gemm->desc.alpha,
                       .beta = gemm->desc.beta};
}

/* Returns the work-items that share a column: MORE if group size and k allow it, else LANES. */
static int choose_lanes(const gemm *gemm, const code_panels *panels, const tile *tile) {
  enum { MORE = 16 };
  if (tile->lanes) return tile->lanes;
  return recorder_traits(gemm->recorder)->max_local >= MORE * CODE_PANEL &&
                 panels->parts >= 2 * MORE
             ? MORE
             : LANES;
}

static clave_status gemm_dots_multiply_few(const gemm *gemm, const code_panels *panels,
                                           const tile *tile, int b) {
  int lanes = choose_lanes(gemm, panels, tile);
  launch launch;
  begin_multiply(&launch, gemm, panels, tile);
  launch_define(&launch, "LANES", lanes);
  launch_define(&launch, "TURNS", tile->rows < LANES ? LANES / tile->rows : 1);
  launch_args(&launch,
              &(gemv_dots_args){.dots = operands(gemm), .codes = gemm_codes_operand(panels, b)});
  launch_epilogue(&launch);
  size_t group = (size_t)(CODE_PANEL * lanes);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, CODE_PANEL) * group,
                      (size_t)gemm_dots_count_tiles(gemm, tile), (size_t)gemm->desc.batches},
         local[3] = {group, 1, 1};
  return launch_run(&launch, 3, global, local);
}

static clave_status gemm_dots_multiply_tiles(const gemm *gemm, const code_panels *panels,
                                             const tile *tile, int b) {
  launch launch;
  begin_multiply(&launch, gemm, panels, tile);
  launch_define(&launch, "PANELS", tile->panels);
  launch_args(&launch,
              &(matmul_dots_args){.dots = operands(gemm), .codes = gemm_codes_operand(panels, b)});
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, LANES_PANELS * CODE_PANEL) * CODE_PANEL,
                      (size_t)gemm_dots_count_tiles(gemm, tile), (size_t)gemm->desc.batches},
         local[3] = {CODE_PANEL, LANES, 1};
  return launch_run(&launch, 3, global, local);
}

static clave_status gemm_dots_multiply_blocks(const gemm *gemm, const code_panels *panels,
                                              const tile *tile, int b) {
  const uint8_t *warps = tile->unit.warps[tile->side == LARGE];
  const size_t items = unit_items(&tile->unit, tile->side);
  launch launch;
  begin_multiply(&launch, gemm, panels, tile);
  launch_mma(&launch, &tile->unit);
  launch_define(&launch, "TILE", (int)tile->side);
  launch_define(&launch, "WARPS_M", warps[0]);
  launch_define(&launch, "WARPS_N", warps[1]);
  launch_args(&launch, &(matmul_dots_mma_args){.dots = operands(gemm),
                                               .codes = gemm_codes_operand(panels, b)});
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, tile->side) * items,
                      (size_t)ceil_div(gemm->desc.m, tile->side), (size_t)gemm->desc.batches},
         local[3] = {items, 1, 1};
  return launch_run(&launch, 3, global, local);
}

clave_status gemm_dots(const gemm *gemm, const code_panels *panels) {
  tile tile;
  int b;
  TRY(choose_tile(gemm, panels, &tile));
  TRY(gemm_pack_codes(gemm, panels, &b));
  int64_t words = gemm->desc.batches * (6 + gemm_dots_count_tiles(gemm, &tile) * panels->parts *
                                                tile_words(panels, &tile));
  TRY(recorder_scratch(gemm->recorder, sizeof(int32_t) * (size_t)words));
  recorder_rounds(gemm->recorder, ROUNDS_ROWS);
  TRY(gemm_dots_pack_a(gemm, panels, &tile));
  return tile.side      ? gemm_dots_multiply_blocks(gemm, panels, &tile, b)
         : is_few(gemm) ? gemm_dots_multiply_few(gemm, panels, &tile, b)
                        : gemm_dots_multiply_tiles(gemm, panels, &tile, b);
}
