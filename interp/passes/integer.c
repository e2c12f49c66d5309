/* Converts convolutions and products of quantised tensors to integers. If x is (codes - zero) *
 * scale with 8-bit codes, and the weight is codes with one scale per row, integers are summed,
 * which is exact, and scaled once:
 *
 *   out[o] = (sum of code * weight - zero * sum of weight) * scale * row scale[o] + bias[o]
 *
 * x is padded with its zero. Ops that move or select elements (views, zero padding, max pooling)
 * are applied to the codes, before decoding. Codes that are decoded and quantised again with the
 * same scale and zero stay unchanged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp/passes/passes.h"

enum { FEW_ROWS = 8 };
/* Largest number of products per sum that fits 32 bits: 255 * 128 * MAX_TERMS < 2^31. */
static const int64_t MAX_TERMS = 65000;

/* A tensor that is (codes - zero) * scale, in f32. */
typedef struct dequantized {
  uint32_t codes; /* I8 or U8 */
  double scale;
  int zero; /* in the dtype of the codes */
} dequantized;

static bool is_code(dtype t) { return t == DTYPE_I8 || t == DTYPE_U8; }

static bool open_f32(const draft *draft, expr expression, ir_step_kind kind,
                     expr args[MAX_STEP_ARITY]) {
  ir_step_kind is;
  dtype type;
  return open_step(draft, expression, &is, args, &type) && is == kind && type == DTYPE_F32;
}

static bool match_zero(const draft *draft, expr *expression, double *zero) {
  expr args[MAX_STEP_ARITY];
  *zero = 0;
  if (!open_f32(draft, *expression, IR_STEP_KIND_SUB, args)) return true;
  *expression = args[0];
  return expr_number(draft, args[1], zero);
}

static bool match_dequantized(const draft *draft, expr expression, dequantized *decoded) {
  expr args[MAX_STEP_ARITY], codes;
  double zero, scale;
  if (!open_f32(draft, expression, IR_STEP_KIND_MUL, args) || !expr_number(draft, args[1], &scale))
    return false;
  expr whole = args[0];
  if (!match_zero(draft, &whole, &zero) || !open_f32(draft, whole, IR_STEP_KIND_CAST, args))
    return false;
  codes = args[0];
  if (codes.kind != EXPR_TENSOR || !is_code(draft_type(draft, codes.index))) return false;
  bool is_signed = draft_type(draft, codes.index) == DTYPE_I8;
  *decoded = (dequantized){.codes = codes.index, .scale = (float)scale, .zero = (int)zero};
  return scale > 0 && isfinite(scale) && zero == floor(zero) && zero >= (is_signed ? -128 : 0) &&
         zero <= (is_signed ? 127 : 255);
}

/* Adds the steps that decode moved codes to floats. */
static uint32_t add_dequantized(draft *draft, draft_node *before, const dequantized *dequantized) {
  const double zero = dequantized->zero, scale = dequantized->scale;
  uint32_t x = draft_cast(draft, before, dequantized->codes, DTYPE_F32);
  x = draft_step_number(draft, before, IR_STEP_KIND_SUB, x, zero);
  return draft_step_number(draft, before, IR_STEP_KIND_MUL, x, scale);
}

/* ---------------------------------------------------------------- the weight */

/* An encoded weight whose codes are 8-bit integers, with one scale per row. */
typedef struct weight_codes {
  uint32_t constant;
  int64_t rows, row; /* row: elements per row */
} weight_codes;

static bool integer_match_codes(const draft *draft, uint32_t constant, weight_codes *codes) {
  if (constant >= draft->from->ir.constants.count || !draft->slots[constant].data) return false;
  const tensor *tensor = &draft->from->types[constant];
  const encoding *encoding = &tensor->encoding;
  if (encoding->kind != ENCODING_GROUPS || encoding->axis != 1 || encoding->code != CODE_INT ||
      encoding->has_zeros)
    return false;
  if (tensor_numel(tensor) == 0) return false;
  *codes =
      (weight_codes){.constant = constant, .rows = tensor_rows(tensor), .row = tensor_row(tensor)};
  return codes->row <= MAX_TERMS && encoding_groups(encoding, codes->row) == 1;
}

/* The codes of a weight, and the scales and initial values of the sums. */
typedef struct arrays {
  signed char *weight; /* (rows, row) */
  float *scale;        /* (rows) */
  int32_t *begin;      /* (rows): -zero * the sum of the weight's row */
} arrays;

static void integer_read_row(const draft *draft, const weight_codes *weight_codes,
                             const dequantized *dequantized, int64_t r, const arrays *arrays) {
  const encoding *encoding = &draft->from->types[weight_codes->constant].encoding;
  const uint8_t *from = draft->slots[weight_codes->constant].data;
  const uint8_t *row = from + (size_t)r * encoding_row_bytes(encoding, weight_codes->row);
  int sum = 0;
  for (int64_t k = 0; k < weight_codes->row; k += DECODED_AT_ONCE) {
    float codes[DECODED_AT_ONCE];
    const code_factors factors =
        encoding_split(encoding, row, weight_codes->row, k / DECODED_AT_ONCE, codes);
    if (k == 0) arrays->scale[r] = factors.d[0];
    for (int64_t i = k; i < weight_codes->row && i < k + DECODED_AT_ONCE; i++) {
      arrays->weight[r * weight_codes->row + i] = (signed char)codes[i - k];
      sum += (int)codes[i - k];
    }
  }
  arrays->scale[r] *= (float)dequantized->scale;
  arrays->begin[r] = -dequantized->zero * sum;
}

/* The constants of an integer product: the weight (rows, ...), the scales (rows, 1, ...) and the
 * initial values of the sums (rows). `begin` is IR_NONE if x has no zero. */
typedef struct integer_weight {
  uint32_t weight, scale, begin;
} integer_weight;
static bool integer_add_weight(draft *draft, const draft_node *node, const weight_codes *codes,
                               const dequantized *dequantized, const ir_int_or_vid *shape, int rank,
                               integer_weight *out) {
  const size_t rows = (size_t)codes->rows;
  const arrays arrays = {.weight = malloc(rows * (size_t)codes->row),
                         .scale = malloc(rows * sizeof(float)),
                         .begin = malloc(rows * sizeof(int32_t))};
  ir_int_or_vid column[MAX_RANK] = {literal_size(codes->rows)};
  bool good = arrays.weight && arrays.scale && arrays.begin;
  if (!good) draft->no_memory = true;
  for (int64_t r = 0; r < codes->rows && good; r++) {
    integer_read_row(draft, codes, dequantized, r, &arrays);
    good = isfinite(arrays.scale[r]);
  }
  for (int i = 1; i < rank; i++) column[i] = literal_size(1);
  if (good) {
    out->weight = draft_constant(draft, DTYPE_I8, shape, rank, node->ins.name, arrays.weight);
    out->scale = draft_constant(draft, DTYPE_F32, column, rank - 1, node->ins.name, arrays.scale);
    out->begin = dequantized->zero
                     ? draft_constant(draft, DTYPE_I32, column, 1, node->ins.name, arrays.begin)
                     : IR_NONE;
  }
  free(arrays.weight);
  free(arrays.scale);
  free(arrays.begin);
  return good && !draft->no_memory;
}

/* Converts sums, I32 (N, O, ...) or (..., O), to floats, multiplies by scales, adds the bias
 * (O). */
static uint32_t scale_sums(draft *draft, draft_node *before, uint32_t sums, uint32_t scale,
                           uint32_t bias) {
  ir_int_or_vid column[MAX_RANK];
  int rank = draft_rank(draft, scale);
  for (int i = 0; i < rank; i++) column[i] = *draft_dim(draft, scale, i);
  uint32_t x = draft_cast(draft, before, sums, DTYPE_F32);
  x = draft_step(draft, before, IR_STEP_KIND_MUL, (uint32_t[]){x, scale}, 2);
  if (bias == IR_NONE) return x;
  bias = draft_reshape(draft, before, bias, column, rank);
  return draft_step(draft, before, IR_STEP_KIND_ADD, (uint32_t[]){x, bias}, 2);
}

static uint32_t sums_slot(draft *draft, const draft_node *node, uint32_t like) {
  const ir_int_or_vids *shape = &draft->slots[like].tensor.shape;
  return draft_slot_new(draft, DTYPE_I32, shape->items, (int)shape->count, node->ins.name);
}

/* ---------------------------------------------------------------- convolutions */

bool find_integer_conv(match *match, uint32_t *out) {
  dequantized dequantized;
  weight_codes weight_codes;
  integer_weight made;
  draft *draft = match->draft;
  const ir_conv *op = match->root->ins.op;
  if (match->root->ins.op_type != IR_OP_CONV || match->type != DTYPE_F32 || op->epilogue.count)
    return false;
  const uint32_t codes = draft_codes(draft, op->weight);
  if (codes == IR_NONE || !integer_match_codes(draft, codes, &weight_codes) ||
      !match_dequantized(draft, tensor_expr(op->x), &dequantized))
    return false;
  const ir_int_or_vids *shape = &draft->slots[codes].tensor.shape;
  if (!integer_add_weight(draft, match->root, &weight_codes, &dequantized, shape->items,
                          (int)shape->count, &made))
    return false;
  uint32_t sums = sums_slot(draft, match->root, op->out);
  ir_conv_integer *integer = draft_add(draft, match->root, IR_OP_CONV_INTEGER);
  *integer = (ir_conv_integer){.x = dequantized.codes,
                               .weight = made.weight,
                               .bias = made.begin,
                               .stride = op->stride,
                               .padding = op->padding,
                               .dilation = op->dilation,
                               .groups = op->groups,
                               .padding_value = dequantized.zero,
                               .out = sums,
                               .padding_after = op->padding_after};
  draft_note(draft, match->root);
  *out = scale_sums(draft, match->root, sums, made.scale, op->bias);
  return !draft->no_memory;
}

/* ---------------------------------------------------------------- products */

static uint32_t integer_add_product(draft *draft, draft_node *before,
                                    const dequantized *dequantized, const integer_weight *weight,
                                    uint32_t like) {
  uint32_t sums = sums_slot(draft, before, like);
  ir_matmul_integer *integer = draft_add(draft, before, IR_OP_MATMUL_INTEGER);
  if (draft->no_memory) return IR_NONE;
  *integer = (ir_matmul_integer){
      .a = dequantized->codes, .b = weight->weight, .bias = weight->begin, .out = sums};
  draft_note(draft, before);
  return sums;
}

/* True if there are always at least FEW_ROWS rows. With fewer rows, reading the weight takes most
 * of the time, so integer products are not faster. */
static bool has_rows(const draft *draft, uint32_t a) {
  tensor tensor;
  return draft_fixed(draft, a, &tensor) && tensor.rank >= 2 &&
         tensor.dims[tensor.rank - 2] >= FEW_ROWS;
}

bool find_integer_matmul(match *match, uint32_t *out) {
  dequantized dequantized;
  weight_codes codes;
  integer_weight made;
  draft *draft = match->draft;
  draft_node *root = match->root;
  const ir_matmul *op = root->ins.op;
  if (root->ins.op_type != IR_OP_MATMUL || match->type != DTYPE_F32 || !op->b_transposed)
    return false;
  if (op->epilogue.count || op->alpha != 1 || !has_rows(draft, op->a) ||
      !integer_match_codes(draft, op->b, &codes) ||
      !match_dequantized(draft, tensor_expr(op->a), &dequantized))
    return false;
  bool has_bias = op->bias != IR_NONE && op->beta != 0;
  if (has_bias && (op->beta != 1 || draft_rank(draft, op->bias) != 1)) return false;
  const ir_int_or_vid shape[] = {literal_size(codes.rows), literal_size(codes.row)};
  if (!integer_add_weight(draft, root, &codes, &dequantized, shape, 2, &made)) return false;
  uint32_t sums = integer_add_product(draft, root, &dequantized, &made, op->out);
  if (draft->no_memory) return false;
  *out = scale_sums(draft, root, sums, made.scale, has_bias ? op->bias : IR_NONE);
  return !draft->no_memory;
}

/* ---------------------------------------------------------------- ops on codes */

/* Ops that only move elements of x, with the offsets of x and out in their structs. */
#define MOVE(TYPE, type) \
  { IR_OP_##TYPE, offsetof(ir_##type, x), offsetof(ir_##type, out) }
static const struct {
  ir_op type;
  size_t x, out;
} moves[] = {
    MOVE(RESHAPE, reshape),
    MOVE(PERMUTE, permute),
    MOVE(SLICE, slice),
    MOVE(SELECT, select),
    MOVE(EXPAND, expand),
    MOVE(FLIP, flip),
    MOVE(UNFOLD, unfold),
    MOVE(COPY, copy),
    MOVE(PAD, pad),
    MOVE(POOL, pool),
    MOVE(AS_STRIDED, as_strided),
};
enum { N_MOVES = sizeof moves / sizeof moves[0] };

/* True if the op only moves elements: max pooling has no indices, and padding adds only +0. */
static bool keeps_codes(const ir_instruction *ins) {
  const ir_pool *pool = ins->op;
  const ir_pad *pad = ins->op;
  if (ins->op_type == IR_OP_POOL) return pool->kind == IR_POOL_KIND_MAX && pool->indices == IR_NONE;
  return ins->op_type != IR_OP_PAD || pad->mode != IR_PAD_MODE_CONSTANT ||
         (pad->value == 0 && !signbit(pad->value));
}

static void *add_move(draft *draft, draft_node *root, uint32_t codes, size_t x_at, size_t out_at,
                      uint32_t out) {
  void *op = draft_add(draft, root, root->ins.op_type);
  memcpy(op, root->ins.op, op_table[root->ins.op_type].table->size);
  memcpy((char *)op + x_at, &codes, sizeof codes);
  memcpy((char *)op + out_at, &out, sizeof out);
  return op;
}

bool find_integer_move(match *match, uint32_t *out) {
  dequantized dequantized;
  uint32_t x;
  draft *draft = match->draft;
  const ir_instruction *ins = &match->root->ins;
  int i = 0;
  while (i < N_MOVES && moves[i].type != ins->op_type) i++;
  if (i == N_MOVES || match->type != DTYPE_F32 || !keeps_codes(ins)) return false;
  memcpy(&x, (const char *)ins->op + moves[i].x, sizeof x);
  if (!match_dequantized(draft, tensor_expr(x), &dequantized)) return false;
  const ir_int_or_vids *shape = &draft->slots[match->out].tensor.shape;
  uint32_t codes = draft_slot_new(draft, draft_type(draft, dequantized.codes), shape->items,
                                  (int)shape->count, ins->name);
  if (draft->no_memory) return false;
  void *op = add_move(draft, match->root, dequantized.codes, moves[i].x, moves[i].out, codes);
  if (ins->op_type == IR_OP_PAD) ((ir_pad *)op)->value = dequantized.zero;
  draft_note(draft, match->root);
  dequantized.codes = codes;
  *out = add_dequantized(draft, match->root, &dequantized);
  return !draft->no_memory;
}

/* Matches x / scale, also as a product with 1 / scale. */
static bool match_scaled(const draft *draft, expr expression, expr *base, double *scale) {
  expr args[MAX_STEP_ARITY];
  const bool divides = open_f32(draft, expression, IR_STEP_KIND_DIV, args);
  if (!divides && !open_f32(draft, expression, IR_STEP_KIND_MUL, args)) return false;
  *base = args[0];
  if (!expr_number(draft, args[1], scale)) return false;
  if (!divides) *scale = 1 / *scale;
  return true;
}

/* Matches cast(clamp(round(x / scale) + zero, min code, max code)), which all libraries write. */
bool find_requantized(match *match, uint32_t *out) {
  dequantized dequantized;
  double low, high, zero, scale;
  expr expr[MAX_STEP_ARITY], expression, x;
  const draft *draft = match->draft;
  ir_step_kind kind;
  dtype type;
  if (!is_code(match->type) || !open_step(draft, tensor_expr(match->out), &kind, expr, &type) ||
      kind != IR_STEP_KIND_CAST || !open_f32(draft, expr[0], IR_STEP_KIND_CLAMP, expr))
    return false;
  bool is_signed = match->type == DTYPE_I8;
  if (!expr_number(draft, expr[1], &low) || !expr_number(draft, expr[2], &high) ||
      low != (is_signed ? -128 : 0) || high != (is_signed ? 127 : 255))
    return false;
  expression = expr[0];
  if (!open_f32(draft, expression, IR_STEP_KIND_ADD, expr) || !expr_number(draft, expr[1], &zero))
    return false;
  if (!open_f32(draft, expr[0], IR_STEP_KIND_ROUND, expr) ||
      !match_scaled(draft, expr[0], &x, &scale) || !match_dequantized(draft, x, &dequantized))
    return false;
  if (draft_type(draft, dequantized.codes) != match->type || dequantized.zero != zero ||
      fabs(dequantized.scale / scale - 1) > 1e-4)
    return false;
  *out = dequantized.codes;
  return draft_can_replace(draft, *out, match->out);
}
