/* Sizes as polynomials: sums of numbers times products of atoms, in canonical order and stored once
 * each. An atom is a value about which nothing is known, or the result of any operation except
 * addition, subtraction and multiplication. */
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
  term terms[MAX_TERMS]; /* in the order of compare_terms, no factor is 0; not only a number */
} poly;

typedef struct operation {
  ir_scalar_kind kind;
  extent a, b;
} operation;

struct size_table {
  const ir_program *program;
  mem_pool *pool;
  const ir_int_scalar **writer; /* by Vid: the instruction that computes it; NULL for an atom */
  extent *values;               /* by Vid, valid if known */
  bool *known;
  poly **polys; /* polys[k] has number k + 1 */
  uint32_t n_polys, poly_capacity;
  operation *operations; /* operations[k] is atom n_values + k */
  uint32_t n_operations, operation_capacity;
  int depth;
};

/* Makes room for one more item in an array of the pool. */
static bool sizes_grow(mem_pool *pool, void *array, uint32_t n, uint32_t *capacity, size_t item) {
  if (n < *capacity) return true;
  void *old, *made = mem_pool_alloc(pool, 2 * (size_t)*capacity + 16, item);
  if (!made) return false;
  memcpy(&old, array, sizeof old);
  if (n) memcpy(made, old, n * item);
  memcpy(array, &made, sizeof made);
  *capacity = 2 * *capacity + 16;
  return true;
}

/* Finds the instruction that computes each value. If several instructions do, it is an atom. */
static void sizes_find_writers(size_table *table, bool *is_atom) {
  for (uint32_t c = 0; c < table->program->chains.count; c++) {
    const ir_instructions *list = &table->program->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++) {
      const ir_int_scalar *op = list->items[i].op;
      if (list->items[i].op_type != IR_OP_INT_SCALAR) continue;
      is_atom[op->out] = is_atom[op->out] || table->writer[op->out];
      table->writer[op->out] = op;
    }
  }
}

static void find_inputs(const size_table *table, bool *is_atom) {
  for (uint32_t m = 0; m < table->program->methods.count; m++) {
    const ir_arguments *inputs = &table->program->methods.items[m].inputs;
    for (uint32_t i = 0; i < inputs->count; i++) {
      const ir_argument *argument = &inputs->items[i];
      if (argument->value != IR_NONE) is_atom[argument->value] = true;
      if (argument->tensor == IR_NONE) continue;
      const ir_int_or_vids *shape = &table->program->tensors.items[argument->tensor].shape;
      for (uint32_t d = 0; d < shape->count; d++)
        if (shape->items[d].vid != IR_NONE) is_atom[shape->items[d].vid] = true;
    }
  }
}

size_table *size_table_create(const ir_program *program, mem_pool *pool) {
  size_t n = (size_t)program->values.count + 1;
  size_table *table = mem_pool_alloc(pool, 1, sizeof *table);
  if (!table) return NULL;
  *table = (size_table){.program = program, .pool = pool};
  table->writer = mem_pool_alloc(pool, n, sizeof *table->writer);
  table->values = mem_pool_alloc(pool, n, sizeof *table->values);
  table->known = mem_pool_alloc(pool, n, sizeof *table->known);
  bool *is_atom = mem_pool_alloc(pool, n, sizeof *is_atom);
  if (!table->writer || !table->values || !table->known || !is_atom) return NULL;
  sizes_find_writers(table, is_atom);
  find_inputs(table, is_atom);
  for (uint32_t v = 0; v < program->values.count; v++)
    if (is_atom[v]) table->writer[v] = NULL;
  return table;
}

/* ---------------------------------------------------------------- polynomials */

static int compare_atoms(const term *left, const term *right) {
  if (left->degree != right->degree) return left->degree < right->degree ? -1 : 1;
  return memcmp(left->atoms, right->atoms, left->degree * sizeof *left->atoms);
}

static int compare_terms(const void *left, const void *right) { return compare_atoms(left, right); }

static poly poly_of(const size_table *table, extent extent) {
  if (!size_is_literal(extent)) return *table->polys[extent.poly - 1];
  return (poly){.n = extent.literal != 0, .terms = {{.factor = extent.literal}}};
}

/* Merges terms with equal atoms and drops those with factor 0. Returns false on overflow. */
static bool normalise(poly *poly) {
  uint32_t n = 0;
  qsort(poly->terms, poly->n, sizeof *poly->terms, compare_terms);
  for (uint32_t i = 0; i < poly->n; i++) {
    if (n && compare_atoms(&poly->terms[n - 1], &poly->terms[i]) == 0) {
      if (!add_i64(poly->terms[n - 1].factor, poly->terms[i].factor, &poly->terms[n - 1].factor))
        return false;
    } else {
      poly->terms[n++] = poly->terms[i];
    }
    if (poly->terms[n - 1].factor == 0) n--;
  }
  poly->n = n;
  return true;
}

static bool equal_polys(const poly *left, const poly *right) {
  if (left->n != right->n) return false;
  for (uint32_t i = 0; i < left->n; i++)
    if (left->terms[i].factor != right->terms[i].factor ||
        compare_atoms(&left->terms[i], &right->terms[i]) != 0)
      return false;
  return true;
}

/* Returns the extent of a polynomial, adding it to the table if it is new. */
static extent intern(size_table *table, const poly *sum) {
  if (sum->n == 0) return size_literal(0);
  if (sum->n == 1 && sum->terms[0].degree == 0) return size_literal(sum->terms[0].factor);
  for (uint32_t i = 0; i < table->n_polys; i++)
    if (equal_polys(table->polys[i], sum)) return (extent){0, i + 1};
  poly *made = mem_pool_alloc(table->pool, 1, sizeof *made);
  if (!made || !sizes_grow(table->pool, &table->polys, table->n_polys, &table->poly_capacity,
                           sizeof *table->polys))
    return NOT_A_SIZE;
  *made = *sum;
  table->polys[table->n_polys++] = made;
  return (extent){0, table->n_polys};
}

static extent atom(size_table *table, uint32_t number) {
  poly poly = {.n = 1, .terms = {{.factor = 1, .degree = 1, .atoms = {number}}}};
  return intern(table, &poly);
}

extent size_add(size_table *table, extent left, extent right) {
  if (!same_size(left, left) || !same_size(right, right)) return NOT_A_SIZE;
  poly sum = poly_of(table, left), addend = poly_of(table, right);
  if (sum.n + addend.n > MAX_TERMS) return NOT_A_SIZE;
  memcpy(sum.terms + sum.n, addend.terms, addend.n * sizeof *addend.terms);
  sum.n += addend.n;
  return normalise(&sum) ? intern(table, &sum) : NOT_A_SIZE;
}

static int sizes_compare_numbers(const void *left, const void *right) {
  uint32_t x = *(const uint32_t *)left, y = *(const uint32_t *)right;
  return x < y ? -1 : x > y;
}

static bool multiply_terms(const term *left, const term *right, term *out) {
  *out = *left;
  if (left->degree + right->degree > MAX_DEGREE ||
      !mul_i64(left->factor, right->factor, &out->factor))
    return false;
  memcpy(out->atoms + left->degree, right->atoms, right->degree * sizeof *right->atoms);
  out->degree += right->degree;
  qsort(out->atoms, out->degree, sizeof *out->atoms, sizes_compare_numbers);
  return true;
}

extent size_multiply(size_table *table, extent left, extent right) {
  if (!same_size(left, left) || !same_size(right, right)) return NOT_A_SIZE;
  poly a = poly_of(table, left), b = poly_of(table, right), out = {0};
  if (a.n * b.n > MAX_TERMS) return NOT_A_SIZE;
  for (uint32_t i = 0; i < a.n; i++)
    for (uint32_t k = 0; k < b.n; k++)
      if (!multiply_terms(&a.terms[i], &b.terms[k], &out.terms[out.n++])) return NOT_A_SIZE;
  return normalise(&out) ? intern(table, &out) : NOT_A_SIZE;
}

/* ---------------------------------------------------------------- values */

/* If n > 0 divides all factors, sets *quotient to size / n and returns true. */
static bool divides(size_table *table, extent size, int64_t n, extent *quotient) {
  if (n <= 0) return false;
  poly poly = poly_of(table, size);
  for (uint32_t i = 0; i < poly.n; i++) {
    if (poly.terms[i].factor % n != 0) return false;
    poly.terms[i].factor /= n;
  }
  *quotient = intern(table, &poly);
  return true;
}

/* Returns the atom of an operation that is not polynomial; equal operands have the same atom. */
static extent operation_size(size_table *table, ir_scalar_kind kind, extent left, extent right) {
  uint32_t i = 0;
  while (i < table->n_operations &&
         !(table->operations[i].kind == kind && same_size(table->operations[i].a, left) &&
           same_size(table->operations[i].b, right)))
    i++;
  if (i == table->n_operations) {
    if (!sizes_grow(table->pool, &table->operations, i, &table->operation_capacity,
                    sizeof *table->operations))
      return NOT_A_SIZE;
    table->operations[table->n_operations++] = (operation){kind, left, right};
  }
  return atom(table, table->program->values.count + i);
}

static extent sizes_combine(size_table *table, ir_scalar_kind kind, extent left, extent right) {
  extent quotient;
  bool by_number = size_is_literal(right);
  switch (kind) {
    case IR_SCALAR_KIND_ADD:
      return size_add(table, left, right);
    case IR_SCALAR_KIND_SUB:
      return size_add(table, left, size_multiply(table, right, size_literal(-1)));
    case IR_SCALAR_KIND_NEG:
      return size_multiply(table, left, size_literal(-1));
    case IR_SCALAR_KIND_MUL:
      return size_multiply(table, left, right);
    case IR_SCALAR_KIND_FLOOR_DIV:
      if (by_number && divides(table, left, right.literal, &quotient)) return quotient;
      break;
    case IR_SCALAR_KIND_MOD:
      if (by_number && divides(table, left, right.literal, &quotient)) return size_literal(0);
      break;
    case IR_SCALAR_KIND_MIN:
    case IR_SCALAR_KIND_MAX:
      if (same_size(left, right)) return left;
      break;
    default:
      break;
  }
  return operation_size(table, kind, left, right);
}

static extent sizes_compute(size_table *table, uint32_t vid) {
  const ir_int_scalar *op = table->writer[vid];
  if (!op || table->depth > MAX_DEPTH ||
      table->program->values.items[vid].type != IR_VALUE_TYPE_INT)
    return atom(table, vid);
  table->depth++;
  extent a = size_of(table, &op->a), b = op->b.present ? size_of(table, &op->b) : size_literal(0);
  table->depth--;
  extent out =
      same_size(a, a) && same_size(b, b) ? sizes_combine(table, op->kind, a, b) : NOT_A_SIZE;
  return same_size(out, out) ? out : atom(table, vid);
}

extent size_of(size_table *table, const ir_int_or_vid *value) {
  if (value->vid == IR_NONE) return size_literal(value->literal);
  if (!table->known[value->vid]) {
    extent found = sizes_compute(table, value->vid);
    table->values[value->vid] = found;
    table->known[value->vid] = true;
  }
  return table->values[value->vid];
}
