/* Pad: constant padding and cropping, reflected, replicated and circular padding. */
#include "ops/pad.h"

#include "ops/rule_checks.h"

/* Fails if a dimension of this size cannot be cropped by -n, or padded by n in this mode. */
static clave_status check_side(ir_pad_mode mode, int64_t size, int64_t n) {
  bool fits = n >= 0 || size == DIM_UNKNOWN || n >= -size;
  if (!fits) return INVALID("%lld crops more than the size %lld", (long long)n, (long long)size);
  if (mode == IR_PAD_MODE_CONSTANT || size == DIM_UNKNOWN || n == 0) return NULL;
  const char *name = ir_pad_mode_enum.values[mode].name;
  if (n < 0 && mode == IR_PAD_MODE_CIRCULAR)
    return INVALID("circular padding: expected 0 or more, got %lld", (long long)n);
  if (mode == IR_PAD_MODE_REFLECT && n >= size)
    return INVALID("reflect padding: expected less than the size %lld, got %lld", (long long)size,
                   (long long)n);
  if (mode == IR_PAD_MODE_CIRCULAR && n > size)
    return INVALID("circular padding: expected at most the size %lld, got %lld", (long long)size,
                   (long long)n);
  return size > 0 ? NULL : INVALID("%s padding of an empty dimension", name);
}

static clave_status pad_dimension(const rule_context *context, const ir_pad *op, int i,
                                  int64_t *size) {
  int64_t before = 0, after = 0;
  bool before_known = rule_int(context, &op->before.items[i], &before),
       after_known = rule_int(context, &op->after.items[i], &after);
  if (before_known) TRY(check_side(op->mode, *size, before));
  if (after_known) TRY(check_side(op->mode, *size, after));
  if (!before_known || !after_known || *size == DIM_UNKNOWN) {
    *size = DIM_UNKNOWN;
    return NULL;
  }
  int64_t out;
  if (!add_i64(before, after, &out) || !add_i64(out, *size, &out))
    return INVALID("padding is too large");
  if (out < 0)
    return INVALID("%lld and %lld crop more than the size %lld", (long long)before,
                   (long long)after, (long long)*size);
  *size = out;
  return NULL;
}

clave_status rule_pad(const rule_context *context, const void *op) {
  const ir_pad *pad = op;
  tensor want = *rule_tensor(context, pad->x);
  if ((uint32_t)pad->mode >= IR_PAD_MODE_COUNT)
    return INVALID("pad mode %u is unknown", (uint32_t)pad->mode);
  if (pad->before.count != (uint32_t)want.rank || pad->after.count != (uint32_t)want.rank) {
    return INVALID("before and after: expected %d entries each, got %u and %u", want.rank,
                   pad->before.count, pad->after.count);
  }
  if (!dtype_has_fractions(want.type) && !float_fits_int(want.type, pad->value)) {
    return INVALID("value %g does not fit %s", pad->value, dtype_name(want.type));
  }
  for (int i = 0; i < want.rank; i++)
    TRY(status_while(pad_dimension(context, pad, i, &want.dims[i]), "dimension %d", i));
  return rule_expect_like(context, pad->out, "out", &want);
}

/* ---------------------------------------------------------------- descriptions */

/* Returns the tensor, or a row of one element for a scalar. */
static bound_tensor at_least_row(const bound_tensor *tensor) {
  bound_tensor row = *tensor;
  if (row.tensor.rank > 0) return row;
  row.tensor.rank = 1;
  row.tensor.dims[0] = row.tensor.strides[0] = 1;
  return row;
}

/* Converts a value to an element's bits as torch does: dtypes smaller than F32 by way of F32. */
static uint64_t op_pad_bits_of(dtype t, double v) {
  union {
    double d;
    float f;
    uint16_t h;
    uint8_t code;
    uint64_t bits;
  } e = {.bits = 0};
  if (t == DTYPE_F64) e.d = v;
  if (t == DTYPE_F32) e.f = (float)v;
  if (t == DTYPE_F16) e.h = f32_to_f16((float)v);
  if (t == DTYPE_BF16) e.h = f32_to_bf16((float)v);
  if (t == DTYPE_F8_E4M3) e.code = f32_to_f8_e4m3((float)v);
  if (t == DTYPE_F8_E5M2) e.code = f32_to_f8_e5m2((float)v);
  if (t == DTYPE_BOOL) return v != 0;
  return dtype_has_fractions(t) ? e.bits : (uint64_t)(int64_t)v;
}

void describe_pad(const node *node, pad_desc *desc) {
  const ir_pad *op = node->instruction->op;
  *desc = (pad_desc){.mode = op->mode,
                     .x = at_least_row(&node->tensors[op->x]),
                     .out = at_least_row(&node->tensors[op->out])};
  desc->value = op_pad_bits_of(desc->x.tensor.type, op->value);
  for (uint32_t d = 0; d < op->before.count; d++)
    desc->before[d] = int_of(node, &op->before.items[d]);
}
