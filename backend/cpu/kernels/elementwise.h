#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_H
/* Lists of elementwise steps, run block by block with one row buffer per value. The steps and their
 * expressions come from ops/elementwise.tsv through the generated steps.def. */
#include "backend/cpu/kernels/rows.h"
#include "steps.def"

/* Step kinds by the class of the operands. */
#define FLOAT_STEP_ENTRY(NAME, name, arity, result, expression) FLOAT_STEP_##NAME,
#define INT_STEP_ENTRY(NAME, name, arity, result, expression) INT_STEP_##NAME,
enum { STEPS_FLOAT(FLOAT_STEP_ENTRY) FLOAT_STEP_COUNT };
enum { STEPS_INT(INT_STEP_ENTRY) INT_STEP_COUNT };

enum { ELEMENTWISE_INPUTS = 8, ELEMENTWISE_STEPS = 64, STEP_ARITY = 3 };

typedef enum step_source { STEP_FROM_INPUT, STEP_FROM_STEP, STEP_FROM_CONSTANT } step_source;
typedef struct step_operand {
  step_source source;
  int index; /* of the input, the step, or the constant (each has its own, counted from 0 over all
                steps) */
  int64_t i; /* a constant, for integer operands */
  double f;  /* the same, for float operands */
} step_operand;

typedef enum step_form { STEP_FORM_MAP, STEP_FORM_BOOL, STEP_FORM_WHERE, STEP_FORM_CAST } step_form;
typedef struct step_node {
  step_form form;
  int kind; /* FLOAT_STEP_* or INT_STEP_*, by the class of operand_type; unused by where and cast */
  bool divides;       /* an integer operand 1 of zero is a fault */
  dtype operand_type; /* of the operands; of where: of the last two */
  dtype type;         /* of the result */
  int arity;
  step_operand operands[STEP_ARITY];
} step_node;

typedef struct elementwise {
  int n_inputs, n_steps, n_constants;
  ktensor inputs[ELEMENTWISE_INPUTS]; /* each has out's elements in row-major order, however its
                                         dims are merged */
  step_node steps[ELEMENTWISE_STEPS];
  void *out; /* (n), of the last step's type */
  int64_t n;
} elementwise;

/* False when scratch memory is out. */
bool kernel_elementwise(const kernel_context *ctx, const elementwise *e);

#endif
