#ifndef BACKEND_OPENCL_LAUNCH_STEPS_H
#define BACKEND_OPENCL_LAUNCH_STEPS_H
/* Writes elementwise steps as OpenCL C. elementwise.c makes kernels of them; epilogue.c appends
 * them to the kernels of other ops. The text comes from the expressions of ops/elementwise.tsv.
 * Every step is rounded to its dtype, so fused and unfused steps produce the same bits. */
#include "backend/opencl/opencl.h"
#include "ops/elementwise.h"

/* Maximum count of numbers passed as arguments; further immediates are written into the source. */
enum { MAX_NUMBERS = 24 };

typedef enum inner_stride { INNER_ZERO, INNER_ONE, INNER_ANY } inner_stride;

/* The names of a kernel's parameters, by input or number; all are string literals. */
typedef struct step_names {
  const char *dims;
  const char *inputs[MAX_STEP_INPUTS], *offsets[MAX_STEP_INPUTS], *strides[MAX_STEP_INPUTS];
  const char *numbers[MAX_NUMBERS];
} step_names;
extern const step_names elementwise_names, epilogue_names;

typedef struct steps_text {
  elementwise_desc desc;
  const step_names *names;
  int rank;                            /* rank of desc.shapes */
  inner_stride inner[MAX_STEP_INPUTS]; /* stride along the last dimension, if fixed */
  bool turned[MAX_STEP_INPUTS]; /* steps_write_tiles reads the input by tiles; set by the caller */
  const elementwise_operand *numbers[MAX_NUMBERS]; /* borrowed from desc */
  int n_numbers;
} steps_text;

/* Calls describe_epilogue, and sets the result's slot to RESULT_SLOT if its dtype differs. */
bool describe_own_epilogue(const node *node, elementwise_desc *desc);
/* Fills in all but desc, names and turned. Fails on more than MAX_NUMBERS host scalars. */
clave_status steps_plan(steps_text *text) STATUS_CHECK;
/* True if a step divides integers: the kernel then needs FAULT_PARAMS. */
bool steps_divide(const steps_text *text);
/* True if input 0 is an op's result whose dtype differs from that of out. */
bool steps_change_dtype(const steps_text *text);
/* True if the kernel has a parameter for the strides of an input. */
bool steps_need_strides(const steps_text *text, int input);
/* Encodes all of `inner` in one number. */
int steps_inner_code(const steps_text *text);

/* steps_list_inputs appends the parameters of dims, if the rank is above 1, and of the inputs from
 * number `first` on; steps_list_numbers those of the numbers. Both advance *count. */
void steps_list_inputs(const steps_text *text, int first, arg_info *args, int *count);
void steps_list_numbers(const steps_text *text, arg_info *args, int *count);
void steps_push_inputs(const steps_text *text, int first, launch *launch);
void steps_push_numbers(const steps_text *text, launch *launch);

/* Writes the #include lines that the steps need. */
void steps_include(const steps_text *steps_text, text *text);
/* Defines v<input> as the element of `pointer` at index `at`. */
void steps_write_load(const steps_text *steps_text, text *text, int input, const char *pointer,
                      const char *at);
/* Defines s0, s1, ... from v0, v1, ... */
void steps_write(const steps_text *steps_text, text *text);
/* Writes a loop over n neighbours of out from y on, which have index `first` and following in out.
 * The compiler may vectorise it. If first_input is 1, input 0 is y or, if its dtype differs, `from`
 * in private memory. */
void steps_write_lines(const steps_text *steps_text, text *text, int first_input);
/* Writes code for one block of out, number `item`: `each` neighbours of 16 lines. Some inputs are
 * transposed in tiles (kernels_cl/support/turned.h). */
void steps_write_tiles(const steps_text *steps_text, text *text);
/* True if an input is F32 and contiguous along the second innermost dimension. */
bool steps_can_turn(const steps_text *text, int input);

#endif
