/* Products with an encoded constant b. Its codes are packed once, in panels that products with any
 * number of rows read. */
#include "backend/opencl/ops/gemm/gemm_codes.h"

#include "backend/opencl/ops/encoded.h"
#include "backend/opencl/ops/families.h"

enum { FEW_ROWS = 32 }; /* maximum rows of a to read in place; with more rows, a is packed, too */

bool gemm_codes_of(const gemm *gemm, code_panels *panels) {
  return gemm_is_encoded(gemm) && gemm->desc.k > 0 &&
         recorder_may_pack(gemm->recorder, gemm->desc.b) &&
         code_panels_of(&gemm->desc.b->tensor.encoding, gemm->desc.k, panels);
}

bool gemm_codes_usable(const gemm *gemm, code_panels *panels) {
  const device_traits *traits = recorder_traits(gemm->recorder);
  return traits->is_cpu && traits->vector_width >= 8 && gemm_codes_of(gemm, panels);
}

/* Returns the number of matrices, each with separate panels. */
static int64_t gemm_codes_count_matrices(const gemm *gemm) {
  return gemm->grouped ? gemm->desc.b->tensor.dims[0] : 1;
}
static int64_t gemm_codes_count_panels(const gemm *gemm) {
  return ceil_div(gemm->desc.n, CODE_PANEL);
}

void gemm_codes_define(launch *launch, const code_panels *panels) {
  launch_define(launch, "CODE_BITS", panels->bits);
  launch_define(launch, "LEAST", panels->least);
  launch_define(launch, "SPANS", panels->spans);
  launch_define(launch, "HAS_SUBS", panels->has_subs);
  launch_define(launch, "HAS_LOWS", panels->has_lows);
  launch_define(launch, "WIDE_FACTORS", panels->wide);
  launch_define(launch, "BLOCK", panels->block);
  launch_define(launch, "PERIOD", panels->period);
  launch_define(launch, "FLOAT_CODES",
                panels->code == CODE_E4M3   ? 3
                : panels->code == CODE_E5M2 ? 2
                                            : 0);
}

static clave_status gemm_codes_launch_pack(cl_recorder *recorder, const gemm *gemm) {
  code_panels panels;
  if (!code_panels_of(&gemm->desc.b->tensor.encoding, gemm->desc.k, &panels))
    return UNSUPPORTED("operand b has no packed codes");
  launch launch;
  launch_begin(&launch, recorder, gemm->node);
  launch_encoding(&launch, &gemm->desc.b->tensor.encoding);
  gemm_codes_define(&launch, &panels);
  launch_args(&launch, &(gemm_codes_pack_args){.encoded = encoded_operand(gemm->desc.b),
                                               .packed = scratch_arg(0),
                                               .panel_bytes = (int64_t)panels.bytes,
                                               .n_size = gemm->desc.n,
                                               .k_size = gemm->desc.k});
  size_t global[3] = {(size_t)gemm_codes_count_panels(gemm), (size_t)panels.parts,
                      (size_t)gemm_codes_count_matrices(gemm)},
         local[3] = {1, 1, 1};
  return launch_run(&launch, 3, global, local);
}

clave_status gemm_pack_codes(const gemm *gemm, const code_panels *panels, int *number) {
  const pack_request request = {.x = gemm->desc.b,
                                .kind = PACKED_GEMM_CODES,
                                .size = {CODE_PANEL, gemm->desc.n, gemm->desc.k},
                                .bytes = panels->bytes * (size_t)(gemm_codes_count_panels(gemm) *
                                                                  gemm_codes_count_matrices(gemm))};
  cl_recorder *pack;
  TRY(recorder_pack(gemm->recorder, &request, number, &pack));
  return gemm_codes_launch_pack(pack, gemm);
}

codes_params gemm_codes_operand(const code_panels *panels, int packed) {
  return (codes_params){
      .b = packed_arg(packed), .panel_bytes = (int64_t)panels->bytes, .parts = panels->parts};
}

bool gemm_codes_few(const gemm *gemm) { return gemm->desc.m <= FEW_ROWS; }

/* Returns how many rows are multiplied at once. A row uses one register for sums and one for totals
 * if there are 32; with 16 shorter registers it uses two for each. */
static int gemm_codes_rows_at_once(const gemm *gemm) {
  int most = recorder_traits(gemm->recorder)->vector_width == 16 ? 8 : 4, rows = 1;
  while (rows < most && rows < gemm->desc.m) rows *= 2;
  return rows;
}

/* The share of a work-item of gemv_codes. */
typedef struct share {
  int64_t rows;  /* rounded up to a multiple of gemm_codes_rows_at_once */
  int64_t each;  /* panels */
  int64_t depth; /* parts of 32 elements */
  size_t floats; /* floats of local memory */
} share;

/* Assigns each core several shares, with sums of up to 8 KB and rows of a of up to 16 KB. */
static share gemm_codes_share_work(const gemm *gemm, const code_panels *panels) {
  enum { SUMS = 2048, FLOATS = 4096 };
  int64_t at_once = gemm_codes_rows_at_once(gemm);
  share share = {.rows = ceil_div(gemm->desc.m, at_once) * at_once};
  int64_t wanted = 4 * (int64_t)recorder_traits(gemm->recorder)->compute_units,
          most = SUMS / (share.rows * CODE_PANEL);
  share.each =
      max_i64(1, min_i64(most, gemm_codes_count_panels(gemm) * gemm->desc.batches / wanted));
  share.depth = min_i64(panels->parts, max_i64(1, FLOATS / (gemm->desc.m * DECODED_AT_ONCE)));
  int64_t sums = panels->has_lows ? gemm->desc.m * share.depth * panels->spans : 0;
  share.floats = (size_t)(share.each * share.rows * CODE_PANEL +
                          gemm->desc.m * share.depth * DECODED_AT_ONCE + sums);
  return share;
}

clave_status gemm_codes_rows(const gemm *gemm, const code_panels *panels) {
  share share = gemm_codes_share_work(gemm, panels);
  int b;
  TRY(gemm_pack_codes(gemm, panels, &b));
  launch launch;
  gemm_begin_a(&launch, gemm);
  gemm_codes_define(&launch, panels);
  launch_define(&launch, "M", gemm_codes_rows_at_once(gemm));
  launch_args(&launch, &(gemv_codes_args){.gemm = gemm_operands(gemm),
                                          .codes = gemm_codes_operand(panels, b),
                                          .padded = share.rows,
                                          .each = share.each,
                                          .depth = share.depth,
                                          .scratch = local_arg(sizeof(float) * share.floats)});
  launch_epilogue(&launch);
  size_t global[2] = {(size_t)ceil_div(gemm_codes_count_panels(gemm), share.each),
                      (size_t)gemm->desc.batches},
         local[2] = {1, 1};
  return launch_run(&launch, 2, global, local);
}
