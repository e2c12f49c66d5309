/* Numbers of the host: constant folding, and host ops for everything else. */
#include "import/number.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/hash.h"

enum { N_BUCKETS = 4096 };

/* An expression and the number that it was computed to. */
struct number_entry {
  number_kind kind;
  number a, b,
      out; /* kind NUMBER_KINDS: out is computed by an op on tensors, or a size of an input */
  uint32_t scope; /* the body in which it was emitted */
  bool hidden;    /* the body has ended; kept for number_again */
  int32_t next;   /* the entry before it with the same hash; -1: none */
};

static const char *const names[NUMBER_KINDS] = {
    "add",      "sub",    "mul", "floor_div", "mod",  "min",   "max", "eq",  "ne",
    "lt",       "le",     "gt",  "ge",        "neg",  "and",   "or",  "not", "to_float",
    "true_div", "to_int", "pow", "floor",     "ceil", "round", "sqrt"};

clave_status numbers_create(importer *im) {
  im->buckets = malloc(N_BUCKETS * sizeof *im->buckets);
  if (!im->buckets) return status_no_memory();
  for (int i = 0; i < N_BUCKETS; i++) im->buckets[i] = -1;
  return NULL;
}

void numbers_leave(importer *im) {
  for (size_t i = im->n_numbers; i-- > 0;) {
    number_entry *entry = &im->numbers[i];
    if (!entry->hidden && import_sees(im, entry->scope)) break;
    entry->hidden = true;
  }
}

static bool is_unary_number(number_kind kind) {
  return kind == NUMBER_NEG || kind == NUMBER_NOT || kind == NUMBER_TO_FLOAT ||
         kind == NUMBER_TO_INT || kind >= NUMBER_FLOOR;
}
static bool is_logical(number_kind kind) {
  return (kind >= NUMBER_EQ && kind <= NUMBER_GE) || kind == NUMBER_AND || kind == NUMBER_OR ||
         kind == NUMBER_NOT;
}

bool number_is_same(number a, number b) {
  if (a.id || b.id) return a.id == b.id;
  if (a.type == NUMBER_FLOAT || b.type == NUMBER_FLOAT)
    return a.type == b.type && a.f == b.f && signbit(a.f) == signbit(b.f);
  return a.i == b.i;
}

/* ---------------------------------------------------------------- constants */

static double as_double(number a) { return a.type == NUMBER_FLOAT ? a.f : (double)a.i; }

static int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Returns the result of a comparison or of logic; less, equal, greater: how a compares to b, none
 * of them with NaN. */
static bool fold_truth(number_kind kind, bool less, bool equal, bool greater, bool a, bool b) {
  switch (kind) {
    case NUMBER_EQ:
      return equal;
    case NUMBER_NE:
      return !equal;
    case NUMBER_LT:
      return less;
    case NUMBER_LE:
      return less || equal;
    case NUMBER_GT:
      return greater;
    case NUMBER_GE:
      return greater || equal;
    case NUMBER_AND:
      return a && b;
    case NUMBER_OR:
      return a || b;
    default:
      return !a;
  }
}

static number fold_ints(importer *im, number_kind kind, int64_t a, int64_t b) {
  int64_t out = 0;
  bool fits = true;
  if ((kind == NUMBER_FLOOR_DIV || kind == NUMBER_MOD) && b == 0) {
    import_invalid(im, "a size is divided by zero");
    return number_int(0);
  }
  switch (kind) {
    case NUMBER_ADD:
      fits = add_i64(a, b, &out);
      break;
    case NUMBER_SUB:
      fits = sub_i64(a, b, &out);
      break;
    case NUMBER_MUL:
      fits = mul_i64(a, b, &out);
      break;
    case NUMBER_FLOOR_DIV:
      out = floor_quotient(a, b);
      break;
    case NUMBER_MOD:
      out = b == -1 ? 0 : a - floor_quotient(a, b) * b;
      break;
    case NUMBER_MIN:
      out = a < b ? a : b;
      break;
    case NUMBER_MAX:
      out = a > b ? a : b;
      break;
    case NUMBER_NEG:
      fits = sub_i64(0, a, &out);
      break;
    default:
      return number_bool(fold_truth(kind, a<b, a == b, a> b, a != 0, b != 0));
  }
  if (!fits) import_invalid(im, "the arithmetic of sizes overflows 64 bits");
  return number_int(out);
}

static number fold_floats(number_kind kind, double a, double b) {
  switch (kind) {
    case NUMBER_ADD:
      return number_float(a + b);
    case NUMBER_SUB:
      return number_float(a - b);
    case NUMBER_MUL:
      return number_float(a * b);
    case NUMBER_TRUE_DIV:
      return number_float(a / b);
    case NUMBER_MIN:
      return number_float(a < b || a != a ? a : b);
    case NUMBER_MAX:
      return number_float(a > b || a != a ? a : b);
    case NUMBER_NEG:
      return number_float(-a);
    case NUMBER_POW:
      return number_float(pow(a, b));
    case NUMBER_FLOOR:
      return number_float(floor(a));
    case NUMBER_CEIL:
      return number_float(ceil(a));
    case NUMBER_ROUND:
      return number_float(rint(a));
    case NUMBER_SQRT:
      return number_float(sqrt(a));
    case NUMBER_FLOOR_DIV:
      return number_float(floor(a / b));
    case NUMBER_MOD:
      return number_float(a - floor(a / b) * b);
    default:
      return number_bool(fold_truth(kind, a<b, a == b, a> b, a != 0, b != 0));
  }
}

/* Converts towards zero; NaN is 0 and large numbers are the nearest limit. */
int64_t number_truncated(double f) {
  if (f != f) return 0;
  if (f >= 9223372036854775807.0) return INT64_MAX;
  if (f <= -9223372036854775808.0) return INT64_MIN;
  return (int64_t)f;
}

static number fold_numbers_of(importer *im, number_kind kind, number a, number b) {
  if (kind == NUMBER_TO_INT) return number_int(number_truncated(as_double(a)));
  if (kind == NUMBER_TO_FLOAT) return number_float(as_double(a));
  const bool floats = a.type == NUMBER_FLOAT ||
                      (!is_unary_number(kind) && b.type == NUMBER_FLOAT) ||
                      kind == NUMBER_TRUE_DIV || kind >= NUMBER_POW;
  return floats ? fold_floats(kind, as_double(a), as_double(b)) : fold_ints(im, kind, a.i, b.i);
}

/* ---------------------------------------------------------------- host ops */

static uint32_t hash_of(number_kind kind, number a, number b) {
  const uint64_t key[] = {kind, a.id, (uint64_t)a.i, b.id, (uint64_t)b.i};
  return (uint32_t)(hash_bytes(key, sizeof key) % N_BUCKETS);
}

static const number_entry *find_entry(const importer *im, number_kind kind, number a, number b) {
  for (int32_t i = im->buckets[hash_of(kind, a, b)]; i >= 0; i = im->numbers[i].next) {
    const number_entry *entry = &im->numbers[i];
    if (!entry->hidden && entry->kind == kind && number_is_same(entry->a, a) &&
        number_is_same(entry->b, b))
      return entry;
  }
  return NULL;
}

static void add_entry(importer *im, number_kind kind, number a, number b, number out) {
  if (!array_reserve(&im->numbers, &im->cap_numbers, im->n_numbers + 1, sizeof *im->numbers)) {
    import_fail(im, status_no_memory());
    return;
  }
  int32_t *bucket = &im->buckets[hash_of(kind, a, b)];
  im->numbers[im->n_numbers] = (number_entry){kind, a, b, out, import_scope(im), false, *bucket};
  *bucket = (int32_t)im->n_numbers++;
}

/* Returns a host scalar without an entry. */
static number declare(importer *im, const char *name, number_type type, int64_t min, int64_t max) {
  static const clave_dtype types[] = {CLAVE_I64, CLAVE_F64, CLAVE_BOOL};
  return (number){.type = type,
                  .id = clave_builder_value(im->builder, name, types[type], min, max),
                  .no_sign = type == NUMBER_BOOL || min >= 0,
                  .most = type == NUMBER_BOOL ? 1 : max};
}

number number_new(importer *im, const char *name, number_type type, int64_t min, int64_t max) {
  if (!import_ok(im)) return number_int(0);
  const number made = declare(im, name, type, min, max);
  add_entry(im, NUMBER_KINDS, made, made, made);
  return made;
}

static void set_operand(importer *im, const char *field, number a, bool as_float) {
  if (a.id)
    clave_builder_set_value(im->builder, field, a.id);
  else if (as_float)
    clave_builder_set_float(im->builder, field, as_double(a));
  else
    clave_builder_set_int(im->builder, field, a.i);
}

static number_type type_of(number_kind kind, bool floats) {
  if (is_logical(kind)) return NUMBER_BOOL;
  return kind == NUMBER_TO_INT || !floats ? NUMBER_INT : NUMBER_FLOAT;
}

/* True if kind(a, b) of operands without sign has none. */
static bool keeps_no_sign(number_kind kind, number a, number b) {
  switch (kind) {
    case NUMBER_ADD:
    case NUMBER_MUL:
    case NUMBER_FLOOR_DIV:
    case NUMBER_MIN:
      return a.no_sign && b.no_sign;
    case NUMBER_MAX:
      return a.no_sign || b.no_sign;
    case NUMBER_MOD:
      return b.no_sign;
    default:
      return false;
  }
}

/* Returns an upper bound of kind(a, b). */
static int64_t number_upper(number_kind kind, number a, number b) {
  int64_t most;
  if (is_logical(kind)) return 1;
  switch (kind) {
    case NUMBER_ADD:
      return __builtin_add_overflow(a.most, b.most, &most) ? INT64_MAX : most;
    case NUMBER_SUB:
      return b.no_sign ? a.most : INT64_MAX;
    case NUMBER_MUL:
      if (!a.no_sign || !b.no_sign) return INT64_MAX;
      return __builtin_mul_overflow(a.most, b.most, &most) ? INT64_MAX : most;
    case NUMBER_FLOOR_DIV:
      return a.no_sign && !b.id && b.i > 0 ? a.most / b.i : INT64_MAX;
    case NUMBER_MIN:
      return a.most < b.most ? a.most : b.most;
    case NUMBER_MAX:
      return a.most > b.most ? a.most : b.most;
    default:
      return INT64_MAX;
  }
}

static number emit(importer *im, number_kind kind, number a, number b) {
  const bool floats = a.type == NUMBER_FLOAT ||
                      (!is_unary_number(kind) && b.type == NUMBER_FLOAT) ||
                      kind == NUMBER_TRUE_DIV || kind == NUMBER_TO_FLOAT || kind >= NUMBER_POW;
  number out = declare(im, "", type_of(kind, floats), INT64_MIN, INT64_MAX);
  out.no_sign = out.type == NUMBER_BOOL || keeps_no_sign(kind, a, b);
  if (!floats) out.most = number_upper(kind, a, b);
  clave_builder_op(im->builder, floats ? "Scalar" : "IntScalar", im->node);
  clave_builder_set_text(im->builder, "kind", names[kind]);
  set_operand(im, "a", a, floats);
  if (!is_unary_number(kind)) set_operand(im, "b", b, floats);
  clave_builder_set_value(im->builder, "out", out.id);
  add_entry(im, kind, a, b, out);
  return out;
}

/* Returns the index of the entry that computes a number, or n_numbers. Entries are in the order of
 * their ids. */
static size_t number_entry_of(const importer *im, number a) {
  size_t low = 0, high = im->n_numbers;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (im->numbers[middle].out.id < a.id)
      low = middle + 1;
    else
      high = middle;
  }
  return a.id && low < im->n_numbers && im->numbers[low].out.id == a.id ? low : im->n_numbers;
}

/* Returns the entry that computes an integer as this kind; NULL if another kind does. */
static const number_entry *number_computed_by(const importer *im, number_kind kind, number a) {
  const size_t at = number_entry_of(im, a);
  const number_entry *entry = at < im->n_numbers ? &im->numbers[at] : NULL;
  const bool is = entry && entry->kind == kind && !entry->hidden && a.type == NUMBER_INT;
  return is ? entry : NULL;
}

/* If `a` is the integer kind(x, constant), sets *constant and returns x; else returns a. */
static number without_constant(const importer *im, number_kind kind, number a, int64_t *constant) {
  const number_entry *entry = number_computed_by(im, kind, a);
  if (!entry || entry->b.id) return a;
  *constant = entry->b.i;
  return entry->a;
}

/* Joins a constant with the one in a: (x * 4) * 2 is x * 8, (x * 8) / 2 is x * 4, (x + 1) - 1 is x.
 */
static bool join_constants(importer *im, number_kind kind, number a, int64_t b, number *out) {
  const bool is_sum = kind == NUMBER_ADD || kind == NUMBER_SUB;
  const number_kind inner = is_sum ? NUMBER_ADD : NUMBER_MUL;
  int64_t own = 0, joined = 0;
  const number rest = without_constant(im, inner, a, &own);
  bool joins = !number_is_same(rest, a);
  switch (kind) {
    case NUMBER_ADD:
      joins = joins && !__builtin_add_overflow(own, b, &joined);
      break;
    case NUMBER_SUB:
      joins = joins && !__builtin_sub_overflow(own, b, &joined);
      break;
    case NUMBER_MUL:
      joins = joins && !__builtin_mul_overflow(own, b, &joined);
      break;
    case NUMBER_FLOOR_DIV:
      joins = joins && b > 0 && own % b == 0;
      if (joins) joined = own / b;
      break;
    default:
      return false;
  }
  if (joins) *out = number_compute(im, inner, number_to_int(im, rest), number_int(joined));
  return joins;
}

/* (x + b) - b is x, and a - (a + y) is -y. */
static bool subtract_term(importer *im, number a, number b, number *out) {
  const number_entry *left = number_computed_by(im, NUMBER_ADD, a),
                     *right = number_computed_by(im, NUMBER_ADD, b);
  if (left && number_is_same(left->a, b)) {
    *out = left->b;
  } else if (left && number_is_same(left->b, b)) {
    *out = left->a;
  } else if (right && number_is_same(right->a, a)) {
    *out = number_compute(im, NUMBER_NEG, right->b, right->b);
  } else if (right && number_is_same(right->b, a)) {
    *out = number_compute(im, NUMBER_NEG, right->a, right->a);
  } else {
    return false;
  }
  return true;
}

static int64_t number_lower(number a) { return !a.id ? a.i : a.no_sign ? 0 : INT64_MIN; }

/* True if a >= b whatever the sizes are. Both are integers. */
static bool is_never_less(number a, number b) {
  return a.type == NUMBER_INT && b.type == NUMBER_INT &&
         (number_is_same(a, b) || number_lower(a) >= b.most);
}

/* Sets *out to a comparison's result if equality or the operands' bounds decide it. */
static bool compare_bounds(number_kind kind, number a, number b, number *out) {
  const bool less = a.most < number_lower(b);
  const bool greater = number_lower(a) > b.most;
  const bool equal = number_is_same(a, b);
  if (less || greater || equal) {
    *out = number_bool(fold_truth(kind, less, equal, greater, false, false));
    return true;
  }
  const bool ge = number_lower(a) >= b.most, le = a.most <= number_lower(b);
  *out = number_bool((kind == NUMBER_GE && ge) || (kind == NUMBER_LE && le));
  return (kind == NUMBER_GE && ge) || (kind == NUMBER_LE && le) || (kind == NUMBER_LT && ge) ||
         (kind == NUMBER_GT && le);
}

/* Returns the result of arithmetic that needs no op, such as a + 0, in *out. */
static bool simplify(importer *im, number_kind kind, number a, number b, number *out) {
  const bool ints = a.type != NUMBER_FLOAT && b.type != NUMBER_FLOAT;
  *out = a;
  if (!ints) return false;
  if (kind >= NUMBER_EQ && kind <= NUMBER_GE) return compare_bounds(kind, a, b, out);
  switch (kind) {
    case NUMBER_ADD:
      if (number_is(a, 0)) *out = b;
      return number_is(a, 0) || number_is(b, 0);
    case NUMBER_SUB:
      if (number_is_same(a, b)) *out = number_int(0);
      return number_is(b, 0) || number_is_same(a, b) || subtract_term(im, a, b, out);
    case NUMBER_MUL:
      if (number_is(a, 1)) *out = b;
      if (number_is(a, 0) || number_is(b, 0)) *out = number_int(0);
      return number_is(a, 1) || number_is(b, 1) || number_is(out[0], 0);
    case NUMBER_FLOOR_DIV:
      return number_is(b, 1);
    case NUMBER_MAX:
    case NUMBER_MIN: {
      const bool is_max = kind == NUMBER_MAX;
      if (is_never_less(is_max ? b : a, is_max ? a : b)) *out = b;
      return number_is_same(*out, b) || is_never_less(is_max ? a : b, is_max ? b : a);
    }
    default:
      return false;
  }
}

number number_compute(importer *im, number_kind kind, number a, number b) {
  number out;
  if (!import_ok(im)) return number_int(0);
  if (is_unary_number(kind)) b = number_int(0);
  if (!a.id && !b.id) return fold_numbers_of(im, kind, a, b);
  if (!a.id && (kind == NUMBER_ADD || kind == NUMBER_MUL)) {
    const number constant = a;
    a = b;
    b = constant;
  }
  const number_entry *negated = kind == NUMBER_NEG ? number_computed_by(im, NUMBER_NEG, a) : NULL;
  if (negated) return negated->a;
  if (!is_unary_number(kind) && simplify(im, kind, a, b, &out)) return out;
  if (b.type == NUMBER_INT && !b.id && join_constants(im, kind, a, b.i, &out)) return out;
  const number_entry *entry = find_entry(im, kind, a, b);
  return entry ? entry->out : emit(im, kind, a, b);
}

number number_add(importer *im, number a, number b) { return number_compute(im, NUMBER_ADD, a, b); }
number number_sub(importer *im, number a, number b) { return number_compute(im, NUMBER_SUB, a, b); }
number number_mul(importer *im, number a, number b) { return number_compute(im, NUMBER_MUL, a, b); }
number number_floor_div(importer *im, number a, number b) {
  return number_compute(im, NUMBER_FLOOR_DIV, a, b);
}
number number_ceil_div(importer *im, number a, int64_t b) {
  return number_floor_div(im, number_add(im, a, number_int(b - 1)), number_int(b));
}
number number_min(importer *im, number a, number b) { return number_compute(im, NUMBER_MIN, a, b); }
number number_max(importer *im, number a, number b) { return number_compute(im, NUMBER_MAX, a, b); }

number number_trunc_div(importer *im, number a, number b) {
  const number floored = number_floor_div(im, a, b);
  if (a.no_sign && b.no_sign) return floored;
  const number zero = number_int(0);
  const number inexact = number_compute(im, NUMBER_NE, number_compute(im, NUMBER_MOD, a, b), zero);
  const number below = number_compute(im, NUMBER_NE, number_compute(im, NUMBER_LT, a, zero),
                                      number_compute(im, NUMBER_LT, b, zero));
  return number_add(im, floored,
                    number_mul(im, number_to_int(im, inexact), number_to_int(im, below)));
}

/* b + condition * (a - b) */
number number_where(importer *im, number condition, number a, number b) {
  if (!condition.id) return condition.i ? a : b;
  if (number_is_same(a, b)) return a;
  number part = number_mul(im, number_sub(im, a, b), condition);
  if (part.type == NUMBER_BOOL) part = number_to_int(im, part);
  number out = number_add(im, b, part);
  out.no_sign = a.no_sign && b.no_sign;
  return out;
}

number number_to_int(importer *im, number a) {
  if (a.type == NUMBER_INT) return a;
  if (a.type == NUMBER_FLOAT) return number_compute(im, NUMBER_TO_INT, a, a);
  return a.id ? number_compute(im, NUMBER_MAX, a, number_int(0)) : number_int(a.i);
}
number number_to_float(importer *im, number a) {
  return a.type == NUMBER_FLOAT ? a : number_compute(im, NUMBER_TO_FLOAT, a, a);
}
number number_to_bool(importer *im, number a) {
  return a.type == NUMBER_BOOL ? a : number_compute(im, NUMBER_NE, a, number_int(0));
}

/* Marks the hidden entries on which entry `last` depends. Returns the first of them. False in
 * *fits: one depends on a tensor. */
static size_t mark_hidden(const importer *im, size_t last, bool *needed, bool *fits) {
  size_t first = last;
  needed[last] = true;
  for (size_t i = last + 1; i-- > first;) {
    const number_entry *entry = &im->numbers[i];
    if (!needed[i]) continue;
    *fits = *fits && entry->kind != NUMBER_KINDS;
    const number operands[] = {entry->a, entry->b};
    for (int k = 0; k < 2; k++) {
      const size_t at = number_entry_of(im, operands[k]);
      if (at >= i || !im->numbers[at].hidden) continue;
      needed[at] = true;
      if (at < first) first = at;
    }
  }
  return first;
}

/* Returns an operand of an entry that is computed again. */
static number operand_again(const importer *im, number operand, size_t last, const bool *needed,
                            const number *again) {
  const size_t at = number_entry_of(im, operand);
  return at < last && needed[at] ? again[at] : operand;
}

number number_again(importer *im, number a) {
  const size_t last = number_entry_of(im, a);
  bool fits = true;
  if (!import_ok(im) || last == im->n_numbers || !im->numbers[last].hidden) return a;
  bool *needed = calloc(last + 1, sizeof *needed);
  number *again = calloc(last + 1, sizeof *again), out = a;
  if (!needed || !again) {
    import_fail(im, status_no_memory());
  } else {
    const size_t first = mark_hidden(im, last, needed, &fits);
    if (!fits)
      import_unsupported(im, "a size depends on values that are computed in the body of a branch");
    for (size_t i = first; i <= last && import_ok(im); i++) {
      const number_entry entry = im->numbers[i];
      if (!needed[i]) continue;
      out = again[i] = number_compute(im, entry.kind, operand_again(im, entry.a, i, needed, again),
                                      operand_again(im, entry.b, i, needed, again));
    }
  }
  free(needed);
  free(again);
  return out;
}

void number_check(importer *im, number_kind kind, number a, number b, const char *message) {
  const bool equal = kind == NUMBER_EQ || kind == NUMBER_LE || kind == NUMBER_GE;
  if (!import_ok(im)) return;
  if (number_is_same(a, b) || (!a.id && !b.id)) {
    const bool holds = number_is_same(a, b) ? equal : fold_ints(im, kind, a.i, b.i).i != 0;
    if (!holds) import_unsupported(im, "%s", message);
    return;
  }
  clave_builder_op(im->builder, "Check", im->node);
  clave_builder_set_text(im->builder, "kind", names[kind]);
  set_operand(im, "a", a, false);
  set_operand(im, "b", b, false);
  clave_builder_set_text(im->builder, "message", message);
}
