#ifndef OPS_OPS_H
#define OPS_OPS_H
/* Shape and dtype rules of every op: rule_<op>() in the family's file. A rule computes the types of
 * an op's outputs from those of its operands and compares them with what the program declares. The
 * verifier runs it with unknown sizes (DIM_UNKNOWN), the planner again with the actual ones, so
 * nothing reaches a kernel unchecked.
 *
 * Views have in addition view_<op>(): the output's strides and offset over the operand's storage.
 */
#include "base/status.h"
#include "ir.h" /* generated: structs, enums, descriptors */
#include "ops/tensor.h"

/* The value of a host scalar during rule evaluation. */
typedef struct scalar_value {
  bool known;
  ir_value_type type;
  int64_t i; /* int_ and bool_ */
  double f;  /* float_ */
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
  bool is_cpu; /* the CPU backend alone has it */
  bool moves;  /* its tensors may be of any dtype */
  op_rule rule;
  op_view view;          /* NULL unless is_view */
  const ir_table *table; /* descriptor of its fields */
} op_info;
extern const op_info op_table[IR_OP_COUNT];

/* Operands of an instruction, from the descriptor, in the schema's order; null ones are skipped:
 *   for (operand_iter i = operands_of(ins); next_operand(&i);) use(i.o.tid, i.o.flags); */
typedef struct operand {
  uint32_t tid;
  unsigned flags;     /* the field's IR_OUT, IR_DENSE, IR_ROWS, IR_ENCODED, IR_COUNTS */
  const char *field;  /* its name in the schema */
  uint32_t reuses;    /* outputs with `reuses`: the Tid of that operand, else IR_NONE */
  const uint32_t *at; /* where tid stands, in the op or its vector */
} operand;
typedef struct operand_iter {
  operand operand;
  const ir_instruction *ins;
  uint32_t field, item; /* what comes next: of the op's fields, of a vector's items */
} operand_iter;
static inline operand_iter operands_of(const ir_instruction *ins) {
  return (operand_iter){.ins = ins};
}
bool next_operand(operand_iter *iter); /* false: there are no more */
/* The first tensor that an instruction reads, or writes; IR_NONE. */
uint32_t first_slot(const ir_instruction *ins, bool written);
/* Calls visit for the values (Vids) it reads and writes, those nested in IntOrVid, FloatOrVid and
 * step operands included, until visit returns false; then that. */
bool for_each_value(const ir_instruction *ins, bool (*visit)(void *ctx, uint32_t vid, bool written),
                    void *ctx);

/* The chains that a control op runs, and how many those are. */
int control_chains(const ir_instruction *ins, uint32_t chains[2]);
bool is_loop(const ir_instruction *ins);                   /* it may run a chain again */
const ir_u32s *control_results(const ir_instruction *ins); /* of a control op with chains */

/* What the verifier calls for an instruction whose ids are all in range: operands are plain,
 * integer fields hold no float values, then the op's own rule and that of its epilogue. The caller
 * adds node and file to the error. */
clave_status rule_instruction(const rule_context *context, const ir_instruction *ins) STATUS_CHECK;
/* The last of these alone, again with other sizes. */
clave_status rule_sizes(const rule_context *context, const ir_instruction *ins) STATUS_CHECK;

/* ---- for rules ---- */
const tensor *rule_tensor(const rule_context *context, uint32_t tid);
/* A literal or a Vid's value; false if not known yet. */
bool rule_int(const rule_context *context, const ir_int_or_vid *value, int64_t *out);
/* `axis` counted from the end when negative; error unless in [-rank, rank). */
clave_status rule_axis(int64_t axis, int rank, int *out) STATUS_CHECK;
/* Error unless `tid` is declared as dtype and dims (unknown dims match). what: "out", ... */
clave_status rule_expect(const rule_context *context, uint32_t tid, const char *what, dtype type,
                         int rank, const int64_t *dims) STATUS_CHECK;
clave_status rule_expect_like(const rule_context *context, uint32_t tid, const char *what,
                              const tensor *want) STATUS_CHECK;
/* Broadcasts shape tensor into (rank, dims); error names both shapes. */
clave_status rule_broadcast(const tensor *tensor, int *rank, int64_t *dims) STATUS_CHECK;
static inline bool dim_matches(int64_t a, int64_t b) {
  return a == b || a == DIM_UNKNOWN || b == DIM_UNKNOWN;
}

/* The integer of a Slice: torch's normalisation of start and stop over a dimension of `size`. */
void slice_bounds(int64_t size, int64_t start, bool has_stop, int64_t stop, int64_t *first,
                  int64_t *last);

/* One row per elementwise step kind, generated from ops/elementwise.tsv (build/gen/steps_table.c).
 */
typedef enum step_result { STEP_SAME, STEP_BOOL, STEP_CAST, STEP_WHERE } step_result;
typedef struct step_info {
  const char *name;
  int arity;
  step_result result;
  bool takes_float, takes_int, takes_bool;
  bool divides;   /* an integer operand b of zero is an error */
  const char *cl; /* OpenCL C expression over a, b, c of type real */
} step_info;
extern const step_info step_table[IR_STEP_KIND_COUNT];
enum { MAX_STEPS = 64, MAX_STEP_INPUTS = 8, MAX_STEP_ARITY = 3 };

#include "op_rules.h" /* generated: rule_<op>() and view_<op>() of every op */

#endif
