/* Fft: discrete Fourier transforms. */
#include "ops/fft.h"

#include <math.h>

#include "ops/rule_checks.h"

/* ---------------------------------------------------------------- rule */

static bool is_complex(ir_fft_kind kind, bool out) {
  return kind != (out ? IR_FFT_KIND_TO_REAL : IR_FFT_KIND_FROM_REAL);
}

/* A tensor without its dimension of pairs. */
static clave_status take_pairs(const rule_context *c, uint32_t tid, const char *what, bool complex,
                               tensor *to) {
  *to = *rule_tensor(c, tid);
  if (!complex) return NULL;
  if (to->rank < 1 || !dim_matches(to->dims[to->rank - 1], 2))
    return INVALID("the last dimension of %s should be 2, a real and an imaginary part", what);
  to->rank--;
  return NULL;
}

static int64_t half_of(int64_t n) { return n == DIM_UNKNOWN ? n : n / 2 + 1; }

/* The sizes of x and out along the axis. */
static clave_status check_sizes(ir_fft_kind kind, int64_t x, int64_t out) {
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

clave_status rule_fft(const rule_context *c, const void *op) {
  const ir_fft *o = op;
  dtype type = rule_tensor(c, o->x)->type;
  tensor x, out;
  int axis = 0;
  if ((uint32_t)o->kind >= IR_FFT_KIND_COUNT)
    return INVALID("fft kind %u is unknown", (uint32_t)o->kind);
  if ((uint32_t)o->norm >= IR_FFT_NORM_COUNT)
    return INVALID("fft norm %u is unknown", (uint32_t)o->norm);
  if (type != DTYPE_F32 && type != DTYPE_F64)
    return INVALID("x: expected F32 or F64, got %s", dtype_name(type));
  TRY(take_pairs(c, o->x, "x", is_complex(o->kind, false), &x));
  TRY(take_pairs(c, o->out, "out", is_complex(o->kind, true), &out));
  TRY(rule_axis(o->axis, x.rank, &axis));
  tensor want = x;
  if (out.rank == x.rank) {
    TRY(check_sizes(o->kind, x.dims[axis], out.dims[axis]));
    want.dims[axis] = out.dims[axis];
  }
  if (is_complex(o->kind, true)) {
    if (want.rank == MAX_RANK)
      return INVALID("out would have %d dimensions, at most %d", want.rank + 1, MAX_RANK);
    want.dims[want.rank++] = 2;
  }
  return rule_expect_like(c, o->out, "out", &want);
}

/* ---------------------------------------------------------------- division into passes */

/* Four before two: of twos at most one pass is left. */
const int fft_radices[FFT_RADICES] = {4, 2, 3, 5, 7, 11, 13};

bool fft_divide(int64_t n, fft_plan *out) {
  *out = (fft_plan){.length = n};
  for (int i = 0; i < FFT_RADICES; i++)
    for (; n % fft_radices[i] == 0; n /= fft_radices[i]) out->count[i]++;
  return n == 1;
}

int fft_passes(const fft_plan *p, int radices[FFT_MAX_PASSES]) {
  int n = 0;
  for (int i = 0; i < FFT_RADICES; i++)
    for (int k = 0; k < p->count[i]; k++) radices[n++] = fft_radices[i];
  return n;
}

static int64_t power_of_two(int64_t least) {
  int64_t n = 1;
  while (n < least) n *= 2;
  return n;
}

/* ---------------------------------------------------------------- description */

static tensor without_pairs(const bound_tensor *x, bool complex, int64_t *pair) {
  tensor t = x->t;
  *pair = complex ? t.strides[t.rank - 1] : 0;
  t.rank -= complex;
  return t;
}

static double scale_of(ir_fft_norm norm, int64_t n) {
  return norm == IR_FFT_NORM_NONE ? 1
                                  : 1 / (norm == IR_FFT_NORM_ROOT ? sqrt((double)n) : (double)n);
}

void describe_fft(const node *n, fft_form *f) {
  const ir_fft *op = n->instruction->op;
  *f = (fft_form){.x = &n->tensors[op->x],
                  .out = &n->tensors[op->out],
                  .kind = op->kind,
                  .inverse = op->inverse};
  const tensor both[2] = {without_pairs(f->x, is_complex(op->kind, false), &f->pair[0]),
                          without_pairs(f->out, is_complex(op->kind, true), &f->pair[1])};
  rows_along(both, 2, axis_of(op->axis, both[0].rank), f->rows);
  int last = f->rows[0].rank - 1;
  f->n_rows = count_dims(&f->rows[0], 0, last);
  f->n_in = f->rows[0].dims[last];
  f->n_out = f->rows[1].dims[last];
  f->n = op->kind == IR_FFT_KIND_TO_REAL ? f->n_out : f->n_in;
  f->scale = scale_of(op->norm, f->n);
  f->chirp = !fft_divide(f->n, &f->plan);
  if (f->chirp) (void)fft_divide(power_of_two(2 * f->n - 1), &f->plan);
}
