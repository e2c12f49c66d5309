#ifndef INTERP_PASSES_MATCH_H
#define INTERP_PASSES_MATCH_H
/* Helpers for patterns: expressions of elementwise steps over tensors, independent of how steps are
 * grouped into nodes, and the match of a pattern, which records the nodes that it covers. */
#include "interp/graph/draft.h"

/* A tensor, a step of an elementwise node, a number, or a host scalar. A tensor that an elementwise
 * node writes may also be treated as the node's last step. */
typedef enum expr_kind { EXPR_TENSOR, EXPR_STEP, EXPR_NUMBER, EXPR_VALUE } expr_kind;
typedef struct expr {
  expr_kind kind;
  uint32_t index;   /* a Tid, the index of a step, or a Vid */
  draft_node *node; /* node of the step */
  double number;
} expr;

enum { MAX_INNER = 96, MAX_FACTORS = 12 };

typedef struct match {
  draft *draft;
  draft_node *root;
  uint32_t out;                 /* result of the root */
  dtype type;                   /* dtype of out */
  draft_node *inner[MAX_INNER]; /* nodes that the pattern covers, including the root */
  int n_inner;
} match;

/* A pattern: returns true if the root matches. It has then added the replacement before the root,
 * and *out is the replacement's result, with the root's dtype and shape. It adds nodes only after
 * the match is complete and closed (match_is_closed). */
typedef bool (*pattern)(match *match, uint32_t *out);
/* Tries a pattern at every node, from the last to the first. Returns how often it applied. */
uint32_t apply_pattern(draft *draft, pattern find);

/* True if the root is elementwise, in f32 or f64. */
static inline bool is_wide_step(const match *match) {
  bool wide = match->type == DTYPE_F32 || match->type == DTYPE_F64;
  return wide && match->root->ins.op_type == IR_OP_ELEMENTWISE;
}
/* Records that the pattern covers this node. Returns false if it covers too many. */
bool match_covers(match *match, draft_node *node);
/* True if only covered nodes read the results of covered nodes, except the root's. */
bool match_is_closed(const match *match);

static inline expr tensor_expr(uint32_t tid) { return (expr){.kind = EXPR_TENSOR, .index = tid}; }
bool same_expr(expr left, expr right);
/* Finds the kind, operands and dtype of a step. Returns false if the expression is not a step. */
bool open_step(const draft *draft, expr expression, ir_step_kind *kind, expr args[MAX_STEP_ARITY],
               dtype *type);
bool is_step(const draft *draft, expr expr, ir_step_kind kind);
/* Like open_step, but only for a step of this kind and of the match's dtype. Covers its node. */
bool match_step(match *match, expr expression, ir_step_kind kind, expr args[MAX_STEP_ARITY]);
/* Sets *out to a number, or to the element of a constant that has only one; else returns false. */
bool expr_number(const draft *draft, expr expr, double *out);
/* Returns the dtype of a tensor or step. */
dtype expr_type(const draft *draft, expr expr);
/* Returns the number of readers of a tensor, and of outputs, updates and results that name it; 1
 * for other expressions. */
uint32_t expr_readers(const draft *draft, expr expr);

/* coefficient * over[0] * over[1] ... / under[0] ... */
typedef struct product {
  double coefficient;
  expr over[MAX_FACTORS], under[MAX_FACTORS];
  int n_over, n_under;
} product;
/* Sets *out to the factors of expr. Factors that are products and have no other reader are
 * expanded. */
bool match_product(match *match, expr expr, product *out);
/* Matches sum = rest + count, where count is a number. */
bool match_plus_number(match *match, expr sum, expr *rest, double *count);
/* Matches square = base * base. */
bool match_square(match *match, expr square, expr *base);
/* Matches a mean of *operand over *axes with keepdim, or such a sum divided by the count. */
bool match_mean(match *match, expr expr, uint32_t *operand, unsigned *axes);
/* Finds the k-th factor of the product that is 1 / sqrt(radicand); rest gets the other factors. */
bool match_inverse_root(match *match, const product *product, int k, expr *radicand, expr *rest,
                        int *n_rest);

/* True if two numbers are equal up to one or two units in the last place of the dtype. */
bool close_numbers(double a, double b, dtype type);

/* ---- tensors ---- */

/* Returns the tensor that x is a copy of. `what`: also look through reshapes or expansions. */
enum { THROUGH_RESHAPE = 1, THROUGH_EXPAND = 2 };
uint32_t draft_through(const draft *draft, uint32_t x, unsigned what);
/* Sets *out to the number that all elements of x have. Returns false unless x is such a constant or
 * a Full, perhaps through views. */
bool uniform_value(const draft *draft, uint32_t x, double *out);
/* Returns the constant that x copies or reshapes; else IR_NONE. */
uint32_t constant_origin(const draft *draft, uint32_t x);
/* Returns an element as a number. */
double element_of(dtype t, const void *data, int64_t i);
/* True if there are elements and all have the same bits. */
bool is_uniform(const tensor *tensor, const void *data);
/* Sets *axes to the axes of a reduction as a bit mask. Returns false if there are none. */
bool reduce_axes(const draft *draft, const ir_reduce *reduce, unsigned *axes);
/* Returns the operand of a node that only casts or copies each element; else IR_NONE. */
uint32_t cast_of(const draft *draft, uint32_t tid);
/* ---- strided.c ---- */
/* True if the tensor's rows may be slices of wider rows without a reader that would have to copy
 * them. in_order: the last dimension is still contiguous and can be split. */
bool draft_can_be_strided(const draft *draft, uint32_t tid, bool in_order);
/* True if both have the same dimensions, ignoring those of size 1. */
bool draft_same_but_ones(const draft *draft, uint32_t a, uint32_t b);
/* Returns the result of an instruction with one result. */
static inline uint32_t result_of(const draft_node *node) { return first_slot(&node->ins, true); }

#endif
