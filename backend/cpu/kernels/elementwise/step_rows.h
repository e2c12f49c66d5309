#ifndef BACKEND_CPU_KERNELS_ELEMENTWISE_STEP_ROWS_H
#define BACKEND_CPU_KERNELS_ELEMENTWISE_STEP_ROWS_H
/* Runs lists of elementwise steps over ranges of their result, block by block, with one row buffer
 * per value. Used by the kernels of elementwise.h, and by kernels that apply an epilogue to what
 * they just stored. The steps and their expressions come from ops/elementwise.tsv through the
 * generated steps.def. */
#include "backend/cpu/kernels/support/rows.h"
#include "steps.def"

/* Kinds of steps by the class of the operands. */
#define FLOAT_STEP_ENTRY(NAME, name, arity, result, expression) FLOAT_STEP_##NAME,
#define INT_STEP_ENTRY(NAME, name, arity, result, expression) INT_STEP_##NAME,
enum { STEPS_FLOAT(FLOAT_STEP_ENTRY) FLOAT_STEP_COUNT };
enum { STEPS_INT(INT_STEP_ENTRY) INT_STEP_COUNT };

enum { ELEMENTWISE_INPUTS = 8, ELEMENTWISE_STEPS = 64, STEP_ARITY = 3 };

typedef enum kstep_source { KSTEP_INPUT, KSTEP_STEP, KSTEP_CONSTANT } kstep_source;
typedef struct kstep_operand {
  uint8_t source; /* kstep_source */
  uint8_t index;  /* index of the input, of the step, or of the constant, counted over all steps */
} kstep_operand;
typedef union kstep_constant {
  int64_t i; /* value of an integer operand, or of the condition of a where */
  double f;  /* for a float operand */
} kstep_constant;

typedef enum kstep_role { KSTEP_MAP, KSTEP_BOOL, KSTEP_WHERE, KSTEP_CAST } kstep_role;
typedef struct kstep {
  uint8_t role; /* kstep_role */
  uint8_t
      kind; /* FLOAT_STEP_* or INT_STEP_*, by the class of operand_type; unused by where and cast */
  uint8_t divides;      /* a zero in operand 1, an integer, is a fault */
  uint8_t operand_type; /* dtype of the operands; of where: of the last two */
  uint8_t type;         /* dtype of the result */
  uint8_t arity;
  kstep_operand operands[STEP_ARITY];
  kstep_constant constants[STEP_ARITY]; /* values of operands that are constants */
} kstep;

/* out: (n), contiguous, of the last step's type, or F32 that is stored as BF16 (bf16.h). */
typedef struct elementwise_head {
  int n_inputs, n_steps, n_constants;
  int64_t n;
  void *out;
  dtype out_type; /* as stored */
} elementwise_head;

/* An input has the shape of out, but its dims may be merged differently. */
typedef struct elementwise_args {
  elementwise_head head;
  ktensor inputs[ELEMENTWISE_INPUTS];
  kstep steps[ELEMENTWISE_STEPS];
} elementwise_args;
/* Arguments of nodes with few inputs and steps, which are the most frequent. They have a quarter of
 * the bytes. */
enum { SHORT_INPUTS = 3, SHORT_STEPS = 8 };
typedef struct short_elementwise_args {
  elementwise_head head;
  ktensor inputs[SHORT_INPUTS];
  kstep steps[SHORT_STEPS];
} short_elementwise_args;

/* A list and how it is run. */
typedef struct step_list {
  const elementwise_head *head;
  const ktensor *inputs;
  const kstep *steps;
  int block;       /* elements of a row buffer, at most ROW_BLOCK */
  uint32_t floats; /* bit k is set if input k, of small integers, is read as floats */
} step_list;

/* Returns a list of head->n_steps steps that runs in blocks of `block` elements. */
step_list step_list_of(const elementwise_head *head, const ktensor *inputs, const kstep *steps,
                       int block);
/* Returns the bytes of the row buffers of a thread: one for each input, step and constant. */
size_t step_slots_bytes(const elementwise_head *head, int block);
/* Writes the constants into a thread's row buffers. */
void step_slots_fill(const step_list *list, char *slots);
/* Computes elements [at, at + n) of the result. */
void step_rows_run(const step_list *list, kernel_fault *fault, char *slots, int64_t at, int64_t n);

/* Maximum number of inputs, steps and constants of a list that runs with buffers on the stack. */
enum { STACK_SLOTS = 8 };
/* Applies a kernel's epilogue in place to `rows` rows of n elements. The first row begins at
 * `values` with element `at` of the result; the next rows follow at a distance of `pitch` elements.
 * Input 0 is the elements themselves, in F32, as is the result; `out` is not read. The list must
 * not divide integers. An empty list does nothing. */
void steps_in_place(const short_elementwise_args *args, float *values, int64_t at, int64_t n,
                    int64_t rows, int64_t pitch);

#endif
