/* Bounds on rounding errors, and comparisons against these bounds. */
#include "cli/bounds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/distance.h"

/* ---------------------------------------------------------------- dtypes */

/* eps: of the dtype. computed: eps of the dtype it is computed in. places: s of bounds.h. tiny:
 * smaller magnitudes may flush to zero. */
typedef struct float_kind {
  double eps, computed, places, tiny;
} float_kind;

static const float_kind kinds[] = {
    [CLAVE_F32] = {FLT_EPSILON, FLT_EPSILON, 16, FLT_MIN},
    [CLAVE_F64] = {DBL_EPSILON, DBL_EPSILON, 16, DBL_MIN},
    [CLAVE_F16] = {0x1p-10, FLT_EPSILON, 2, 0x1p-24},
    [CLAVE_BF16] = {0x1p-7, FLT_EPSILON, 2, FLT_MIN},
    [CLAVE_F8_E4M3] = {0x1p-3, FLT_EPSILON, 1, 0x1p-9},
    [CLAVE_F8_E5M2] = {0x1p-2, FLT_EPSILON, 1, 0x1p-16},
};

static float_kind cli_bounds_kind_of(clave_dtype type) {
  return is_integer(type) ? (float_kind){0} : kinds[type];
}

/* Returns the relative error of the rounding of a product's operands; 0 if they are not rounded. */
static double rounding_of(clave_dtype type) {
  const char *precision = getenv("CLAVE_PRECISION");
  const bool rounds = precision && !strcmp(precision, "fast");
  return rounds && (type == CLAVE_F32 || type == CLAVE_F16) ? 0x1p-7 : 0;
}

double places_of(clave_dtype type, double terms) {
  const float_kind kind = cli_bounds_kind_of(type);
  if (kind.eps <= 0) return 0;
  return fmax(kind.places, rounding_of(type) / kind.eps) + sqrt(terms) * kind.computed / kind.eps;
}

/* ---------------------------------------------------------------- moving values */

/* Returns bit i of a fixed random sequence. */
static bool is_up(uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return (x ^ x >> 31) & 1;
}

void bounds_move_elements(const clave_tensor *tensor, double places, bool opposite) {
  const uint64_t n = count_elements(tensor);
  const size_t size = clave_dtype_size(tensor->dtype);
  const double by = places * cli_bounds_kind_of(tensor->dtype).eps;
  if (by == 0) return;
  for (uint64_t i = 0; i < n; i++) {
    char *at = (char *)tensor->data + i * size;
    const double x = load_number(tensor->dtype, at);
    if (isfinite(x))
      store_number(tensor->dtype, is_up(i) == opposite ? x * (1 - by) : x * (1 + by), at);
  }
}

static double distance_at(const clave_tensor *left, const clave_tensor *right, uint64_t i) {
  const void *data = values_element_at(left, i), *result = values_element_at(right, i);
  const double distance =
      number_distance(load_number(left->dtype, data), load_number(right->dtype, result));
  if (distance < 1 && is_integer(left->dtype) &&
      load_integer(left->dtype, data) != load_integer(right->dtype, result))
    return 1; /* a double cannot hold their difference */
  return distance;
}

bool widen_reach(reach *reach, const clave_tensor *from, const clave_tensor *moved) {
  const uint64_t n = count_elements(from);
  if (!reach->by) reach->by = calloc(n ? (size_t)n : 1, sizeof *reach->by);
  if (!reach->by) return false;
  for (uint64_t i = 0; i < n; i++) {
    const float by = (float)distance_at(from, moved, i);
    if (by > reach->by[i]) reach->by[i] = by;
  }
  reach->usual = median_magnitude(DTYPE_F32, reach->by, (int64_t)n);
  return true;
}

void free_reach(reach *extent) {
  free(extent->by);
  *extent = (reach){0};
}

/* ---------------------------------------------------------------- comparing */

bool same_shape(const clave_tensor *left, const clave_tensor *right) {
  bool same = left->dtype == right->dtype && left->rank == right->rank;
  for (int i = 0; same && i < left->rank; i++) same = left->dims[i] == right->dims[i];
  return same;
}

static double allow(const float_kind *kind, double expected, const reach *reach, uint64_t i,
                    double factor) {
  const double size = isfinite(expected) ? fabs(expected) : 0;
  const double own = kind->places * kind->eps * size + kind->tiny;
  if (!reach || !reach->by || (reach->by[i] == 0 && kind->eps == 0)) return own;
  return own + factor * fmax((double)reach->by[i], reach->usual);
}

difference compare_tensors(const clave_tensor *got, const clave_tensor *expected,
                           const reach *reach, double terms, double factor) {
  const uint64_t n = count_elements(got);
  const float_kind kind = cli_bounds_kind_of(got->dtype);
  const double sum = kind.eps > 0 ? 1 + sqrt(terms) * kind.computed / (kind.places * kind.eps) : 1;
  difference difference = {0};
  double worst = -1;
  for (uint64_t i = 0; i < n; i++) {
    const double distance = distance_at(got, expected, i);
    if (distance == 0 && worst >= 0) continue;
    const double y = load_number(got->dtype, values_element_at(expected, i));
    const double allowed = allow(&kind, y, reach, i, factor * sum);
    const double excess = distance <= allowed ? 0 : allowed > 0 ? distance / allowed : INFINITY;
    if (distance > difference.largest) difference.largest = distance;
    if (excess < worst ||
        (excess == worst && distance <= fabs(difference.got - difference.expected)))
      continue;
    worst = excess;
    difference.found = excess > 0;
    difference.element = i;
    difference.got = load_number(got->dtype, values_element_at(got, i));
    difference.expected = y;
    difference.allowed = allowed;
  }
  return difference;
}

bool same_elements(const clave_tensor *left, const clave_tensor *right) {
  const uint64_t n = count_elements(left);
  bool same = true;
  for (uint64_t i = 0; same && i < n; i++) same = distance_at(left, right, i) == 0;
  return same;
}
