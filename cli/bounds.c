/* Bounds of what rounding does, and comparisons that keep to them. */
#include "cli/bounds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/distance.h"

/* ---------------------------------------------------------------- dtypes */

typedef struct float_kind {
  double eps, computed, places, tiny; /* eps of what it is computed in; s; what may become zero */
} float_kind;

static const float_kind kinds[] = {
    [CLAVE_F32] = {FLT_EPSILON, FLT_EPSILON, 16, FLT_MIN},
    [CLAVE_F64] = {DBL_EPSILON, DBL_EPSILON, 16, DBL_MIN},
    [CLAVE_F16] = {0x1p-10, FLT_EPSILON, 2, 0x1p-24},
    [CLAVE_BF16] = {0x1p-7, FLT_EPSILON, 2, FLT_MIN},
    [CLAVE_F8_E4M3] = {0x1p-3, FLT_EPSILON, 1, 0x1p-9},
    [CLAVE_F8_E5M2] = {0x1p-2, FLT_EPSILON, 1, 0x1p-16},
};

static float_kind kind_of(clave_dtype type) {
  return is_integer(type) ? (float_kind){0} : kinds[type];
}

/* What a kernel may round operands of a product to, or leave as they are. */
static double rounding_of(clave_dtype type) {
  const char *precision = getenv("CLAVE_PRECISION");
  const bool rounds = precision && !strcmp(precision, "fast");
  return rounds && (type == CLAVE_F32 || type == CLAVE_F16) ? 0x1p-7 : 0;
}

double places_of(clave_dtype type, double terms) {
  const float_kind k = kind_of(type);
  if (k.eps <= 0) return 0;
  return fmax(k.places, rounding_of(type) / k.eps) + sqrt(terms) * k.computed / k.eps;
}

/* ---------------------------------------------------------------- moving */

/* Bit i of a fixed random sequence. */
static bool is_up(uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return (x ^ x >> 31) & 1;
}

void move_elements(const clave_tensor *t, double places, bool opposite) {
  const uint64_t n = count_elements(t);
  const size_t size = clave_dtype_size(t->dtype);
  const double by = places * kind_of(t->dtype).eps;
  if (by == 0) return;
  for (uint64_t i = 0; i < n; i++) {
    char *at = (char *)t->data + i * size;
    const double x = load_number(t->dtype, at);
    if (isfinite(x)) store_number(t->dtype, is_up(i) == opposite ? x * (1 - by) : x * (1 + by), at);
  }
}

static double distance_at(const clave_tensor *a, const clave_tensor *b, uint64_t i) {
  const void *x = element_at(a, i), *y = element_at(b, i);
  const double distance = number_distance(load_number(a->dtype, x), load_number(b->dtype, y));
  if (distance < 1 && is_integer(a->dtype) &&
      load_integer(a->dtype, x) != load_integer(b->dtype, y))
    return 1; /* of more digits than a double has */
  return distance;
}

bool widen_reach(reach *r, const clave_tensor *from, const clave_tensor *moved) {
  const uint64_t n = count_elements(from);
  if (!r->by) r->by = calloc(n ? (size_t)n : 1, sizeof *r->by);
  if (!r->by) return false;
  for (uint64_t i = 0; i < n; i++) {
    const float by = (float)distance_at(from, moved, i);
    if (by > r->by[i]) r->by[i] = by;
  }
  r->usual = median_magnitude(DTYPE_F32, r->by, (int64_t)n);
  return true;
}

void free_reach(reach *r) {
  free(r->by);
  *r = (reach){0};
}

/* ---------------------------------------------------------------- comparing */

bool same_form(const clave_tensor *a, const clave_tensor *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  return same;
}

static double allow(const float_kind *k, double expected, const reach *r, uint64_t i,
                    double factor) {
  const double size = isfinite(expected) ? fabs(expected) : 0;
  const double own = k->places * k->eps * size + k->tiny;
  if (!r || !r->by || (r->by[i] == 0 && k->eps == 0)) return own;
  return own + factor * fmax((double)r->by[i], r->usual);
}

difference compare_tensors(const clave_tensor *got, const clave_tensor *expected, const reach *r,
                           double terms, double factor) {
  const uint64_t n = count_elements(got);
  const float_kind k = kind_of(got->dtype);
  const double sum = k.eps > 0 ? 1 + sqrt(terms) * k.computed / (k.places * k.eps) : 1;
  difference d = {0};
  double worst = -1;
  for (uint64_t i = 0; i < n; i++) {
    const double distance = distance_at(got, expected, i);
    if (distance == 0 && worst >= 0) continue;
    const double y = load_number(got->dtype, element_at(expected, i));
    const double allowed = allow(&k, y, r, i, factor * sum);
    const double excess = distance <= allowed ? 0 : allowed > 0 ? distance / allowed : INFINITY;
    if (distance > d.largest) d.largest = distance;
    if (excess < worst || (excess == worst && distance <= fabs(d.got - d.expected))) continue;
    worst = excess;
    d.found = excess > 0;
    d.element = i;
    d.got = load_number(got->dtype, element_at(got, i));
    d.expected = y;
    d.allowed = allowed;
  }
  return d;
}

bool same_elements(const clave_tensor *a, const clave_tensor *b) {
  const uint64_t n = count_elements(a);
  bool same = true;
  for (uint64_t i = 0; same && i < n; i++) same = distance_at(a, b, i) == 0;
  return same;
}
