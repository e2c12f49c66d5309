#ifndef IMPORT_NUMBER_H
#define IMPORT_NUMBER_H
/* Numbers of the host: sizes and other scalars that are known at import, or computed before or
 * during a run by host ops. Arithmetic on constants is done at once; each other expression is
 * emitted once per scope. */
#include "import/importer.h"

/* No dimension is longer. */
static const int64_t NUMBER_MAX_SIZE = (int64_t)1 << 48;

typedef enum number_type { NUMBER_INT, NUMBER_FLOAT, NUMBER_BOOL } number_type;

typedef struct number {
  number_type type;
  clave_id id;  /* the host scalar; 0: a constant */
  bool no_sign; /* known to be >= 0 */
  int64_t i;    /* a constant integer, or 0 or 1 for a bool */
  int64_t most; /* upper bound of an integer */
  double f;     /* a constant float */
} number;

typedef enum number_kind { /* as ScalarKind in the schema */
                           NUMBER_ADD,
                           NUMBER_SUB,
                           NUMBER_MUL,
                           NUMBER_FLOOR_DIV,
                           NUMBER_MOD, /* has the sign of the divisor */
                           NUMBER_MIN,
                           NUMBER_MAX,
                           NUMBER_EQ,
                           NUMBER_NE,
                           NUMBER_LT,
                           NUMBER_LE,
                           NUMBER_GT,
                           NUMBER_GE,
                           NUMBER_NEG,
                           NUMBER_AND,
                           NUMBER_OR,
                           NUMBER_NOT,
                           NUMBER_TO_FLOAT,
                           NUMBER_TRUE_DIV,
                           NUMBER_TO_INT, /* towards zero */
                           NUMBER_POW,
                           NUMBER_FLOOR,
                           NUMBER_CEIL,
                           NUMBER_ROUND, /* halves to even */
                           NUMBER_SQRT,
                           NUMBER_KINDS
} number_kind;

clave_status numbers_create(importer *im) STATUS_CHECK;
void numbers_leave(importer *im); /* forgets the expressions of a body that ended */

static inline number number_int(int64_t i) {
  return (number){.type = NUMBER_INT, .i = i, .no_sign = i >= 0, .most = i};
}
static inline number number_float(double f) { return (number){.type = NUMBER_FLOAT, .f = f}; }
static inline number number_bool(bool b) {
  return (number){.type = NUMBER_BOOL, .i = b, .no_sign = true, .most = b};
}
static inline bool number_is_constant(number a) { return a.id == 0; }
static inline bool number_is(number a, int64_t i) {
  return a.id == 0 && a.type != NUMBER_FLOAT && a.i == i;
}
/* Converts towards zero; NaN is 0, and large numbers are the nearest limit. */
int64_t number_truncated(double f);
bool number_is_same(number a, number b); /* false if they may differ at run time */

/* Returns a new host scalar, which an instruction will set or an input's size binds. */
number number_new(importer *im, const char *name, number_type type, int64_t min, int64_t max);
/* Computes kind(a, b); unary kinds ignore b. Integers and bools are computed exactly. */
number number_compute(importer *im, number_kind kind, number a, number b);
number number_add(importer *im, number a, number b);
number number_sub(importer *im, number a, number b);
number number_mul(importer *im, number a, number b);
number number_floor_div(importer *im, number a, number b);
number number_ceil_div(importer *im, number a, int64_t b);
number number_trunc_div(importer *im, number a, number b); /* integers, towards zero */
number number_min(importer *im, number a, number b);
number number_max(importer *im, number a, number b);
number number_where(importer *im, number condition, number a, number b);
number number_to_int(importer *im, number a);
number number_to_float(importer *im, number a);
number number_to_bool(importer *im, number a);
/* Refuses the node unless kind(a, b) holds, a comparison of integers. If they are not constant, the
 * run fails with the message instead. */
void number_check(importer *im, number_kind kind, number a, number b, const char *message);
/* Returns the number in the current scope, if it was computed in a body that has ended: emits its
 * expression again. Fails if it depends on a tensor of that body. */
number number_again(importer *im, number a);

#endif
