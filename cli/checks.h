#ifndef CLI_CHECKS_H
#define CLI_CHECKS_H
/* Small programs of one op each, of every family of kernels, with inputs: what `clave doctor` runs
 * on a device and on the CPU backend. */
#include <stddef.h>

#include "clave.h"
#include "cli/report.h"

/* fields, separated by blanks, in docs/ops.md's words:
 *
 *   x=f32[2,3]      an input of numbers in [-1, 1), of integers in [0, 8); i64[4]<5: in [0, 5);
 *                   a&b: of a list
 *   w=f32[2,3]!     the same as a constant
 *   w=Q8_0[4,64]    a constant of that encoding, decoded to f32
 *   out>f32[2,3]    an output
 *   axis=-1 eps=1e-5. kind=:mean keepdim=true stride=(1,2) shape={2,3}
 *                   an integer, a number (with a point), an enum, a bool, [int], [IntOrVid]
 *   steps=mul:f32:0,1  a step over inputs; of one input: exp:f32:0 */
typedef struct check_row {
  const char *family, *op, *fields;
  bool exact; /* the same bits on every device */
} check_row;

extern const check_row check_rows[];
extern const size_t n_check_rows;

enum { CHECK_MAX_OPERANDS = 10 };

/* A row as a program "check" and its inputs, whose data are owned by `memory`. */
typedef struct check_program {
  clave_program *program;
  clave_tensor inputs[CHECK_MAX_OPERANDS];
  uint32_t n_inputs, n_outputs;
  void *memory[CHECK_MAX_OPERANDS];
  uint32_t n_memory;
} check_program;

/* status: what the library says to the program, to be freed. An exit status where there is no
 * memory. */
int check_program_make(const check_row *row, check_program *out, clave_status *status) CHECK;
void check_program_free(check_program *program); /* takes what failed to be made */

#endif
