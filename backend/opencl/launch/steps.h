#ifndef BACKEND_OPENCL_LAUNCH_STEPS_H
#define BACKEND_OPENCL_LAUNCH_STEPS_H
/* Elementwise steps as OpenCL C: what elementwise.c makes kernels of, and epilogue.c the last part
 * of other ops' kernels. The text comes from the expressions of ops/elementwise.tsv; every step is
 * rounded to its dtype, so fused or not gives the same bits. */
#include "backend/opencl/opencl.h"
#include "ops/elementwise.h"

/* Numbers passed as arguments; the immediates beyond are written into the source. */
enum { MAX_NUMBERS = 24 };

typedef enum inner_stride { INNER_ZERO, INNER_ONE, INNER_ANY } inner_stride;

/* What the parameters are called; all are string literals. */
typedef struct step_names {
  const char *dims;
  const char *inputs[MAX_STEP_INPUTS], *offsets[MAX_STEP_INPUTS], *strides[MAX_STEP_INPUTS];
  const char *numbers[MAX_NUMBERS];
} step_names;
extern const step_names elementwise_names, epilogue_names;

typedef struct steps_text {
  elementwise_form desc;
  const step_names *names;
  int rank;                            /* of f.shapes */
  inner_stride inner[MAX_STEP_INPUTS]; /* along the last dimension, known to the compiler */
  bool turned[MAX_STEP_INPUTS];        /* steps_write_tiles reads it by tiles; set by the caller */
  const elementwise_operand *numbers[MAX_NUMBERS]; /* of f */
  int n_numbers;
} steps_text;

/* describe_epilogue, with the result in RESULT_SLOT where it is of another dtype. */
bool describe_own_epilogue(const node *node, elementwise_form *desc);
/* Fills in all but f, names and turned. */
clave_status steps_plan(steps_text *text) STATUS_CHECK;
bool steps_divide(const steps_text *text); /* integers: the kernel has FAULT_PARAMS */
/* Whether input 0 is an op's result of another dtype than out. */
bool steps_change_dtype(const steps_text *text);
/* Whether the kernel has the strides of an input. */
bool steps_take_strides(const steps_text *text, int input);
/* One number for all of `inner`. */
int steps_inner_code(const steps_text *text);

/* The parameters of dims, if there are several, and of the inputs from number `first` on; of the
 * numbers. args[*count] is the next. */
void steps_list_inputs(const steps_text *text, int first, arg_info *args, int *count);
void steps_list_numbers(const steps_text *text, arg_info *args, int *count);
void steps_push_inputs(const steps_text *text, int first, launch *launch);
void steps_push_numbers(const steps_text *text, launch *launch);

/* The headers that the steps need. */
void steps_include(const steps_text *steps_text, text *text);
/* Definition and value of v<input>, read at the index `at` of `pointer`. */
void steps_write_load(const steps_text *steps_text, text *text, int input, const char *pointer,
                      const char *at);
/* Definitions of s0, s1, ... out of v0, v1, ... */
void steps_write(const steps_text *steps_text, text *text);
/* A loop over n neighbours of out from y on, which is number `first` in out, in vectors where the
 * compiler can; first_input 1: y is input 0, too, or `from` is, in private memory, if it is of
 * another dtype. */
void steps_write_lines(const steps_text *steps_text, text *text, int first_input);
/* Those of out that are `each` neighbours of 16 lines, number `item` of such blocks, with some
 * inputs turned (kernels_cl/support/turned.h). */
void steps_write_tiles(const steps_text *steps_text, text *text);
/* Whether neighbours of an input of floats lie along the second dimension. */
bool steps_can_turn(const steps_text *text, int input);

#endif
