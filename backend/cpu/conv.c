/* Conv, ConvInteger and ConvTranspose. */
#include "ops/conv.h"

#include <string.h>

#include "backend/cpu/cut.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/conv_amx_transposed.h"
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
  if (!conv_packs(p) || !cpu_takes_form(r, f->weight)) return NULL;
  p->is_packed = true;
  p->rounds = may_round(r, f) && conv_rounds(p);
  cpu_rounds(r, p->rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  TRY(cpu_form(r,
               &(cpu_form_request){.kind = conv_is_tiled(p) ? CPU_FORM_CONV_TILES
                                           : p->rounds      ? CPU_FORM_CONV_PAIRS
                                                            : CPU_FORM_CONV,
                                   .x = f->weight,
                                   .size = {f->transposed ? -f->groups : f->groups, d[0].tap_step,
                                            d[1].tap_step << 31 | d[2].tap_step},
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
                 .type = tensor_own_type(&f->x->t),
                 .x_is_narrow = f->x->t.is_narrow,
                 .out_is_narrow = f->out->t.is_narrow,
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

/* With outputs in lanes. */
static clave_status record_direct(cpu_recorder *r, const conv_form *f, conv_args *p) {
  p->is_packed = true;
  p->rounds = may_round(r, f);
  cpu_rounds(r, p->rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  TRY(cpu_form(r,
               &(cpu_form_request){.kind = conv_is_tiled(p) ? CPU_FORM_DIRECT_TILES
                                           : p->rounds      ? CPU_FORM_DIRECT_PAIRS
                                                            : CPU_FORM_CONV_DIRECT,
                                   .x = f->weight,
                                   .size = {f->transposed ? -f->groups : f->groups, 0, 0},
                                   .k = &kernel_conv_direct_pack,
                                   .args = p},
               &p->packed));
  return cpu_launch(r, conv_direct, p);
}

static clave_status record_product(cpu_recorder *r, const conv_form *f, conv_args *p) {
  TRY(pack_weight(r, f, p));
  p->cut = cut_product(r, p);
  return cpu_launch(r, conv, p);
}

static clave_status record_conv(cpu_recorder *r, const node *n, const conv_form *f) {
  conv_args p = arguments(r, f);
  if (conv_takes_tail(&p)) take_tail(r, n, SHORT_INPUTS, &p.tail, &p.steps);
  const bool rounds = may_round(r, f);
  const bool is_direct = (conv_is_direct(&p, rounds) || (rounds && conv_is_spread(&p))) &&
                         cpu_takes_form(r, f->weight);
  return is_direct ? record_direct(r, f, &p) : record_product(r, f, &p);
}

/* Whether a node is recorded as what reads and writes BF16, and what follows it then. */
static bool finds_narrow_way(cpu_recorder *r, const node *n, const conv_form *f, conv_args *p) {
  *p = arguments(r, f);
  if (p->type != DTYPE_F32 || f->transposed) return false;
  const bool winograd = choose_winograd(r, f) != 0;
  take_tail(r, n, winograd ? 1 : SHORT_INPUTS, &p->tail, &p->steps);
  if (conv_is_strips(p)) return !p->tail.added;
  if (winograd) return true;
  return may_round(r, f) && cpu_takes_form(r, f->weight) &&
         (conv_is_direct(p, true) || conv_rounds(p));
}

/* Steps with no other input run on sums before these are rounded. */
bool conv_takes_narrow(cpu_recorder *r, const node *n, uint32_t slot) {
  conv_form f;
  conv_args p;
  describe_conv(n, &f);
  if (!finds_narrow_way(r, n, &f, &p)) return false;
  const bool has_tail = p.steps.head.n_steps == 0;
  if (slot == f.out->slot)
    return cpu_has_own_epilogue(r, n) && p.steps.head.n_inputs <= 1 &&
           (f.x->t.is_narrow || !conv_is_strips(&p));
  if (tail_reads(n, slot) && !(has_tail && p.tail.added)) return false;
  return slot != f.weight->slot && (!f.bias || slot != f.bias->slot);
}

bool conv_transpose_takes_narrow(cpu_recorder *r, const node *n, uint32_t slot) {
  conv_form f;
  describe_conv_transpose(n, &f);
  const conv_args p = arguments(r, &f);
  if (!may_round(r, &f) || !conv_is_spread(&p) || !cpu_takes_form(r, f.weight)) return false;
  if (slot == f.out->slot) return cpu_has_own_epilogue(r, n);
  return slot == f.x->slot;
}

clave_status cpu_conv(cpu_recorder *r, const node *n) {
  conv_form f;
  describe_conv(n, &f);
  int tile = choose_winograd(r, &f);
  return tile ? record_winograd(r, n, &f, tile) : record_conv(r, n, &f);
}

clave_status cpu_conv_transpose(cpu_recorder *r, const node *n) {
  conv_form f;
  describe_conv_transpose(n, &f);
  return record_conv(r, n, &f);
}

/* The weight as tiles of bytes alone, if it is constant. */
static clave_status pack_integers(cpu_recorder *r, const conv_form *f, conv_args *p) {
  if (!conv_integer_likes_tiles(p) || !cpu_takes_form(r, f->weight)) return NULL;
  TRY(cpu_form(r,
               &(cpu_form_request){.kind = CPU_FORM_INTEGER_TILES,
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
