/* Fft: discrete Fourier transforms. */
#include "ops/fft.h"

#include <math.h>

#include "ops/rule_checks.h"

/* ---------------------------------------------------------------- rule */

static bool is_complex(ir_fft_kind kind, bool out) {
  return kind != (out ? IR_FFT_KIND_TO_REAL : IR_FFT_KIND_FROM_REAL);
}

/* Stores a tensor's type; if complex, without the dimension of real and imaginary parts. */
static clave_status expect_points(const rule_context *context, uint32_t tid, const char *what,
                                  bool complex, tensor *to) {
  *to = *rule_tensor(context, tid);
  if (!complex) return NULL;
  if (to->rank < 1 || !dim_matches(to->dims[to->rank - 1], 2))
    return INVALID("the last dimension of %s should be 2, a real and an imaginary part", what);
  to->rank--;
  return NULL;
}

static int64_t half_of(int64_t n) { return n == DIM_UNKNOWN ? n : n / 2 + 1; }

/* Checks the sizes of x and out along the axis. */
static clave_status op_fft_check_sizes(ir_fft_kind kind, int64_t x, int64_t out) {
  bool to_real = kind == IR_FFT_KIND_TO_REAL;
  int64_t n = to_real ? out : x, other = to_real ? x : out;
  if (n == 0) return INVALID("a transform: expected at least 1 point, got 0");
  if (n >= FFT_TOO_MANY)
    return UNSUPPORTED("a transform of %lld points, at most 2^32 - 1", (long long)n);
  bool whole = dim_matches(other, n) && !to_real;
  bool half = dim_matches(other, half_of(n)) && kind != IR_FFT_KIND_COMPLEX;
  if (whole || half) return NULL;
  return INVALID("x has %lld elements along the axis and out %lld, of a transform of %lld points",
                 (long long)x, (long long)out, (long long)n);
}

clave_status rule_fft(const rule_context *context, const void *op) {
  const ir_fft *fft = op;
  dtype type = rule_tensor(context, fft->x)->type;
  tensor value, out;
  int axis = 0;
  if ((uint32_t)fft->kind >= IR_FFT_KIND_COUNT)
    return INVALID("fft kind %u is unknown", (uint32_t)fft->kind);
  if ((uint32_t)fft->norm >= IR_FFT_NORM_COUNT)
    return INVALID("fft norm %u is unknown", (uint32_t)fft->norm);
  if (type != DTYPE_F32 && type != DTYPE_F64)
    return INVALID("x: expected F32 or F64, got %s", dtype_name(type));
  TRY(expect_points(context, fft->x, "x", is_complex(fft->kind, false), &value));
  TRY(expect_points(context, fft->out, "out", is_complex(fft->kind, true), &out));
  TRY(rule_axis(fft->axis, value.rank, &axis));
  tensor want = value;
  if (out.rank == value.rank) {
    TRY(op_fft_check_sizes(fft->kind, value.dims[axis], out.dims[axis]));
    want.dims[axis] = out.dims[axis];
  }
  if (is_complex(fft->kind, true)) {
    if (want.rank == MAX_RANK)
      return INVALID("out would have %d dimensions, at most %d", want.rank + 1, MAX_RANK);
    want.dims[want.rank++] = 2;
  }
  return rule_expect_like(context, fft->out, "out", &want);
}

/* ---------------------------------------------------------------- division into passes */

/* Four precedes two, so at most one pass of radix two remains. */
const int fft_radices[FFT_RADICES] = {4, 2, 3, 5, 7, 11, 13};

bool fft_divide(int64_t n, fft_plan *out) {
  *out = (fft_plan){.length = n};
  for (int i = 0; i < FFT_RADICES; i++)
    for (; n % fft_radices[i] == 0; n /= fft_radices[i]) out->count[i]++;
  return n == 1;
}

int fft_passes(const fft_plan *plan, int radices[FFT_MAX_PASSES]) {
  int n = 0;
  for (int i = 0; i < FFT_RADICES; i++)
    for (int k = 0; k < plan->count[i]; k++) radices[n++] = fft_radices[i];
  return n;
}

static int64_t power_of_two(int64_t least) {
  int64_t n = 1;
  while (n < least) n *= 2;
  return n;
}

/* ---------------------------------------------------------------- description */

static tensor without_pairs(const bound_tensor *operand, bool complex, int64_t *pair) {
  tensor tensor = operand->tensor;
  *pair = complex ? tensor.strides[tensor.rank - 1] : 0;
  tensor.rank -= complex;
  return tensor;
}

static double op_fft_scale_of(ir_fft_norm norm, int64_t n) {
  return norm == IR_FFT_NORM_NONE ? 1
                                  : 1 / (norm == IR_FFT_NORM_ROOT ? sqrt((double)n) : (double)n);
}

void describe_fft(const node *node, fft_desc *desc) {
  const ir_fft *op = node->instruction->op;
  *desc = (fft_desc){.x = &node->tensors[op->x],
                     .out = &node->tensors[op->out],
                     .kind = op->kind,
                     .inverse = op->inverse};
  const tensor both[2] = {without_pairs(desc->x, is_complex(op->kind, false), &desc->pair[0]),
                          without_pairs(desc->out, is_complex(op->kind, true), &desc->pair[1])};
  rows_along(both, 2, axis_of(op->axis, both[0].rank), desc->rows);
  int last = desc->rows[0].rank - 1;
  desc->n_rows = count_dims(&desc->rows[0], 0, last);
  desc->n_in = desc->rows[0].dims[last];
  desc->n_out = desc->rows[1].dims[last];
  desc->n = op->kind == IR_FFT_KIND_TO_REAL ? desc->n_out : desc->n_in;
  desc->scale = op_fft_scale_of(op->norm, desc->n);
  desc->chirp = !fft_divide(desc->n, &desc->plan);
  if (desc->chirp) (void)fft_divide(power_of_two(2 * desc->n - 1), &desc->plan);
}
