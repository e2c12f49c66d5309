/* Sizes as polynomials: sums of a number times a product of atoms, in one order, each kept once. An
 * atom is a value that nothing is known about, or an operation that is none of addition,
 * subtraction and multiplication on two sizes. */
#include "interp/graph/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ops/ops.h"

enum { MAX_TERMS = 12, MAX_DEGREE = 6, MAX_DEPTH = 200 };

typedef struct term {
  int64_t factor;
  uint32_t degree;
  uint32_t atoms[MAX_DEGREE]; /* ascending */
} term;

typedef struct poly {
  uint32_t n;
  term terms[MAX_TERMS]; /* in the order of compare_terms, no factor 0; never a number alone */
} poly;

typedef struct operation {
  ir_scalar_kind kind;
  extent a, b;
} operation;

struct size_table {
  const ir_program *p;
  mem_pool *pool;
  const ir_int_scalar **writer; /* by Vid; NULL: none */
  extent *values;               /* by Vid, once known */
  bool *known;
  poly **polys; /* poly k + 1 */
  uint32_t n_polys, poly_capacity;
  operation *operations; /* atom n_values + k */
  uint32_t n_operations, operation_capacity;
  int depth;
};

/* Room for one more in an array of the pool. */
static bool grow(mem_pool *pool, void *array, uint32_t n, uint32_t *capacity, size_t item) {
  if (n < *capacity) return true;
  void *old, *made = mem_pool_alloc(pool, 2 * (size_t)*capacity + 16, item);
  if (!made) return false;
  memcpy(&old, array, sizeof old);
  if (n) memcpy(made, old, n * item);
  memcpy(array, &made, sizeof made);
  *capacity = 2 * *capacity + 16;
  return true;
}

/* A value that several methods set, or that comes from outside in one, is an atom. */
static void find_writers(size_table *t, bool *is_atom) {
  for (uint32_t c = 0; c < t->p->chains.count; c++) {
    const ir_instructions *list = &t->p->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++) {
      const ir_int_scalar *o = list->items[i].op;
      if (list->items[i].op_type != IR_OP_INT_SCALAR) continue;
      is_atom[o->out] = is_atom[o->out] || t->writer[o->out];
      t->writer[o->out] = o;
    }
  }
}

static void find_inputs(const size_table *t, bool *is_atom) {
  for (uint32_t m = 0; m < t->p->methods.count; m++) {
    const ir_arguments *inputs = &t->p->methods.items[m].inputs;
    for (uint32_t i = 0; i < inputs->count; i++) {
      const ir_argument *a = &inputs->items[i];
      if (a->value != IR_NONE) is_atom[a->value] = true;
      if (a->tensor == IR_NONE) continue;
      const ir_int_or_vids *shape = &t->p->tensors.items[a->tensor].shape;
      for (uint32_t d = 0; d < shape->count; d++)
        if (shape->items[d].vid != IR_NONE) is_atom[shape->items[d].vid] = true;
    }
  }
}

size_table *size_table_create(const ir_program *p, mem_pool *pool) {
  size_t n = (size_t)p->values.count + 1;
  size_table *t = mem_pool_alloc(pool, 1, sizeof *t);
  if (!t) return NULL;
  *t = (size_table){.p = p, .pool = pool};
  t->writer = mem_pool_alloc(pool, n, sizeof *t->writer);
  t->values = mem_pool_alloc(pool, n, sizeof *t->values);
  t->known = mem_pool_alloc(pool, n, sizeof *t->known);
  bool *is_atom = mem_pool_alloc(pool, n, sizeof *is_atom);
  if (!t->writer || !t->values || !t->known || !is_atom) return NULL;
  find_writers(t, is_atom);
  find_inputs(t, is_atom);
  for (uint32_t v = 0; v < p->values.count; v++)
    if (is_atom[v]) t->writer[v] = NULL;
  return t;
}

/* ---------------------------------------------------------------- polynomials */

static int compare_atoms(const term *a, const term *b) {
  if (a->degree != b->degree) return a->degree < b->degree ? -1 : 1;
  return memcmp(a->atoms, b->atoms, a->degree * sizeof *a->atoms);
}

static int compare_terms(const void *a, const void *b) { return compare_atoms(a, b); }

static poly poly_of(const size_table *t, extent a) {
  if (!size_is_literal(a)) return *t->polys[a.poly - 1];
  return (poly){.n = a.literal != 0, .terms = {{.factor = a.literal}}};
}

/* Joins terms of the same atoms and drops those of factor 0. False: a factor overflows. */
static bool normalise(poly *p) {
  uint32_t n = 0;
  qsort(p->terms, p->n, sizeof *p->terms, compare_terms);
  for (uint32_t i = 0; i < p->n; i++) {
    if (n && compare_atoms(&p->terms[n - 1], &p->terms[i]) == 0) {
      if (!add_i64(p->terms[n - 1].factor, p->terms[i].factor, &p->terms[n - 1].factor))
        return false;
    } else {
      p->terms[n++] = p->terms[i];
    }
    if (p->terms[n - 1].factor == 0) n--;
  }
  p->n = n;
  return true;
}

static bool equal_polys(const poly *a, const poly *b) {
  if (a->n != b->n) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->terms[i].factor != b->terms[i].factor || compare_atoms(&a->terms[i], &b->terms[i]) != 0)
      return false;
  return true;
}

/* The polynomial's one size. */
static extent intern(size_table *t, const poly *p) {
  if (p->n == 0) return size_literal(0);
  if (p->n == 1 && p->terms[0].degree == 0) return size_literal(p->terms[0].factor);
  for (uint32_t i = 0; i < t->n_polys; i++)
    if (equal_polys(t->polys[i], p)) return (extent){0, i + 1};
  poly *made = mem_pool_alloc(t->pool, 1, sizeof *made);
  if (!made || !grow(t->pool, &t->polys, t->n_polys, &t->poly_capacity, sizeof *t->polys))
    return NOT_A_SIZE;
  *made = *p;
  t->polys[t->n_polys++] = made;
  return (extent){0, t->n_polys};
}

static extent atom(size_table *t, uint32_t number) {
  poly p = {.n = 1, .terms = {{.factor = 1, .degree = 1, .atoms = {number}}}};
  return intern(t, &p);
}

extent size_add(size_table *t, extent a, extent b) {
  if (!same_size(a, a) || !same_size(b, b)) return NOT_A_SIZE;
  poly p = poly_of(t, a), q = poly_of(t, b);
  if (p.n + q.n > MAX_TERMS) return NOT_A_SIZE;
  memcpy(p.terms + p.n, q.terms, q.n * sizeof *q.terms);
  p.n += q.n;
  return normalise(&p) ? intern(t, &p) : NOT_A_SIZE;
}

static int compare_numbers(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static bool multiply_terms(const term *a, const term *b, term *out) {
  *out = *a;
  if (a->degree + b->degree > MAX_DEGREE || !mul_i64(a->factor, b->factor, &out->factor))
    return false;
  memcpy(out->atoms + a->degree, b->atoms, b->degree * sizeof *b->atoms);
  out->degree += b->degree;
  qsort(out->atoms, out->degree, sizeof *out->atoms, compare_numbers);
  return true;
}

extent size_multiply(size_table *t, extent a, extent b) {
  if (!same_size(a, a) || !same_size(b, b)) return NOT_A_SIZE;
  poly p = poly_of(t, a), q = poly_of(t, b), out = {0};
  if (p.n * q.n > MAX_TERMS) return NOT_A_SIZE;
  for (uint32_t i = 0; i < p.n; i++)
    for (uint32_t k = 0; k < q.n; k++)
      if (!multiply_terms(&p.terms[i], &q.terms[k], &out.terms[out.n++])) return NOT_A_SIZE;
  return normalise(&out) ? intern(t, &out) : NOT_A_SIZE;
}

/* ---------------------------------------------------------------- values */

/* Do all factors of a divide by n > 0? Then *quotient is a / n. */
static bool divides(size_table *t, extent a, int64_t n, extent *quotient) {
  if (n <= 0) return false;
  poly p = poly_of(t, a);
  for (uint32_t i = 0; i < p.n; i++) {
    if (p.terms[i].factor % n != 0) return false;
    p.terms[i].factor /= n;
  }
  *quotient = intern(t, &p);
  return true;
}

/* The size of an operation that is none on polynomials: the same for the same operands. */
static extent operation_size(size_table *t, ir_scalar_kind kind, extent a, extent b) {
  uint32_t i = 0;
  while (i < t->n_operations &&
         !(t->operations[i].kind == kind && same_size(t->operations[i].a, a) &&
           same_size(t->operations[i].b, b)))
    i++;
  if (i == t->n_operations) {
    if (!grow(t->pool, &t->operations, i, &t->operation_capacity, sizeof *t->operations))
      return NOT_A_SIZE;
    t->operations[t->n_operations++] = (operation){kind, a, b};
  }
  return atom(t, t->p->values.count + i);
}

static extent combine(size_table *t, ir_scalar_kind kind, extent a, extent b) {
  extent q;
  bool by_number = size_is_literal(b);
  switch (kind) {
    case IR_SCALAR_KIND_ADD:
      return size_add(t, a, b);
    case IR_SCALAR_KIND_SUB:
      return size_add(t, a, size_multiply(t, b, size_literal(-1)));
    case IR_SCALAR_KIND_NEG:
      return size_multiply(t, a, size_literal(-1));
    case IR_SCALAR_KIND_MUL:
      return size_multiply(t, a, b);
    case IR_SCALAR_KIND_FLOOR_DIV:
      if (by_number && divides(t, a, b.literal, &q)) return q;
      break;
    case IR_SCALAR_KIND_MOD:
      if (by_number && divides(t, a, b.literal, &q)) return size_literal(0);
      break;
    case IR_SCALAR_KIND_MIN:
    case IR_SCALAR_KIND_MAX:
      if (same_size(a, b)) return a;
      break;
    default:
      break;
  }
  return operation_size(t, kind, a, b);
}

static extent compute(size_table *t, uint32_t vid) {
  const ir_int_scalar *o = t->writer[vid];
  if (!o || t->depth > MAX_DEPTH || t->p->values.items[vid].type != IR_VALUE_TYPE_INT)
    return atom(t, vid);
  t->depth++;
  extent a = size_of(t, &o->a), b = o->b.present ? size_of(t, &o->b) : size_literal(0);
  t->depth--;
  extent out = same_size(a, a) && same_size(b, b) ? combine(t, o->kind, a, b) : NOT_A_SIZE;
  return same_size(out, out) ? out : atom(t, vid);
}

extent size_of(size_table *t, const ir_int_or_vid *v) {
  if (v->vid == IR_NONE) return size_literal(v->literal);
  if (!t->known[v->vid]) {
    extent found = compute(t, v->vid);
    t->values[v->vid] = found;
    t->known[v->vid] = true;
  }
  return t->values[v->vid];
}
