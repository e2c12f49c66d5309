#ifndef OPS_OPS_H
#define OPS_OPS_H
/* Shape and dtype rules of every op: rule_<op>() in the family's file. A rule computes the types
 * of an op's outputs from those of its operands and compares them with the types that the program
 * declares. The verifier applies the rule with unknown sizes (DIM_UNKNOWN), and the planner applies
 * it again with the actual sizes, so nothing reaches a kernel unchecked.
 *
 * View ops also have view_<op>(), which computes the output's strides and offset in the operand's
 * storage. It returns false if no strides express the view. */
#include "base/status.h"
#include "ir.h" /* generated: structs, enums, descriptors */
#include "ops/tensor.h"

/* The value of a host scalar during rule evaluation. */
typedef struct scalar_value {
  bool known;
  ir_value_type type;
  int64_t i; /* ints and bools */
  double f;  /* floats */
} scalar_value;

typedef struct rule_context {
  const ir_program *program;
  const tensor *tensors;      /* by Tid: the declared types; DIM_UNKNOWN where a Vid is not known */
  const scalar_value *values; /* by Vid */
} rule_context;

typedef clave_status (*op_rule)(const rule_context *context, const void *op);
typedef bool (*op_view)(const rule_context *context, const void *op, const tensor *value,
                        tensor *out);

/* One row per op, generated from the schema (build/gen/op_table.c), indexed by ir_op. */
typedef struct op_info {
  const char *name;   /* "softmax" */
  const char *family; /* stem of the files that implement it */
  int since;
  bool is_view, is_host, is_control;
  bool is_cpu; /* only the CPU backend implements it */
  bool moves;  /* it only moves elements, so its tensors may have any dtype */
  op_rule rule;
  op_view view;          /* NULL unless is_view */
  const ir_table *table; /* descriptor of its fields */
} op_info;
extern const op_info op_table[IR_OP_COUNT];

/* Iterates over an instruction's operands in schema order; absent ones are skipped:
 *  for (operand_iter i = operands_of(ins); next_operand(&i);) use(i.operand.tid); */
typedef struct operand {
  uint32_t tid;
  unsigned flags;     /* flags of the field: IR_OUT, IR_DENSE, IR_ROWS, IR_ENCODED, IR_COUNTS */
  const char *field;  /* the field's name in the schema */
  uint32_t reuses;    /* for outputs with `reuses`: the Tid of the operand that they may overwrite;
                         else IR_NONE */
  const uint32_t *at; /* address of tid in the op or its vector */
} operand;
typedef struct operand_iter {
  operand operand;
  const ir_instruction *ins;
  uint32_t field, item; /* the field to visit next, and the item in it if it is a vector */
} operand_iter;
static inline operand_iter operands_of(const ir_instruction *ins) {
  return (operand_iter){.ins = ins};
}
bool next_operand(operand_iter *iter); /* false after the last one */
/* Returns the first tensor that an instruction reads (or writes, if `written`); IR_NONE if none. */
uint32_t first_slot(const ir_instruction *ins, bool written);
/* Calls visit for each value (Vid) that the instruction reads or writes, including those nested in
 * IntOrVid, FloatOrVid and step operands, until visit returns false. Returns false if visit did. */
bool for_each_value(const ir_instruction *ins, bool (*visit)(void *ctx, uint32_t vid, bool written),
                    void *ctx);

/* Stores the chains that a control op runs and returns their number. */
int control_chains(const ir_instruction *ins, uint32_t chains[2]);
bool is_loop(const ir_instruction *ins); /* true if it may run a chain repeatedly */
const ir_u32s *control_results(const ir_instruction *ins); /* for control ops with chains only */

/* Checks an instruction whose ids are all in range, for the verifier: plain operands, no float
 * values in integer fields, then the rule of the op and the rule of its epilogue. The caller adds
 * node and file to the error. */
clave_status rule_instruction(const rule_context *context, const ir_instruction *ins) STATUS_CHECK;
/* Checks only the rule of the op and the rule of its epilogue. The planner calls it with the actual
 * sizes. */
clave_status rule_sizes(const rule_context *context, const ir_instruction *ins) STATUS_CHECK;

/* ---- for rules ---- */
const tensor *rule_tensor(const rule_context *context, uint32_t tid);
/* Reads a literal or the value of a Vid; returns false if the value is not known yet. */
bool rule_int(const rule_context *context, const ir_int_or_vid *value, int64_t *out);
/* Resolves a negative `axis`; fails unless it is in [-rank, rank). */
clave_status rule_axis(int64_t axis, int rank, int *out) STATUS_CHECK;
/* Fails unless `tid` is declared with this dtype and dims (unknown dims match). what: "out", ... */
clave_status rule_expect(const rule_context *context, uint32_t tid, const char *what, dtype type,
                         int rank, const int64_t *dims) STATUS_CHECK;
clave_status rule_expect_like(const rule_context *context, uint32_t tid, const char *what,
                              const tensor *want) STATUS_CHECK;
/* Broadcasts (rank, dims) with the tensor's shape, in place. The error names both shapes. */
clave_status rule_broadcast(const tensor *tensor, int *rank, int64_t *dims) STATUS_CHECK;
static inline bool dim_matches(int64_t a, int64_t b) {
  return a == b || a == DIM_UNKNOWN || b == DIM_UNKNOWN;
}

/* Resolves the start and stop of a Slice over a dimension of `size` elements, as torch does. */
void slice_bounds(int64_t size, int64_t start, bool has_stop, int64_t stop, int64_t *first,
                  int64_t *last);

/* One row per kind of elementwise step, generated from ops/elementwise.tsv
 * (build/gen/steps_table.c). */
typedef enum step_result { STEP_SAME, STEP_BOOL, STEP_CAST, STEP_WHERE } step_result;
typedef struct step_info {
  const char *name;
  int arity;
  step_result result;
  bool accepts_float, accepts_int, accepts_bool;
  bool divides;   /* true if an integer operand b of zero is an error */
  const char *cl; /* OpenCL C expression over a, b, c of type real */
} step_info;
extern const step_info step_table[IR_STEP_KIND_COUNT];
enum { MAX_STEPS = 64, MAX_STEP_INPUTS = 8, MAX_STEP_ARITY = 3 };

#include "op_rules.h" /* generated: rule_<op>() and view_<op>() of every op */

#endif
