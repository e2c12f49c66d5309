/* The GEMM for CPUs: packs a, then runs one launch over strips of columns and chunks of rows. */
#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"
#include "backend/opencl/ops/gemm/gemm_codes.h"

/* DEPTH: elements of k per block of the panels of a, as in kernels_cl/gemm/gemm_tile.h. SUM_ROWS:
 * rows per work-item whose sums are in local memory, with DEPTH k of its columns of b. */
enum { DEPTH = 128, SUM_ROWS = 256 };
/* Maximum columns of out per work-item: a block of b (64 or 128 KB) and a block of a then stay in
 * the second-level cache. */
enum { MAX_STRIP = 128 };
/* Work-items per core, so that all cores finish at about the same time. */
enum { ITEMS_PER_UNIT = 8 };

/* The buffer and layout of b. */
typedef struct b_place {
  arg_buffer buffer;
  bool packed; /* in the panels of gemm_panels.c */
  bool coded;  /* in the panels of gemm_codes.c */
  code_panels layout;
  int codes; /* number of the packed weight */
} b_place;

static int gemm_packed_panel_rows(const gemm *gemm) {
  return gemm_panel_rows(recorder_traits(gemm->recorder));
}
static int64_t gemm_packed_count_panels(const gemm *gemm) {
  return ceil_div(gemm->desc.m, gemm_packed_panel_rows(gemm));
}
/* Returns the columns that fit in local memory, in whole panels; 0 if not even one panel fits. */
static int64_t fitting_strip(const gemm *gemm, int64_t most) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  int64_t fits = (int64_t)(traits->local_memory / (sizeof(float) * SUM_ROWS)),
          panel = 2 * (int64_t)traits->vector_width;
  return min_i64(fits, most) / panel * panel;
}
/* True if local memory holds a copy of b, converted to floats or packed in panels. */
static bool copies_b(const gemm *gemm) {
  return !gemm_panels_usable(gemm) || gemm->desc.b->tensor.type != DTYPE_F32;
}
static bool sums_are_local(const gemm *gemm) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  const size_t strip = sizeof(float) * SUM_ROWS * 2 * (size_t)traits->vector_width;
  return gemm_panels_usable(gemm) && (copies_b(gemm) ? 2 : 1) * strip <= traits->local_memory;
}
/* Returns the columns per work-item: at most MAX_STRIP, and few enough that all cores have work. */
static int64_t strip_of(const gemm *gemm) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  const bool is_local = sums_are_local(gemm);
  int64_t most = gemm->each ? gemm->each : MAX_STRIP,
          rows = ceil_div(gemm->desc.m, SUM_ROWS) * gemm->desc.batches,
          least = 2 * (int64_t)traits->vector_width;
  if (is_local && copies_b(gemm)) most = min_i64(most, fitting_strip(gemm, INT64_MAX) / 2);
  while (is_local && !gemm->each && most / 2 >= least &&
         ceil_div(gemm->desc.n, most) * rows < ITEMS_PER_UNIT * (int64_t)traits->compute_units)
    most /= 2;
  return fitting_strip(gemm, most);
}

bool gemm_packed_accepts(const gemm *gemm, int64_t columns) {
  return fitting_strip(gemm, columns) == columns && columns != fitting_strip(gemm, MAX_STRIP);
}

bool gemm_packed_usable(const gemm *gemm) {
  return recorder_traits(gemm->recorder)->is_cpu && gemm->desc.k > 0 &&
         fitting_strip(gemm, gemm->each ? gemm->each : MAX_STRIP) > 0;
}

static int b_order(const gemm *gemm) {
  return gemm->desc.b_n == 1 || gemm->desc.n == 1 ? 0 : gemm->desc.b_k == 1 ? 1 : 2;
}

static void define_shape(launch *launch, const gemm *gemm) {
  launch_define(launch, "WIDTH", (int)recorder_traits(gemm->recorder)->vector_width);
  launch_define(launch, "A_ORDER", gemm->desc.a_k == 1);
}

/* True if all batches share a, for example if a is a weight. */
static bool has_one_a(const gemm *gemm) {
  for (int i = 0; i < gemm->desc.batch_a.rank; i++)
    if (gemm->desc.batch_a.dims[i] > 1 && gemm->desc.batch_a.strides[i] != 0) return false;
  return true;
}
static int64_t gemm_packed_count_matrices(const gemm *gemm) {
  return has_one_a(gemm) ? 1 : gemm->desc.batches;
}

static clave_status gemm_packed_pack_a(const gemm *gemm, arg_buffer a, arg_buffer packed) {
  launch launch;
  gemm_begin_a(&launch, gemm);
  define_shape(&launch, gemm);
  launch_args(&launch, &(gemm_pack_args){.a = a,
                                         .a_batch = strides_arg(&gemm->desc.batch_a),
                                         .batch_dims = dims_arg(&gemm->desc.batch_a),
                                         .a_m = gemm->desc.a_m,
                                         .a_k = gemm->desc.a_k,
                                         .packed = packed,
                                         .m_size = gemm->desc.m,
                                         .k_size = gemm->desc.k});
  size_t global[3] = {(size_t)gemm_packed_count_panels(gemm), (size_t)ceil_div(gemm->desc.k, DEPTH),
                      (size_t)gemm_packed_count_matrices(gemm)},
         local[3] = {1, 1, 1};
  return launch_run(&launch, 3, global, local);
}

/* Returns the panels of rows per work-item: all of them if there are enough strips for all cores,
 * so that each strip of b is packed once. Otherwise the rows are cut into chunks of at least
 * MIN_PANELS panels; with smaller chunks, packing b again costs more than another core gains. If
 * sums are local, a chunk has no more panels than fit. */
static int64_t gemm_packed_panels_each(const gemm *gemm, int64_t panels) {
  enum { MIN_PANELS = 4 };
  const bool is_local = sums_are_local(gemm);
  int64_t strips = ceil_div(gemm->desc.n, strip_of(gemm)) * gemm->desc.batches,
          wanted = (is_local ? ITEMS_PER_UNIT : 4) *
                   (int64_t)recorder_traits(gemm->recorder)->compute_units;
  int64_t chunks = strips >= wanted ? 1 : ceil_div(wanted, strips);
  if (chunks > panels / MIN_PANELS) chunks = panels / MIN_PANELS;
  if (is_local) chunks = max_i64(chunks, ceil_div(panels, SUM_ROWS / gemm_packed_panel_rows(gemm)));
  return chunks > 1 ? ceil_div(panels, chunks) : panels;
}

static panels_params all_panels(const gemm *gemm, arg_buffer buffer, int64_t a_stride,
                                int64_t each) {
  return (panels_params){.a = buffer,
                         .a_stride = a_stride,
                         .bias = optional_arg(gemm->desc.bias),
                         .bias_batch = strides_arg(&gemm->desc.batch_bias),
                         .bias_m = gemm->desc.bias_m,
                         .bias_n = gemm->desc.bias_n,
                         .out = buffer_arg(gemm->desc.out),
                         .sums = gemm->desc.out->tensor.type == DTYPE_F32
                                     ? buffer_arg(gemm->desc.out)
                                     : scratch_arg(0),
                         .batch_dims = dims_arg(&gemm->desc.batch_a),
                         .m_size = gemm->desc.m,
                         .n_size = gemm->desc.n,
                         .k_size = gemm->desc.k,
                         .panels_each = each,
                         .strip = strip_of(gemm),
                         .alpha = gemm->desc.alpha,
                         .beta = gemm->desc.beta};
}

/* Selects the kernel for the layout of b, and sets its arguments. */
static void gemm_packed_choose_kernel(launch *launch, const gemm *gemm, const panels_params *panels,
                                      const b_place *place) {
  const size_t bytes = sizeof(float) * SUM_ROWS * (size_t)strip_of(gemm);
  const arg_local memory = local_arg(bytes * (size_t)(copies_b(gemm) + sums_are_local(gemm)));
  if (place->coded) {
    gemm_codes_define(launch, &place->layout);
    launch_args(launch,
                &(gemm_codes_args){.panels = *panels,
                                   .codes = gemm_codes_operand(&place->layout, place->codes),
                                   .packed = memory});
  } else if (gemm_is_encoded(gemm)) {
    launch_encoding(launch, &gemm->desc.b->tensor.encoding);
    launch_args(launch,
                &(gemm_encoded_args){
                    .panels = *panels, .encoded = encoded_operand(gemm->desc.b), .packed = memory});
  } else {
    launch_dtype(launch, "B_TYPE", gemm->desc.b->tensor.type);
    launch_define(launch, "B_ORDER", b_order(gemm));
    launch_define(launch, "B_PACKED", place->packed);
    launch_define(launch, "SUMS_LOCAL", sums_are_local(gemm));
    launch_args(launch, &(gemm_args){.panels = *panels,
                                     .dense = gemm_dense_at(gemm, place->buffer),
                                     .memory = memory});
  }
}

static clave_status gemm_packed_multiply(const gemm *gemm, arg_buffer buffer, int64_t a_stride,
                                         const b_place *place) {
  int64_t panels = gemm_packed_count_panels(gemm), each = gemm_packed_panels_each(gemm, panels);
  const panels_params all = all_panels(gemm, buffer, a_stride, each);
  launch launch;
  gemm_begin_a(&launch, gemm);
  define_shape(&launch, gemm);
  gemm_packed_choose_kernel(&launch, gemm, &all, place);
  launch_epilogue(&launch);
  size_t global[3] = {(size_t)ceil_div(gemm->desc.n, strip_of(gemm)),
                      (size_t)ceil_div(panels, each), (size_t)gemm->desc.batches},
         local[3] = {1, 1, 1};
  return launch_run(&launch, 3, global, local);
}

/* Decodes gemm->codes after `used` floats of scratch memory, then packs the floats in `to`. */
static clave_status gemm_packed_pack_codes(const gemm *gemm, int64_t used, arg_buffer to) {
  const arg_buffer floats = scratch_arg(used);
  int64_t decoded = tensor_numel(&gemm->codes->tensor);
  TRY(recorder_scratch(gemm->recorder, sizeof(float) * (size_t)(used + decoded)));
  TRY(opencl_decode(gemm->recorder, gemm->node, gemm->codes, floats));
  return gemm_packed_pack_a(gemm, floats, to);
}

static int64_t matrix_floats(const gemm *gemm) {
  return gemm_packed_count_panels(gemm) * gemm_packed_panel_rows(gemm) * gemm->desc.k;
}
static int64_t packed_floats(const gemm *gemm) {
  return gemm_packed_count_matrices(gemm) * matrix_floats(gemm);
}

static clave_status pack_weight_a(cl_recorder *recorder, const gemm *product) {
  gemm gemm = *product;
  gemm.recorder = recorder;
  if (gemm.codes) return gemm_packed_pack_codes(&gemm, packed_floats(&gemm), scratch_arg(0));
  return gemm_packed_pack_a(&gemm, buffer_arg(gemm.desc.a), scratch_arg(0));
}

clave_status gemm_a_panels(const gemm *gemm, int64_t used, arg_buffer *buffer) {
  const bound_tensor *tensor = gemm->codes ? gemm->codes : gemm->desc.a;
  bool is_packed = recorder_may_pack(gemm->recorder, tensor);
  int64_t packed = packed_floats(gemm);
  *buffer = scratch_arg(used);
  TRY(recorder_scratch(gemm->recorder, sizeof(float) * (size_t)(used + (is_packed ? 0 : packed))));
  if (!is_packed && gemm->codes) return gemm_packed_pack_codes(gemm, used + packed, *buffer);
  if (!is_packed) return gemm_packed_pack_a(gemm, buffer_arg(gemm->desc.a), *buffer);
  const pack_request request = {.x = tensor,
                                .kind = PACKED_GEMM_A,
                                .size = {gemm_packed_panel_rows(gemm), gemm->desc.m, gemm->desc.k},
                                .bytes = sizeof(float) * (size_t)packed};
  cl_recorder *pack;
  int number;
  TRY(recorder_pack(gemm->recorder, &request, &number, &pack));
  TRY(pack_weight_a(pack, gemm));
  *buffer = packed_arg(number);
  return NULL;
}

clave_status gemm_packed(const void *product) {
  const gemm *gemm = product;
  int64_t matrix = matrix_floats(gemm), matrices = gemm_packed_count_matrices(gemm);
  bool waits =
      gemm->desc.out->tensor.type != DTYPE_F32 && gemm->desc.k > DEPTH && !sums_are_local(gemm);
  int64_t sums = waits ? gemm->desc.batches * gemm->desc.m * gemm->desc.n : 0;
  arg_buffer buffer;
  b_place place = {.buffer = buffer_arg(gemm->desc.b), .packed = gemm_panels_usable(gemm)};
  place.coded = gemm_codes_usable(gemm, &place.layout);
  TRY(gemm_a_panels(gemm, sums, &buffer));
  if (place.packed) TRY(gemm_b_panels(gemm, &place.buffer));
  if (place.coded) TRY(gemm_pack_codes(gemm, &place.layout, &place.codes));
  return gemm_packed_multiply(gemm, buffer, matrices > 1 ? matrix : 0, &place);
}
