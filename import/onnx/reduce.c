/* Reductions, ArgMax, ArgMin and LpNormalization. Axes are an attribute or, since opset 18
 * (ReduceSum: 13), an input. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "import/onnx/converters.h"

typedef struct reduction {
  importer *im;
  int axes[CLAVE_MAX_RANK], n;      /* no axes: all */
  bool keepdim, noop;               /* noop: elements are not joined, only computed */
  bool is_open;                     /* the axes are known only during the run: */
  number positions[CLAVE_MAX_RANK]; /* (n) from the start */
} reduction;

/* ---------------------------------------------------------------- axes */

/* Returns the extreme of no elements: the least or the greatest number of the dtype. */
static number extreme_of_nothing(clave_dtype type, bool greatest) {
  if (dtype_has_fractions((dtype)type))
    return number_float(greatest ? (double)INFINITY : -(double)INFINITY);
  const int bits = 8 * (int)clave_dtype_size(type);
  if (type == CLAVE_U64) return number_int(greatest ? -1 : 0);
  if (type == CLAVE_U8 || type == CLAVE_U16 || type == CLAVE_U32)
    return number_int(greatest ? (INT64_C(1) << bits) - 1 : 0);
  return number_int(greatest ? INT64_MAX >> (64 - bits) : INT64_MIN >> (64 - bits));
}

/* Returns a if `holds`(position, d) is true, else b. */
static number select_at(importer *im, number_kind holds, number position, int d, number a,
                        number b) {
  number out = number_where(im, number_compute(im, holds, position, number_int(d)), a, b);
  out.no_sign = true;
  return out;
}

/* Appends the extreme of no elements to an axis, the middle one of three, if it is empty. */
static value *pad_if_empty(importer *im, const char *kind, value *input) {
  const bool most = strcmp(kind, "max") == 0, least = strcmp(kind, "min") == 0;
  const number zero = number_int(0), before[3] = {zero, zero, zero};
  number after[3] = {zero, zero, zero};
  if (!input || (!most && !least) || (least && input->type == CLAVE_I64)) return input;
  after[1] = select_at(im, NUMBER_EQ, input->dims[1], 0, number_int(1), zero);
  const number fill = extreme_of_nothing(input->type, least);
  return emit_pad(im, input, before, after, "constant",
                  fill.type == NUMBER_FLOAT ? fill.f : (double)fill.i);
}

/* Reduces an axis that is known only during the run, as the middle one of three dimensions. */
static value *reduce_at(importer *im, const char *kind, value *input, number position) {
  const int middle = 1;
  const number one = number_int(1);
  number joined[3] = {one, one, one}, dims[CLAVE_MAX_RANK];
  for (int d = 0; input && d < input->rank; d++) {
    const number size = input->dims[d];
    joined[0] = number_mul(im, joined[0], select_at(im, NUMBER_GT, position, d, size, one));
    joined[1] = select_at(im, NUMBER_EQ, position, d, size, joined[1]);
    joined[2] = number_mul(im, joined[2], select_at(im, NUMBER_LT, position, d, size, one));
    dims[d] = select_at(im, NUMBER_EQ, position, d, one, size);
  }
  value *rows = pad_if_empty(im, kind, emit_reshape(im, input, 3, joined));
  value *out = emit_reduce(im, kind, rows, &middle, 1, true);
  return input ? emit_reshape(im, out, input->rank, dims) : NULL;
}

/* Sets the dims of a result without the open axes. */
static void squeeze_open(const reduction *reduction, const value *input, number *dims) {
  importer *im = reduction->im;
  const number zero = number_int(0);
  number place = zero;
  for (int j = 0; j < input->rank - reduction->n; j++) dims[j] = zero;
  for (int d = 0; d < input->rank; d++) {
    number kept = number_int(1);
    for (int i = 0; i < reduction->n; i++)
      kept = select_at(im, NUMBER_EQ, reduction->positions[i], d, zero, kept);
    const number size = number_mul(im, kept, input->dims[d]);
    for (int j = 0; j < input->rank - reduction->n; j++)
      dims[j] = number_add(im, dims[j], select_at(im, NUMBER_EQ, place, j, size, zero));
    place = number_add(im, place, kept);
  }
  for (int j = 0; j < input->rank - reduction->n; j++) dims[j].no_sign = true;
}

/* Returns the shape of the result as a value of this dtype that has no elements yet. */
static value *reduced_shape(const reduction *reduction, const value *input, clave_dtype type) {
  number dims[CLAVE_MAX_RANK];
  bool reduced[CLAVE_MAX_RANK] = {false};
  int rank = 0;
  if (reduction->is_open && !reduction->keepdim) {
    squeeze_open(reduction, input, dims);
    return value_new(reduction->im, type, input->rank - reduction->n, dims);
  }
  for (int i = 0; i < reduction->n; i++) reduced[reduction->axes[i]] = true;
  for (int d = 0; d < input->rank; d++) {
    if (!reduced[d] && reduction->n)
      dims[rank++] = input->dims[d];
    else if (reduction->keepdim)
      dims[rank++] = number_int(1);
  }
  for (int i = 0; i < reduction->n && reduction->is_open; i++)
    for (int d = 0; d < input->rank; d++)
      dims[d] = select_at(reduction->im, NUMBER_EQ, reduction->positions[i], d, number_int(1),
                          i ? dims[d] : input->dims[d]);
  return value_new(reduction->im, type, rank, dims);
}

/* Returns the number of elements that each result joins. */
static number reduced_count(const reduction *reduction, const value *input) {
  importer *im = reduction->im;
  number count = number_int(1);
  if (!reduction->n) return value_numel(im, input);
  for (int i = 0; i < reduction->n; i++) {
    number size = input->dims[reduction->axes[i]];
    for (int d = 0; d < input->rank && reduction->is_open; d++)
      size = select_at(im, NUMBER_EQ, reduction->positions[i], d, input->dims[d], size);
    count = number_mul(im, count, size);
  }
  return count;
}

static value *reduce_by(const reduction *reduction, const char *kind, value *input) {
  importer *im = reduction->im;
  if (reduction->noop || !input) return input;
  if (!reduction->is_open)
    return emit_reduce(im, kind, input, reduction->axes, reduction->n, reduction->keepdim);
  value *shape = reduced_shape(reduction, input, input->type);
  for (int i = 0; i < reduction->n; i++)
    input = reduce_at(im, kind, input, reduction->positions[i]);
  return shape ? emit_reshape(im, input, shape->rank, shape->dims) : NULL;
}

/* ---------------------------------------------------------------- extremes */

static value *reduce_extreme(const reduction *reduction, const char *kind, value *input) {
  importer *im = reduction->im;
  const bool greatest = strcmp(kind, "max") == 0;
  if (!input || reduction->noop) return input;
  if (input->type == CLAVE_BOOL) return reduce_by(reduction, greatest ? "any" : "all", input);
  if (number_is(reduced_count(reduction, input), 0)) {
    value *out = reduced_shape(reduction, input, input->type);
    const number limit = extreme_of_nothing(input->type, !greatest);
    return out ? emit_full(im, input->type, out->rank, out->dims, limit) : NULL;
  }
  return onnx_unordered(im, reduce_by(reduction, kind, onnx_ordered(im, input)), input->type);
}

/* ---------------------------------------------------------------- kinds
 * The caller casts input to a dtype in which nothing overflows, and casts the result back. */

typedef value *reduce_kind(const reduction *reduction, value *input);

static value *reduce_sum(const reduction *reduction, value *input) {
  return reduce_by(reduction, "sum", input);
}

static value *reduce_prod(const reduction *reduction, value *input) {
  return reduce_by(reduction, "prod", input);
}

/* A mean of integers is rounded towards zero. */
static value *reduce_mean(const reduction *reduction, value *input) {
  importer *im = reduction->im;
  if (!input || dtype_is_float((dtype)input->type) || reduction->noop)
    return reduce_by(reduction, "mean", input);
  value *count = value_of_number(im, input->type, reduced_count(reduction, input));
  return emit_binary(im, "trunc_divide", reduce_sum(reduction, input), count);
}

static value *reduce_sum_square(const reduction *reduction, value *input) {
  return reduce_sum(reduction, emit_binary(reduction->im, "mul", input, input));
}

static value *reduce_l1(const reduction *reduction, value *input) {
  return reduce_sum(reduction, emit_unary(reduction->im, "abs", input));
}

static value *reduce_l2(const reduction *reduction, value *input) {
  if (reduction->noop) return emit_unary(reduction->im, "abs", input);
  return reduce_by(reduction, "norm2", input);
}

static value *reduce_log_sum(const reduction *reduction, value *input) {
  return emit_unary(reduction->im, "log", reduce_sum(reduction, input));
}

/* Returns log(sum(exp(input - m))) + m, where m is the greatest element or, if that is infinite, 0
 */
static value *reduce_log_sum_exp(const reduction *given, value *input) {
  reduction kept = *given;
  importer *im = given->im;
  kept.keepdim = true;
  if (given->noop || !input) return input;
  value *most = reduce_extreme(&kept, "max", input);
  most = emit_where(im, emit_unary(im, "isinf", most), value_of_float(im, input->type, 0), most);
  value *power = emit_unary(im, "exp", emit_binary(im, "sub", input, most));
  value *out = emit_binary(im, "add", emit_unary(im, "log", reduce_by(&kept, "sum", power)), most);
  value *shape = reduced_shape(given, input, input->type);
  return shape ? emit_reshape(im, out, shape->rank, shape->dims) : NULL;
}

/* Sums of 16-bit floats accumulate in F32 in any case; those of integers wrap. */
typedef enum reduce_width { WIDTH_OWN, WIDTH_F32_OR_I64, WIDTH_F32_OR_F64 } reduce_width;

static const struct {
  const char *kind;
  reduce_kind *convert;
  reduce_width of_floats, of_ints;
} kinds[] = {
    {"sum", reduce_sum, WIDTH_OWN, WIDTH_OWN},
    {"prod", reduce_prod, WIDTH_OWN, WIDTH_OWN},
    {"mean", reduce_mean, WIDTH_OWN, WIDTH_F32_OR_I64},
    {"sum_square", reduce_sum_square, WIDTH_F32_OR_I64, WIDTH_OWN},
    {"l1", reduce_l1, WIDTH_OWN, WIDTH_OWN},
    {"l2", reduce_l2, WIDTH_OWN, WIDTH_F32_OR_F64},
    {"log_sum", reduce_log_sum, WIDTH_F32_OR_F64, WIDTH_F32_OR_F64},
    {"log_sum_exp", reduce_log_sum_exp, WIDTH_F32_OR_F64, WIDTH_F32_OR_F64},
};

/* ---------------------------------------------------------------- the nodes */

static clave_dtype reduce_type(clave_dtype type, reduce_width width) {
  if (width == WIDTH_OWN || type == CLAVE_F64) return emit_computable_type(type);
  if (dtype_has_fractions((dtype)type)) return CLAVE_F32;
  return width == WIDTH_F32_OR_I64 ? CLAVE_I64 : CLAVE_F64;
}

/* Reads axes that are known only during the run. All axes are known if there are as many. */
static void read_open_axes(importer *im, value *axes, int rank, reduction *out) {
  const int64_t n = value_count(axes);
  if (n < 0) import_unsupported(im, "axes is not constant, and neither is its size");
  if (n > rank) import_invalid(im, "%lld axes for rank %d", (long long)n, rank);
  if (!import_ok(im)) return;
  out->n = (int)n;
  for (int d = 0; d < rank; d++) out->axes[d] = d;
  if (n == 0 || n == rank) return;
  const number *given = value_elements(im, axes, "axes");
  for (int i = 0; given && i < n; i++) {
    const number negative = number_compute(im, NUMBER_LT, given[i], number_int(0));
    const number wrapped = number_add(im, given[i], number_int(rank));
    out->positions[i] = number_where(im, negative, wrapped, given[i]);
  }
  out->is_open = given;
}

static bool read_reduction(node *node, const value *tensor, reduction *out) {
  const int64_t since = strcmp(node->op, "ReduceSum") == 0 ? 13 : 18;
  const bool is_input = node->version >= since;
  value *input = is_input ? node_input(node, 1) : NULL;
  *out = (reduction){.im = node->im, .keepdim = node_int(node, "keepdims", 1)};
  const bool noop = is_input && node_int(node, "noop_with_empty_axes", 0);
  if (!tensor) return false;
  if (input && !value_is_constant(input)) {
    read_open_axes(node->im, input, tensor->rank, out);
  } else {
    const int n = node_axes(node, "axes", 1, since, tensor->rank, out->axes);
    out->n = n < 0 ? 0 : n;
  }
  out->noop = out->n == 0 && (noop || tensor->rank == 0);
  return import_ok(node->im);
}

void onnx_reduce(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  reduction reduction;
  if (!read_reduction(node, x, &reduction)) return;
  if (strcmp(node->kind, "max") == 0 || strcmp(node->kind, "min") == 0) {
    node_set(node, 0, reduce_extreme(&reduction, node->kind, x));
    return;
  }
  /* U64 is computed as I64, in which numbers from 2^63 on are negative. */
  const bool is_u64 = x->type == CLAVE_U64;
  const char *kind = is_u64 && strcmp(node->kind, "l1") == 0 ? "sum" : node->kind;
  if (is_u64 && strcmp(kind, "mean") == 0) import_unsupported(im, "the mean of UINT64");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kind, kinds[i].kind) != 0) continue;
    const bool floats = dtype_has_fractions((dtype)x->type);
    const reduce_width width = floats ? kinds[i].of_floats : kinds[i].of_ints;
    value *wide = emit_cast(im, x, reduce_type(x->type, width));
    node_set(node, 0, emit_cast(im, kinds[i].convert(&reduction, wide), x->type));
  }
}

/* Finds the first extreme or, with select_last_index, the last one, which is the first of the
 * reversed axis. */
void onnx_arg_reduce(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const bool keepdim = node_int(node, "keepdims", 1), last = node_int(node, "select_last_index", 0);
  const int64_t given = node_int(node, "axis", 0);
  if (!x) return;
  if (x->rank == 0) {
    import_unsupported(im, "an input of rank 0");
    return;
  }
  const int axis = emit_axis(im, given, x->rank);
  x = onnx_ordered(im, x);
  value *out =
      emit_arg_reduce(im, node->kind, x && last ? emit_flip(im, x, axis) : x, axis, keepdim);
  if (out && last) {
    const number end = number_sub(im, x->dims[axis], number_int(1));
    out = emit_binary(im, "sub", value_of_number(im, CLAVE_I64, end), out);
  }
  node_set(node, 0, out);
}

/* Divides x by its norm along an axis. If the norm is 0, so is x. */
void onnx_lp_normalization(node *node) {
  importer *im = node->im;
  value *x = node_required(node, 0);
  const int64_t p = node_int(node, "p", 2), given = node_int(node, "axis", -1);
  if (!x) return;
  const int axis = emit_axis(im, given, x->rank);
  if (p != 1 && p != 2) import_unsupported(im, "p = %lld", (long long)p);
  value *wide = emit_cast(im, x, reduce_type(x->type, WIDTH_F32_OR_F64));
  value *norm = emit_reduce(im, p == 1 ? "norm1" : "norm2", wide, &axis, 1, true);
  if (!norm) return;
  value *divisor =
      emit_where(im, emit_binary_float(im, "eq", norm, 0), value_of_float(im, norm->type, 1), norm);
  node_set(node, 0, emit_cast(im, emit_binary(im, "div", wide, divisor), x->type));
}
