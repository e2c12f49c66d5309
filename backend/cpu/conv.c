/* Conv, ConvInteger and ConvTranspose. */
#include "ops/conv.h"

#include <string.h>

#include "backend/cpu/cut.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/conv_amx.h"
#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/conv_direct.h"
#include "backend/cpu/kernels/conv/conv_integer_steps.h"
#include "backend/cpu/kernels/conv/conv_integer_tiles.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/requantise.h"
#include "backend/cpu/tail.h"
#include "backend/cpu/winograd.h"
#include "cpu_ops.h"
#include "ops/epilogue.h"
#include "ops/matmul.h"

/* Whether fewer digits will do, and are faster: not of one channel, which makes half a pair, nor of
 * a few products. */
static bool may_round(const cpu_recorder *r, const conv_form *f) {
  int64_t k = f->channels;
  for (int i = 0; i < CONV_DIMS; i++) k *= f->dims[i].kernel;
  return cpu_is_fast(r) && pairs_are_fast() && f->channels > 1 && k >= LEAST_ROUNDED_K;
}

/* The weight in panels alone, if it is constant. */
static clave_status pack_weight(cpu_recorder *r, const conv_form *f, conv_args *p) {
  const conv_dim *d = f->dims;
  if (!conv_packs(p) || !cpu_may_pack(r, f->weight)) return NULL;
  p->is_packed = true;
  p->rounds = p->way == CONV_BY_POINTWISE && may_round(r, f) && conv_rounds(p);
  cpu_rounds(r, p->rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  TRY(cpu_packed(r,
                 &(cpu_packed_request){.kind = conv_is_tiled(p) ? CPU_PACKED_CONV_TILES
                                               : p->rounds      ? CPU_PACKED_CONV_PAIRS
                                                                : CPU_PACKED_CONV,
                                       .x = f->weight,
                                       .size = {f->transposed ? -f->groups : f->groups,
                                                d[0].tap_step, d[1].tap_step << 31 | d[2].tap_step},
                                       .k = &kernel_conv_pack,
                                       .args = p},
                 &p->packed));
  p->weight = NULL; /* nothing reads it */
  return NULL;
}

/* Where each output sees one input at its own position, all dimensions are one long row. */
static void join_dims(conv_args *p) {
  for (int i = 0; i < CONV_DIMS; i++) {
    const conv_dim *d = &p->dims[i];
    if (d->kernel != 1 || d->stride != 1 || d->padding != 0 || d->in != d->out) return;
  }
  for (int i = 0; i < CONV_DIMS - 1; i++) {
    p->dims[CONV_DIMS - 1].in *= p->dims[i].in;
    p->dims[i].in = p->dims[i].out = 1;
  }
  p->dims[CONV_DIMS - 1].out = p->dims[CONV_DIMS - 1].in;
}

static conv_args arguments(cpu_recorder *r, const conv_form *f) {
  conv_args p = {.x = cpu_operand(r, f->x).data,
                 .weight = cpu_operand(r, f->weight).data,
                 .bias = cpu_operand(r, f->bias).data,
                 .out = cpu_operand(r, f->out).data,
                 .type = f->type,
                 .x_type = f->x->t.type,
                 .out_type = f->out->t.type,
                 .weight_type = f->weight->t.type,
                 .encoding = f->weight->t.encoding,
                 .transposed = f->transposed,
                 .images = f->images,
                 .groups = f->groups,
                 .channels = f->channels,
                 .outputs = f->outputs,
                 .tail = conv_tail_none};
  _Static_assert(sizeof p.dims == sizeof f->dims, "the same dimensions");
  memcpy(p.dims, f->dims, sizeof p.dims);
  join_dims(&p);
  return p;
}

/* As the product of one phase. */
static gemm_cut cut_product(cpu_recorder *r, const conv_args *p) {
  int64_t cells = p->images, taps = p->channels;
  if (conv_is_depthwise(p)) return (gemm_cut){0};
  for (int i = 0; i < CONV_DIMS; i++) {
    cells *= p->dims[i].out / p->dims[i].phases;
    taps *= p->dims[i].kernel / p->dims[i].tap_step;
  }
  return choose_cut(r, &(cut_sizes){.op = p->transposed ? "conv_transpose" : "conv",
                                    .batches = p->groups,
                                    .m = p->outputs,
                                    .n = cells,
                                    .k = taps,
                                    .type = p->type,
                                    .b_type = p->type,
                                    .a_is_packed = p->is_packed,
                                    .encoding = p->encoding});
}

/* ---------------------------------------------------------------- the variants */

typedef struct conv_problem {
  cpu_recorder *r;
  const node *n;
  const conv_form *f;
  conv_args args;
  bool may_round, may_pack;
  const int64_t *parameters; /* those of the variant */
} conv_problem;

static conv_problem problem_of(cpu_recorder *r, const node *n, const conv_form *f) {
  return (conv_problem){.r = r,
                        .n = n,
                        .f = f,
                        .args = arguments(r, f),
                        .may_round = may_round(r, f),
                        .may_pack = cpu_may_pack(r, f->weight)};
}

static bool takes_winograd(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  (void)variant;
  return !p->f->transposed && conv_takes_winograd(p->f) && p->may_pack;
}

/* In fast precision tiles of 2 save less than products of pairs of BF16 do, those of 4 less than
 * AMX. */
static double cost_of_winograd(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  if (!takes_winograd(conv, variant) || conv_winograd_tile(p->f) != variant->parameters[0])
    return ON_REQUEST;
  if (!cpu_is_fast(p->r) || !pairs_are_fast()) return variant->cost;
  return variant->parameters[0] == 2 || conv_tiles_fit(p->f->channels, p->f->dims) ? ON_REQUEST
                                                                                   : variant->cost;
}

static bool takes_direct(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  (void)variant;
  return p->may_pack && conv_is_direct(&p->args);
}

static double cost_of_direct(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  return conv_suits_direct(&p->args, p->may_round) ? variant->cost : ON_REQUEST;
}

static bool takes_transposed(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  (void)variant;
  return p->may_round && p->may_pack && conv_amx_takes_transposed(&p->args);
}

/* parameters: the conv_way. Strips alone read and write values that are kept as BF16. */
static bool takes_way(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  const conv_way way = (conv_way)variant->parameters[0];
  const bool has_bf16 = p->args.x_type != p->args.type || p->args.out_type != p->args.type;
  return (way == CONV_BY_STRIPS || !has_bf16) && conv_takes_way(&p->args, way);
}

static bool takes_pointwise(const void *conv, const kernel_variant *variant) {
  const conv_problem *p = conv;
  conv_args packed = p->args;
  (void)variant;
  packed.is_packed = p->may_pack && conv_packs(&p->args);
  packed.rounds = p->may_round && conv_rounds(&p->args);
  return conv_takes_way(&packed, CONV_BY_POINTWISE);
}

static void take_conv_tail(conv_problem *p, int most_inputs) {
  if (conv_takes_tail(&p->args)) take_tail(p->r, p->n, most_inputs, &p->args.tail, &p->args.steps);
}

static clave_status record_tiles(const void *conv) {
  const conv_problem *p = conv;
  return record_winograd(p->r, p->n, p->f, (int)p->parameters[0]);
}

/* With outputs in lanes, or by AMX. */
static clave_status record_direct(const void *conv) {
  conv_problem p = *(const conv_problem *)conv;
  conv_args *a = &p.args;
  take_conv_tail(&p, SHORT_INPUTS);
  a->is_packed = true;
  a->rounds = p.may_round;
  cpu_rounds(p.r, a->rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  TRY(cpu_packed(p.r,
                 &(cpu_packed_request){.kind = conv_is_tiled(a) ? CPU_PACKED_DIRECT_TILES
                                               : a->rounds      ? CPU_PACKED_DIRECT_PAIRS
                                                                : CPU_PACKED_CONV_DIRECT,
                                       .x = p.f->weight,
                                       .size = {p.f->transposed ? -p.f->groups : p.f->groups, 0, 0},
                                       .k = &kernel_conv_direct_pack,
                                       .args = a},
                 &a->packed));
  return cpu_launch(p.r, conv_direct, a);
}

static clave_status record_way(const void *conv) {
  conv_problem p = *(const conv_problem *)conv;
  take_conv_tail(&p, SHORT_INPUTS);
  p.args.way = (conv_way)p.parameters[0];
  TRY(pack_weight(p.r, p.f, &p.args));
  p.args.cut = cut_product(p.r, &p.args);
  return cpu_launch(p.r, conv, &p.args);
}

/* Kernels that round their inputs read rounded ones; Winograd's method widens them to floats. */
static bool always_takes_bf16(const void *conv) {
  (void)conv;
  return true;
}
static bool takes_bf16_if_rounded(const void *conv) {
  return ((const conv_problem *)conv)->may_round;
}
static bool takes_bf16_if_rounded_in_place(const void *conv) {
  const conv_problem *p = conv;
  return p->may_round && conv_rounds(&p->args);
}
static bool takes_bf16_if_nothing_added(const void *conv) {
  return !((const conv_problem *)conv)->args.tail.added;
}

/* The order of costs is that of measurements (docs/performance_convolutions.md). */
static const kernel_variant conv_variants[] = {
    {"direct", takes_direct, .cost = 2, .cost_of = cost_of_direct, .record = record_direct,
     .takes_bf16 = takes_bf16_if_rounded},
    {"winograd 2", takes_winograd, .cost = 1, .cost_of = cost_of_winograd, .record = record_tiles,
     .takes_bf16 = always_takes_bf16, .parameters = {2}},
    {"winograd 4", takes_winograd, .cost = 1, .cost_of = cost_of_winograd, .record = record_tiles,
     .takes_bf16 = always_takes_bf16, .parameters = {4}},
    {"transposed tiles", takes_transposed, .cost = 2, .record = record_direct,
     .takes_bf16 = takes_bf16_if_rounded},
    {"strips", takes_way, .cost = 3, .record = record_way,
     .takes_bf16 = takes_bf16_if_nothing_added, .parameters = {CONV_BY_STRIPS}},
    {"planes", takes_way, .cost = 4, .record = record_way, .parameters = {CONV_BY_PLANES}},
    {"pointwise", takes_pointwise, .cost = 5, .record = record_way,
     .takes_bf16 = takes_bf16_if_rounded_in_place, .parameters = {CONV_BY_POINTWISE}},
    {"product", takes_way, .cost = 6, .record = record_way, .parameters = {CONV_BY_PRODUCT}}};

static const kernel_variant *choose_variant(const conv_problem *p) {
  tuning_key k = cpu_key(p->r);
  add_conv_key(&k, p->f);
  const variants all = {.family = "conv",
                        .rows = conv_variants,
                        .n = sizeof conv_variants / sizeof *conv_variants,
                        .problem = p,
                        .rounds_apart = true};
  return cpu_choose(p->r, &all, &k);
}

static clave_status record_conv(cpu_recorder *r, const node *n, const conv_form *f) {
  conv_problem p = problem_of(r, n, f);
  const kernel_variant *variant = choose_variant(&p);
  if (!variant)
    return UNSUPPORTED("no kernel runs this convolution on values that are kept as BF16");
  p.parameters = variant->parameters;
  return variant->record(&p);
}

/* ---------------------------------------------------------------- BF16 */

/* Steps with no other input run on sums before these are rounded. */
bool conv_supports_bf16(cpu_recorder *r, const node *n, uint32_t slot) {
  conv_form f;
  describe_conv(n, &f);
  conv_problem p = problem_of(r, n, &f);
  if (p.args.type != DTYPE_F32) return false;
  const kernel_variant *variant = choose_variant(&p);
  if (!variant) return false;
  take_conv_tail(&p, variant->record == record_tiles ? 1 : SHORT_INPUTS);
  if (!variant->takes_bf16 || !variant->takes_bf16(&p)) return false;
  const conv_args *a = &p.args;
  const bool has_tail = a->steps.head.n_steps == 0,
             is_strips = variant->parameters[0] == CONV_BY_STRIPS;
  if (slot == f.out->slot)
    return cpu_has_own_epilogue(r, n) && a->steps.head.n_inputs <= 1 &&
           (a->x_type == DTYPE_BF16 || variant->record != record_way || !is_strips);
  if (tail_reads(n, slot) && !(has_tail && a->tail.added)) return false;
  return slot != f.weight->slot && (!f.bias || slot != f.bias->slot);
}

bool conv_transpose_supports_bf16(cpu_recorder *r, const node *n, uint32_t slot) {
  conv_form f;
  describe_conv_transpose(n, &f);
  const conv_problem p = problem_of(r, n, &f);
  const kernel_variant *variant = choose_variant(&p);
  if (!variant || !variant->takes_bf16 || !variant->takes_bf16(&p)) return false;
  if (slot == f.out->slot) return cpu_has_own_epilogue(r, n);
  return slot == f.x->slot;
}

clave_status cpu_conv(cpu_recorder *r, const node *n) {
  conv_form f;
  describe_conv(n, &f);
  return record_conv(r, n, &f);
}

clave_status cpu_conv_transpose(cpu_recorder *r, const node *n) {
  conv_form f;
  describe_conv_transpose(n, &f);
  return record_conv(r, n, &f);
}

/* The weight as tiles of bytes alone, if it is constant. */
static clave_status pack_integers(cpu_recorder *r, const conv_form *f, conv_args *p) {
  if (!conv_integer_likes_tiles(p) || !cpu_may_pack(r, f->weight)) return NULL;
  TRY(cpu_packed(r,
                 &(cpu_packed_request){.kind = CPU_PACKED_INTEGER_TILES,
                                       .x = f->weight,
                                       .k = &kernel_conv_integer_pack,
                                       .args = p},
                 &p->packed));
  p->is_packed = true;
  p->weight = NULL; /* nothing reads it */
  return NULL;
}

/* Steps in place, where sums and results are of one size; else in scratch memory. */
static clave_status record_integer_steps(cpu_recorder *r, const elementwise_form *e,
                                         const conv_integer_args *p) {
  conv_integer_steps_args a = {.conv = *p};
  if (dtype_size(e->out->t.type) == sizeof(int32_t)) return cpu_launch(r, conv_integer, p);
  cpu_takes_epilogue(r);
  a.conv.conv.out = NULL;
  a.steps = elementwise_arguments(r, e);
  a.steps.inputs[0].data = NULL;
  return cpu_launch(r, conv_integer_steps, &a);
}

clave_status cpu_conv_integer(cpu_recorder *r, const node *n) {
  conv_form f;
  elementwise_form e;
  describe_conv_integer(n, &f);
  conv_integer_args p = {arguments(r, &f), .padding_value = f.padding_value};
  TRY(pack_integers(r, &f, &p.conv));
  if (!describe_epilogue(n, &e)) return cpu_launch(r, conv_integer, &p);
  p.makes_codes = take_requantise(r, &e, &p.codes);
  p.decodes = !p.makes_codes && f.channels > 1 &&
              take_decoded(r, &e, &p.codes, &p.decode_zero, &p.decode_scale);
  p.makes_codes |= p.decodes;
  if (!p.makes_codes) return record_integer_steps(r, &e, &p);
  cpu_takes_epilogue(r);
  return cpu_launch(r, conv_integer, &p);
}
