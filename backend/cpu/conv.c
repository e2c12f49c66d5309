/* Records Conv, ConvInteger and ConvTranspose. */
#include "ops/conv.h"

#include <string.h>

#include "backend/cpu/cut.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/epilogue.h"
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/conv_amx.h"
#include "backend/cpu/kernels/conv/conv_amx_weight.h"
#include "backend/cpu/kernels/conv/conv_direct.h"
#include "backend/cpu/kernels/conv/conv_integer_dots.h"
#include "backend/cpu/kernels/conv/conv_integer_steps.h"
#include "backend/cpu/kernels/conv/conv_integer_tiles.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "backend/cpu/requantise.h"
#include "backend/cpu/winograd.h"
#include "cpu_ops.h"
#include "ops/epilogue.h"
#include "ops/matmul.h"

/* True if fast precision allows BF16 products and they are faster. They are not for a single
 * channel, which fills only half of each pair, or a small k, for which the conversion costs more
 * than it saves. */
static bool may_round(const cpu_recorder *recorder, const conv_desc *desc) {
  int64_t k = desc->channels;
  for (int i = 0; i < CONV_DIMS; i++) k *= desc->dims[i].kernel;
  return cpu_is_fast(recorder) && pairs_are_fast() && desc->channels > 1 && k >= MIN_ROUNDED_K;
}

/* Makes the kernel read a constant weight packed in panels. */
static clave_status cpu_conv_pack_weight(cpu_recorder *recorder, const conv_desc *desc,
                                         conv_args *args) {
  const conv_dim *dim = desc->dims;
  if (!conv_packs(args) || !cpu_may_pack(recorder, desc->weight)) return NULL;
  args->is_packed = true;
  args->rounds = args->way == CONV_BY_POINTWISE && may_round(recorder, desc) && conv_rounds(args);
  cpu_rounds(recorder, args->rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  TRY(cpu_packed(
      recorder,
      &(cpu_packed_request){.kind = conv_is_tiled(args) ? CPU_PACKED_CONV_TILES
                                    : args->rounds      ? CPU_PACKED_CONV_PAIRS
                                                        : CPU_PACKED_CONV,
                            .x = desc->weight,
                            .size = {desc->transposed ? -desc->groups : desc->groups,
                                     dim[0].tap_step, dim[1].tap_step << 31 | dim[2].tap_step},
                            .desc = &kernel_conv_pack,
                            .args = args},
      &args->packed));
  args->weight = NULL; /* not read from here on */
  return NULL;
}

/* Merges all dimensions into one long row if each output reads only the input at its position. */
static void join_dims(conv_args *args) {
  for (int i = 0; i < CONV_DIMS; i++) {
    const conv_dim *dim = &args->dims[i];
    if (dim->kernel != 1 || dim->stride != 1 || dim->padding != 0 || dim->in != dim->out) return;
  }
  for (int i = 0; i < CONV_DIMS - 1; i++) {
    args->dims[CONV_DIMS - 1].in *= args->dims[i].in;
    args->dims[i].in = args->dims[i].out = 1;
  }
  args->dims[CONV_DIMS - 1].out = args->dims[CONV_DIMS - 1].in;
}

static conv_args cpu_conv_arguments(cpu_recorder *recorder, const conv_desc *desc) {
  conv_args args = {.x = cpu_operand(recorder, desc->x).data,
                    .weight = cpu_operand(recorder, desc->weight).data,
                    .bias = cpu_operand(recorder, desc->bias).data,
                    .out = cpu_operand(recorder, desc->out).data,
                    .type = desc->type,
                    .x_type = desc->x->tensor.type,
                    .out_type = desc->out->tensor.type,
                    .weight_type = desc->weight->tensor.type,
                    .encoding = desc->weight->tensor.encoding,
                    .transposed = desc->transposed,
                    .images = desc->images,
                    .groups = desc->groups,
                    .channels = desc->channels,
                    .outputs = desc->outputs,
                    .epilogue = conv_epilogue_none};
  _Static_assert(sizeof args.dims == sizeof desc->dims, "the same dimensions");
  memcpy(args.dims, desc->dims, sizeof args.dims);
  join_dims(&args);
  return args;
}

/* Returns the cut of the product of one phase. */
static gemm_cut cpu_conv_cut_product(cpu_recorder *recorder, const conv_args *args) {
  int64_t cells = args->images, taps = args->channels;
  if (conv_is_depthwise(args)) return (gemm_cut){0};
  for (int i = 0; i < CONV_DIMS; i++) {
    cells *= args->dims[i].out / args->dims[i].phases;
    taps *= args->dims[i].kernel / args->dims[i].tap_step;
  }
  return choose_cut(recorder, &(cut_sizes){.op = args->transposed ? "conv_transpose" : "conv",
                                           .batches = args->groups,
                                           .m = args->outputs,
                                           .n = cells,
                                           .k = taps,
                                           .type = args->type,
                                           .b_type = args->type,
                                           .a_is_packed = args->is_packed,
                                           .encoding = args->encoding});
}

/* ---------------------------------------------------------------- the variants */

typedef struct conv_problem {
  cpu_recorder *recorder;
  const node *node;
  const conv_desc *desc;
  conv_args args;
  bool may_round, may_pack;
  const int64_t *parameters; /* parameters of the chosen variant */
} conv_problem;

static conv_problem problem_of(cpu_recorder *recorder, const node *node, const conv_desc *desc) {
  return (conv_problem){.recorder = recorder,
                        .node = node,
                        .desc = desc,
                        .args = cpu_conv_arguments(recorder, desc),
                        .may_round = may_round(recorder, desc),
                        .may_pack = cpu_may_pack(recorder, desc->weight)};
}

static bool accepts_winograd(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  (void)variant;
  return !problem->desc->transposed && conv_accepts_winograd(problem->desc) && problem->may_pack;
}

/* In fast precision, products of BF16 pairs save more than tiles of 2, and AMX saves more than
 * tiles of 4. */
static double cpu_conv_cost_of_winograd(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  if (!accepts_winograd(conv, variant) ||
      conv_winograd_tile(problem->desc) != variant->parameters[0])
    return ON_REQUEST;
  if (!cpu_is_fast(problem->recorder) || !pairs_are_fast()) return variant->cost;
  return variant->parameters[0] == 2 || conv_tiles_fit(problem->desc->channels, problem->desc->dims)
             ? ON_REQUEST
             : variant->cost;
}

static bool cpu_conv_accepts_direct(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  (void)variant;
  return problem->may_pack && conv_is_direct(&problem->args);
}

static double cpu_conv_cost_of_direct(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  return conv_suits_direct(&problem->args, problem->may_round) ? variant->cost : ON_REQUEST;
}

static bool accepts_transposed(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  (void)variant;
  return problem->may_round && problem->may_pack && conv_amx_accepts_transposed(&problem->args);
}

/* parameters: the conv_way. Only CONV_BY_STRIPS reads and writes values stored as BF16. */
static bool accepts_way(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  const conv_way way = (conv_way)variant->parameters[0];
  const bool has_bf16 =
      problem->args.x_type != problem->args.type || problem->args.out_type != problem->args.type;
  return (way == CONV_BY_STRIPS || !has_bf16) && conv_accepts_way(&problem->args, way);
}

static bool accepts_pointwise(const void *conv, const kernel_variant *variant) {
  const conv_problem *problem = conv;
  conv_args packed = problem->args;
  (void)variant;
  packed.is_packed = problem->may_pack && conv_packs(&problem->args);
  packed.rounds = problem->may_round && conv_rounds(&problem->args);
  return conv_accepts_way(&packed, CONV_BY_POINTWISE);
}

/* Kernels that round, or read or write BF16, have no slopes; they run in fast precision only. */
static void fuse_conv_epilogue(conv_problem *problem, int max_inputs) {
  conv_args *args = &problem->args;
  epilogue_shape shape = {args->groups * args->outputs, out_size(args)};
  if (!conv_accepts_epilogue(args)) return;
  if (cpu_is_fast(problem->recorder)) shape.channels = 0;
  fuse_epilogue(problem->recorder, problem->node, shape, max_inputs, &args->epilogue, &args->steps);
}

static clave_status record_tiles(const void *conv) {
  const conv_problem *problem = conv;
  return record_winograd(problem->recorder, problem->node, problem->desc,
                         (int)problem->parameters[0]);
}

/* Records a direct kernel, with outputs in vector lanes or AMX tiles. */
static clave_status record_direct(const void *conv) {
  conv_problem problem = *(const conv_problem *)conv;
  conv_args *args = &problem.args;
  fuse_conv_epilogue(&problem, SHORT_INPUTS);
  args->is_packed = true;
  args->rounds = problem.may_round;
  cpu_rounds(problem.recorder, args->rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  TRY(cpu_packed(
      problem.recorder,
      &(cpu_packed_request){
          .kind = conv_is_tiled(args) ? CPU_PACKED_DIRECT_TILES
                  : args->rounds      ? CPU_PACKED_DIRECT_PAIRS
                                      : CPU_PACKED_CONV_DIRECT,
          .x = problem.desc->weight,
          .size = {problem.desc->transposed ? -problem.desc->groups : problem.desc->groups, 0, 0},
          .desc = &kernel_conv_direct_pack,
          .args = args},
      &args->packed));
  return cpu_launch(problem.recorder, conv_direct, args);
}

static clave_status record_way(const void *conv) {
  conv_problem problem = *(const conv_problem *)conv;
  fuse_conv_epilogue(&problem, SHORT_INPUTS);
  problem.args.way = (conv_way)problem.parameters[0];
  TRY(cpu_conv_pack_weight(problem.recorder, problem.desc, &problem.args));
  problem.args.cut = cpu_conv_cut_product(problem.recorder, &problem.args);
  return cpu_launch(problem.recorder, conv, &problem.args);
}

/* accepts_bf16 of the variants. Kernels that round their inputs can read inputs that are already
 * rounded. Winograd's method converts inputs to F32. */
static bool always_accepts_bf16(const void *conv) {
  (void)conv;
  return true;
}
static bool accepts_bf16_if_rounded(const void *conv) {
  return ((const conv_problem *)conv)->may_round;
}
static bool accepts_bf16_if_rounded_in_place(const void *conv) {
  const conv_problem *problem = conv;
  return problem->may_round && conv_rounds(&problem->args);
}
static bool accepts_bf16_if_nothing_added(const void *conv) {
  return !((const conv_problem *)conv)->args.epilogue.added;
}

/* The costs rank the variants as measured (docs/notebook/2026-11-27-convolutions.md). */
static const kernel_variant conv_variants[] = {
    {"direct", cpu_conv_accepts_direct, .cost = 2, .cost_of = cpu_conv_cost_of_direct,
     .record = record_direct, .accepts_bf16 = accepts_bf16_if_rounded},
    {"winograd 2", accepts_winograd, .cost = 1, .cost_of = cpu_conv_cost_of_winograd,
     .record = record_tiles, .accepts_bf16 = always_accepts_bf16, .parameters = {2}},
    {"winograd 4", accepts_winograd, .cost = 1, .cost_of = cpu_conv_cost_of_winograd,
     .record = record_tiles, .accepts_bf16 = always_accepts_bf16, .parameters = {4}},
    {"transposed tiles", accepts_transposed, .cost = 2, .record = record_direct,
     .accepts_bf16 = accepts_bf16_if_rounded},
    {"strips", accepts_way, .cost = 3, .record = record_way,
     .accepts_bf16 = accepts_bf16_if_nothing_added, .parameters = {CONV_BY_STRIPS}},
    {"planes", accepts_way, .cost = 4, .record = record_way, .parameters = {CONV_BY_PLANES}},
    {"pointwise", accepts_pointwise, .cost = 5, .record = record_way,
     .accepts_bf16 = accepts_bf16_if_rounded_in_place, .parameters = {CONV_BY_POINTWISE}},
    {"product", accepts_way, .cost = 6, .record = record_way, .parameters = {CONV_BY_PRODUCT}}};

static const kernel_variant *cpu_conv_choose_variant(const conv_problem *problem) {
  tuning_key key = cpu_key(problem->recorder);
  add_conv_key(&key, problem->desc);
  const variants all = {.family = "conv",
                        .rows = conv_variants,
                        .n = sizeof conv_variants / sizeof *conv_variants,
                        .problem = problem,
                        .changes_rounding = true};
  return cpu_choose(problem->recorder, &all, &key);
}

static clave_status cpu_conv_record(cpu_recorder *recorder, const node *node,
                                    const conv_desc *desc) {
  conv_problem problem = problem_of(recorder, node, desc);
  const kernel_variant *variant = cpu_conv_choose_variant(&problem);
  if (!variant) return UNSUPPORTED("no kernel of this convolution supports values stored as BF16");
  problem.parameters = variant->parameters;
  return variant->record(&problem);
}

/* ---------------------------------------------------------------- BF16 */

/* The epilogue runs on F32 sums before they are rounded, unless a step reads another input. */
bool conv_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot) {
  conv_desc desc;
  describe_conv(node, &desc);
  conv_problem problem = problem_of(recorder, node, &desc);
  if (problem.args.type != DTYPE_F32) return false;
  const kernel_variant *variant = cpu_conv_choose_variant(&problem);
  if (!variant) return false;
  fuse_conv_epilogue(&problem, variant->record == record_tiles ? 1 : SHORT_INPUTS);
  if (!variant->accepts_bf16 || !variant->accepts_bf16(&problem)) return false;
  const conv_args *args = &problem.args;
  const bool fuses_all_steps = args->steps.head.n_steps == 0,
             is_strips = variant->parameters[0] == CONV_BY_STRIPS;
  if (slot == desc.out->slot)
    return cpu_has_own_epilogue(recorder, node) && args->steps.head.n_inputs <= 1 &&
           (args->x_type == DTYPE_BF16 || variant->record != record_way || !is_strips);
  if (epilogue_reads(node, slot) && !(fuses_all_steps && args->epilogue.added)) return false;
  return slot != desc.weight->slot && (!desc.bias || slot != desc.bias->slot);
}

bool conv_transpose_supports_bf16(cpu_recorder *recorder, const node *node, uint32_t slot) {
  conv_desc desc;
  describe_conv_transpose(node, &desc);
  const conv_problem problem = problem_of(recorder, node, &desc);
  const kernel_variant *variant = cpu_conv_choose_variant(&problem);
  if (!variant || !variant->accepts_bf16 || !variant->accepts_bf16(&problem)) return false;
  if (slot == desc.out->slot) return cpu_has_own_epilogue(recorder, node);
  return slot == desc.x->slot;
}

clave_status cpu_conv(cpu_recorder *recorder, const node *node) {
  conv_desc desc;
  describe_conv(node, &desc);
  return cpu_conv_record(recorder, node, &desc);
}

clave_status cpu_conv_transpose(cpu_recorder *recorder, const node *node) {
  conv_desc desc;
  describe_conv_transpose(node, &desc);
  return cpu_conv_record(recorder, node, &desc);
}

/* Makes the kernel read a constant weight packed in tiles of bytes. */
static clave_status pack_integers(cpu_recorder *recorder, const conv_desc *desc, conv_args *args) {
  if (conv_integer_is_dots(args) || !conv_integer_suits_tiles(args) ||
      !cpu_may_pack(recorder, desc->weight))
    return NULL;
  TRY(cpu_packed(recorder,
                 &(cpu_packed_request){.kind = CPU_PACKED_INTEGER_TILES,
                                       .x = desc->weight,
                                       .desc = &kernel_conv_integer_pack,
                                       .args = args},
                 &args->packed));
  args->is_packed = true;
  args->weight = NULL; /* not read from here on */
  return NULL;
}

/* Records steps: in place if sums and results have equal element sizes, else via scratch memory. */
static clave_status record_integer_steps(cpu_recorder *recorder, const elementwise_desc *desc,
                                         const conv_integer_args *args) {
  conv_integer_steps_args own = {.conv = *args};
  if (dtype_size(desc->out->tensor.type) == sizeof(int32_t))
    return cpu_launch(recorder, conv_integer, args);
  cpu_accepts_epilogue(recorder);
  own.conv.conv.out = NULL;
  own.steps = elementwise_arguments(recorder, desc);
  own.steps.inputs[0].data = NULL;
  return cpu_launch(recorder, conv_integer_steps, &own);
}

clave_status cpu_conv_integer(cpu_recorder *recorder, const node *node) {
  conv_desc desc;
  elementwise_desc steps;
  describe_conv_integer(node, &desc);
  conv_integer_args args = {cpu_conv_arguments(recorder, &desc),
                            .padding_value = desc.padding_value};
  TRY(pack_integers(recorder, &desc, &args.conv));
  if (!describe_epilogue(node, &steps)) return cpu_launch(recorder, conv_integer, &args);
  args.makes_codes = match_requantise(recorder, &steps, &args.codes);
  args.decodes =
      !args.makes_codes && desc.channels > 1 &&
      match_decoded(recorder, &steps, &args.codes, &args.decode_zero, &args.decode_scale);
  args.makes_codes |= args.decodes;
  if (!args.makes_codes) return record_integer_steps(recorder, &steps, &args);
  cpu_accepts_epilogue(recorder);
  return cpu_launch(recorder, conv_integer, &args);
}
