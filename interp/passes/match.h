#ifndef INTERP_PASSES_MATCH_H
#define INTERP_PASSES_MATCH_H
/* What patterns are written with: expressions of elementwise steps over tensors, however many steps
 * a node has, and one attempt at a pattern, which notes the nodes that it went through. */
#include "interp/graph/draft.h"

/* A tensor, a step of an elementwise node, a number, or a host scalar. A tensor that an elementwise
 * node writes is that node's last step, too. */
typedef enum expr_kind { EXPR_TENSOR, EXPR_STEP, EXPR_NUMBER, EXPR_VALUE } expr_kind;
typedef struct expr {
  expr_kind kind;
  uint32_t index;   /* Tid; of a step; Vid */
  draft_node *node; /* of a step */
  double number;
} expr;

enum { MAX_INNER = 96, MAX_FACTORS = 12 };

typedef struct match {
  draft *draft;
  draft_node *root;
  uint32_t out;                 /* the root's result */
  dtype type;                   /* its */
  draft_node *inner[MAX_INNER]; /* nodes that the pattern covers, the root among them */
  int n_inner;
} match;

/* A pattern: whether the root is what it describes; then it has added the replacement before the
 * root, and *out is its result, of the root's dtype and shape. Nothing may be added before the
 * match is known to be whole and closed (match_is_closed). */
typedef bool (*pattern)(match *match, uint32_t *out);
/* Tries a pattern at every node from the last to the first; how often it applied. */
uint32_t apply_pattern(draft *draft, pattern find);

/* Is the root elementwise, in f32 or f64? */
static inline bool is_wide_step(const match *match) {
  bool wide = match->type == DTYPE_F32 || match->type == DTYPE_F64;
  return wide && match->root->ins.op_type == IR_OP_ELEMENTWISE;
}
/* Notes that the pattern covers this node; false: it covers too many. */
bool match_covers(match *match, draft_node *node);
/* Does nothing outside read what the pattern covers, but for the root's result? */
bool match_is_closed(const match *match);

static inline expr tensor_expr(uint32_t tid) { return (expr){.kind = EXPR_TENSOR, .index = tid}; }
bool same_expr(expr left, expr right);
/* The step that other_expr is, with its operands; *type: of its result. False: other_expr is no
 * step. */
bool open_step(const draft *draft, expr other_expr, ir_step_kind *kind, expr args[MAX_STEP_ARITY],
               dtype *type);
bool is_step(const draft *draft, expr expr, ir_step_kind kind);
/* The operands of other_expr, which must be a step of this kind and of the match's dtype, and is
 * covered. */
bool take_step(match *match, expr other_expr, ir_step_kind kind, expr args[MAX_STEP_ARITY]);
/* The number that expr is, or that the one element of a constant is. */
bool expr_number(const draft *draft, expr expr, double *out);
/* The dtype of a tensor or step. */
dtype expr_type(const draft *draft, expr expr);
/* How many read it: of a step inside of its node one. */
uint32_t expr_readers(const draft *draft, expr expr);

/* coefficient * over[0] * over[1] ... / under[0] ... */
typedef struct product {
  double coefficient;
  expr over[MAX_FACTORS], under[MAX_FACTORS];
  int n_over, n_under;
} product;
/* expr as a product of what is not itself a product that only expr reads. */
bool take_product(match *match, expr expr, product *out);
/* other_expr = y_expr + count. */
bool take_plus_number(match *match, expr other_expr, expr *y_expr, double *count);
/* other_expr = y_expr * y_expr. */
bool take_square(match *match, expr other_expr, expr *y_expr);
/* expr = the mean of results over these axes, which stay as sizes of 1; or their sum over the
 * count. */
bool take_mean(match *match, expr expr, uint32_t *results, unsigned *axes);
/* One of the factors of product is 1 / sqrt(y), the k-th such; the others are left in rest. */
bool take_inverse_root(match *match, const product *product, int k, expr *other_expr, expr *rest,
                       int *n_rest);

/* Are two numbers the same to the last place or two of this dtype? */
bool close_numbers(double a, double b, dtype type);

/* ---- tensors ---- */

/* x behind copies, and if they are wanted reshapes and expansions. */
enum { THROUGH_RESHAPE = 1, THROUGH_EXPAND = 2 };
uint32_t draft_through(const draft *draft, uint32_t x, unsigned what);
/* The number that all of x's elements are: a Full, perhaps behind views, or a uniform constant. */
bool uniform_value(const draft *draft, uint32_t x, double *out);
/* A constant behind copies and reshapes: its Tid, else IR_NONE. */
uint32_t constant_behind(const draft *draft, uint32_t x);
/* An element as a number. */
double element_of(dtype t, const void *data, int64_t i);
/* Has it elements, all of the same bits? */
bool is_uniform(const tensor *tensor, const void *data);
/* The axes of a reduction as bits. */
bool reduce_axes(const draft *draft, const ir_reduce *reduce, unsigned *axes);
/* What a node that only casts or copies, element by element, casts; IR_NONE: it does something
 * else. */
uint32_t cast_of(const draft *draft, uint32_t tid);
/* ---- strided.c ---- Would nothing copy it if its rows were parts of wider ones? in_order: its
 * last dimension is a row's part still, and can be split. */
bool draft_can_be_strided(const draft *draft, uint32_t tid, bool in_order);
/* Are they the same dimensions but for ones? */
bool draft_same_but_ones(const draft *draft, uint32_t a, uint32_t b);
/* The result of an instruction that has one. */
static inline uint32_t result_of(const draft_node *node) { return first_slot(&node->ins, true); }

#endif
