/* Helpers for the rules of all families: they read operands and values, and compare types. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "ops/rule_checks.h"

const tensor *rule_tensor(const rule_context *context, uint32_t tid) {
  assert(tid < context->program->tensors.count);
  return &context->tensors[tid];
}

bool rule_int(const rule_context *context, const ir_int_or_vid *size, int64_t *out) {
  if (!size->present) return false;
  const scalar_value *scalar = size->vid == IR_NONE ? NULL : &context->values[size->vid];
  if (scalar && !scalar->known) return false;
  *out = scalar ? scalar->i : size->literal;
  return true;
}

clave_status rule_shape(const rule_context *context, const ir_int_or_vids *values, int *rank,
                        int64_t *dims) {
  if (values->count > MAX_RANK)
    return INVALID("shape has %u dimensions, at most %d are allowed", values->count, MAX_RANK);
  *rank = (int)values->count;
  for (uint32_t i = 0; i < values->count; i++) {
    int64_t n;
    bool known = rule_int(context, &values->items[i], &n);
    if (known && n < 0)
      return INVALID("shape: expected dimensions of 0 or more, got %lld as dimension %u",
                     (long long)n, i);
    dims[i] = known ? n : DIM_UNKNOWN;
  }
  return NULL;
}

clave_status rule_axis(int64_t axis, int rank, int *out) {
  if (axis < -rank || axis >= rank)
    return INVALID("axis %lld out of range for rank %d", (long long)axis, rank);
  *out = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}

static bool matches(const tensor *tensor, dtype type, int rank, const int64_t *dims) {
  if (tensor->type != type || tensor->rank != rank) return false;
  for (int i = 0; i < rank; i++) {
    if (!dim_matches(tensor->dims[i], dims[i])) return false;
  }
  return true;
}

clave_status rule_expect(const rule_context *context, uint32_t tid, const char *what, dtype type,
                         int rank, const int64_t *dims) {
  const tensor *have = rule_tensor(context, tid);
  if (matches(have, type, rank, dims)) return NULL;
  if (rank > MAX_RANK)
    return INVALID("%s would have rank %d, at most %d is allowed", what, rank, MAX_RANK);
  tensor want = {.type = type, .rank = rank};
  if (rank) memcpy(want.dims, dims, (size_t)rank * sizeof *dims);
  char is[SHAPE_TEXT], should[SHAPE_TEXT];
  return INVALID("%s: expected %s %s, got %s %s", what, dtype_name(type),
                 tensor_shape_text(&want, should, SHAPE_TEXT), dtype_name(have->type),
                 tensor_shape_text(have, is, SHAPE_TEXT));
}

clave_status rule_expect_like(const rule_context *context, uint32_t tid, const char *what,
                              const tensor *want) {
  return rule_expect(context, tid, what, want->type, want->rank, want->dims);
}

clave_status rule_broadcast(const tensor *value, int *rank, int64_t *dims) {
  int64_t out[MAX_RANK] = {0};
  int wide = value->rank > *rank ? value->rank : *rank;
  for (int i = 0; i < wide; i++) {
    int ia = i - (wide - *rank), ib = i - (wide - value->rank);
    int64_t da = ia < 0 ? 1 : dims[ia], db = ib < 0 ? 1 : value->dims[ib];
    if (da == 1 || db == 1) {
      out[i] = da == 1 ? db : da;
    } else if (dim_matches(da, db)) {
      out[i] = dim_known(da, db);
    } else {
      tensor tensor = {.rank = *rank};
      memcpy(tensor.dims, dims, (size_t)*rank * sizeof *dims);
      char ta[SHAPE_TEXT], tb[SHAPE_TEXT];
      return INVALID("shapes %s and %s do not broadcast",
                     tensor_shape_text(&tensor, ta, SHAPE_TEXT),
                     tensor_shape_text(value, tb, SHAPE_TEXT));
    }
  }
  memcpy(dims, out, (size_t)wide * sizeof *dims);
  *rank = wide;
  return NULL;
}

static int64_t rules_clamp_index(int64_t i, int64_t size) {
  if (i < 0) i += size;
  return i < 0 ? 0 : i > size ? size : i;
}

void slice_bounds(int64_t size, int64_t start, bool has_stop, int64_t stop, int64_t *first,
                  int64_t *last) {
  *first = rules_clamp_index(start, size);
  *last = has_stop ? rules_clamp_index(stop, size) : size;
  if (*last < *first) *last = *first;
}

/* ---- checks shared by families ---- */

clave_status check_float(const rule_context *context, uint32_t tid, const char *what) {
  const tensor *tensor = rule_tensor(context, tid);
  return dtype_is_float(tensor->type)
             ? NULL
             : INVALID("%s: expected a float dtype, got %s", what, dtype_name(tensor->type));
}

clave_status check_computed(const rule_context *context, uint32_t tid, const char *what) {
  dtype t = rule_tensor(context, tid)->type;
  if (!dtype_is_stored(t)) return NULL;
  return UNSUPPORTED("%s is %s, which is only moved and cast", what, dtype_name(t));
}

clave_status check_not_bool(const rule_context *context, uint32_t tid, const char *what) {
  const tensor *tensor = rule_tensor(context, tid);
  return tensor->type != DTYPE_BOOL
             ? NULL
             : INVALID("%s: expected a float or integer dtype, got BOOL", what);
}

clave_status check_index_fits(const tensor *input, const tensor *index, int axis) {
  if (index->rank != input->rank)
    return INVALID("index: expected rank %d like x, got %d", input->rank, index->rank);
  for (int i = 0; i < input->rank; i++) {
    bool known = input->dims[i] != DIM_UNKNOWN && index->dims[i] != DIM_UNKNOWN;
    if (i != axis && known && index->dims[i] > input->dims[i]) {
      return INVALID("index: expected at most x's size %lld at axis %d, got %lld",
                     (long long)input->dims[i], i, (long long)index->dims[i]);
    }
  }
  return NULL;
}

clave_status check_index_dtype(const rule_context *context, uint32_t tid, const char *what) {
  const tensor *tensor = rule_tensor(context, tid);
  if (tensor->type == DTYPE_I32 || tensor->type == DTYPE_I64) return NULL;
  return INVALID("%s: expected I32 or I64, got %s", what, dtype_name(tensor->type));
}

clave_status check_rank_at_least(const rule_context *context, uint32_t tid, const char *what,
                                 int rank) {
  const tensor *tensor = rule_tensor(context, tid);
  return tensor->rank >= rank
             ? NULL
             : INVALID("%s: expected rank %d or more, got %d", what, rank, tensor->rank);
}

clave_status check_optional(const rule_context *context, uint32_t tid, const char *what, dtype type,
                            int rank, const int64_t *dims) {
  return tid == IR_NONE ? NULL : rule_expect(context, tid, what, type, rank, dims);
}

clave_status check_axes(const ir_i32s *axes, int rank, bool *marked, int *order) {
  for (int i = 0; i < rank; i++) marked[i] = false;
  for (uint32_t i = 0; i < axes->count; i++) {
    int axis = 0;
    TRY(rule_axis(axes->items[i], rank, &axis));
    if (marked[axis]) return INVALID("axis %d is listed twice", axis);
    marked[axis] = true;
    if (order) order[i] = axis;
  }
  return NULL;
}

clave_status check_spatial(const ir_i32s *ints, const char *what, int count, int32_t least) {
  if (ints->count != (uint32_t)count)
    return INVALID("%s: expected %d entries, got %u", what, count, ints->count);
  for (int i = 0; i < count; i++) {
    if (ints->items[i] < least)
      return INVALID("%s: expected at least %d, got %d", what, least, ints->items[i]);
  }
  return NULL;
}

bool int_fits(dtype t, int64_t v) {
  switch (t) {
    case DTYPE_I8:
      return v >= INT8_MIN && v <= INT8_MAX;
    case DTYPE_U8:
      return v >= 0 && v <= UINT8_MAX;
    case DTYPE_I16:
      return v >= INT16_MIN && v <= INT16_MAX;
    case DTYPE_I32:
      return v >= INT32_MIN && v <= INT32_MAX;
    case DTYPE_I64:
      return true;
    case DTYPE_BOOL:
      return v == 0 || v == 1;
    case DTYPE_U16:
      return v >= 0 && v <= UINT16_MAX;
    case DTYPE_U32:
      return v >= 0 && v <= UINT32_MAX;
    case DTYPE_U64:
      return v >= 0;
    default:
      return false;
  }
}

bool float_fits_int(dtype t, double v) {
  return v >= -0x1p63 && v < 0x1p63 && v == trunc(v) && int_fits(t, (int64_t)v);
}
