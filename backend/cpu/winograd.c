/* Which convolutions are computed by Winograd's method, and their recording. */
#include "backend/cpu/winograd.h"

#include "backend/cpu/kernels/winograd.h"
#include "backend/cpu/tail.h"

/* From so many channels on tiles keep to the bound that direct sums have (test_cpu_winograd.c),
 * which grows faster with the channels than what they are off by. */
enum { LEAST_CHANNELS = 64, LEAST_OUTPUTS = 16 };

static const struct conv_variant {
  const char *name;
  int tile;
} conv_variants[] = {{"direct", 0}, {"winograd 2", 2}, {"winograd 4", 4}};

static bool is_plain(const conv_dim *d) {
  return d->in == 1 && d->out == 1 && d->kernel == 1 && d->padding == 0;
}
static bool is_side(const conv_dim *d) {
  return d->kernel == WINOGRAD_SIDE && d->stride == 1 && d->dilation == 1;
}

static bool fits(const conv_form *f) {
  return f->weight->is_constant && f->x->t.type == DTYPE_F32 && !f->transposed &&
         is_plain(&f->dims[0]) && is_side(&f->dims[1]) && is_side(&f->dims[2]) &&
         f->channels >= LEAST_CHANNELS && f->outputs >= LEAST_OUTPUTS;
}

static bool can_run(const void *ctx, int i) {
  (void)ctx;
  (void)i;
  return true;
}

/* By the images' sizes alone, not by how many there are, so that their number asks for no other
 * form of the weight. Tiles of 4 multiply 36 times for 16 outputs, where tiles of 2 do 64 times,
 * but the weight is 4 times as large as the plain one then, in place of 16 / 9 times, and must be
 * read for few tiles. In a line most of a tile is beyond the image. */
static int by_rule(const conv_form *f) {
  enum { SMALL_IMAGE = 14 * 14, DIRECT = 0, SMALL = 1, LARGE = 2 };
  const int64_t rows = f->dims[1].out, columns = f->dims[2].out;
  const int64_t side = rows < columns ? rows : columns;
  if (side <= 1) return DIRECT;
  return side <= 2 || rows * columns <= SMALL_IMAGE ? SMALL : LARGE;
}

int choose_winograd(cpu_recorder *r, const conv_form *f) {
  if (!fits(f) || !cpu_takes_form(r, f->weight)) return 0;
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
  return conv_variants[cpu_choose(r, &all, &k, by_rule(f))].tile;
}

clave_status record_winograd(cpu_recorder *r, const node *n, const conv_form *f, int tile) {
  winograd_args p = {.x = cpu_operand(r, f->x).data,
                     .weight = cpu_operand(r, f->weight).data,
                     .bias = cpu_operand(r, f->bias).data,
                     .out = cpu_operand(r, f->out).data,
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
                     .tile = tile,
                     .tail = take_tail(r, n)};
  TRY(cpu_form(r,
               &(cpu_form_request){.kind = CPU_FORM_WINOGRAD,
                                   .x = f->weight,
                                   .size = {f->groups, tile, 0},
                                   .k = &kernel_winograd_pack,
                                   .args = &p},
               &p.packed));
  return cpu_launch(r, winograd, &p);
}
