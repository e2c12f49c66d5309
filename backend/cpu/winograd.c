/* Which convolutions are computed by Winograd's method, and their recording. */
#include "backend/cpu/winograd.h"

#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/winograd.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/tail.h"

static const struct conv_variant {
  const char *name;
  int tile;
} conv_variants[] = {{"direct", 0}, {"winograd 2", 2}, {"winograd 4", 4}};

static bool can_run(const void *ctx, int i) {
  (void)ctx;
  (void)i;
  return true;
}

/* Tiles of 2 save less than products of pairs of BF16 do, those of 4 less than AMX. */
static int tile_by_rule(const cpu_recorder *r, const conv_form *f) {
  const int tile = conv_winograd_tile(f);
  if (!cpu_is_fast(r) || !pairs_are_fast()) return tile;
  return tile == 2 || conv_tiles_fit(f->channels, f->dims) ? 0 : tile;
}

int choose_winograd(cpu_recorder *r, const conv_form *f) {
  if (!conv_takes_winograd(f) || !cpu_takes_form(r, f->weight)) return 0;
  tuning_key k = cpu_key(r);
  tuning_key_text(&k, "weight", dtype_name(f->weight->t.type));
  tuning_key_encoding(&k, "encoding", &f->weight->t.encoding);
  tuning_key_int(&k, "images", f->images);
  tuning_key_int(&k, "groups", f->groups);
  tuning_key_int(&k, "channels", f->channels);
  tuning_key_int(&k, "outputs", f->outputs);
  tuning_key_int(&k, "rows", f->dims[1].out);
  tuning_key_int(&k, "columns", f->dims[2].out);
  const variants all = {.family = "conv",
                        .rows = conv_variants,
                        .row_size = sizeof *conv_variants,
                        .n = sizeof conv_variants / sizeof *conv_variants,
                        .is_usable = can_run,
                        .ctx = f,
                        .rounds_apart = true};
  return conv_variants[cpu_choose(r, &all, &k, tile_by_rule(r, f) / 2)].tile;
}

clave_status record_winograd(cpu_recorder *r, const node *n, const conv_form *f, int tile) {
  winograd_args p = {.x = cpu_operand(r, f->x).data,
                     .weight = cpu_operand(r, f->weight).data,
                     .bias = cpu_operand(r, f->bias).data,
                     .out = cpu_operand(r, f->out).data,
                     .x_is_narrow = f->x->t.is_narrow,
                     .out_is_narrow = f->out->t.is_narrow,
                     .weight_type = f->weight->t.type,
                     .encoding = f->weight->t.encoding,
                     .images = f->images,
                     .groups = f->groups,
                     .channels = f->channels,
                     .outputs = f->outputs,
                     .in_rows = f->dims[1].in,
                     .in_columns = f->dims[2].in,
                     .out_rows = f->dims[1].out,
                     .out_columns = f->dims[2].out,
                     .top = f->dims[1].padding,
                     .left = f->dims[2].padding,
                     .tile = tile};
  take_tail(r, n, 1, &p.tail, &p.steps);
  TRY(cpu_form(r,
               &(cpu_form_request){.kind = CPU_FORM_WINOGRAD,
                                   .x = f->weight,
                                   .size = {f->groups, tile, 0},
                                   .k = &kernel_winograd_pack,
                                   .args = &p},
               &p.packed));
  return cpu_launch(r, winograd, &p);
}
