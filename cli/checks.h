#ifndef CLI_CHECKS_H
#define CLI_CHECKS_H
/* Small test programs with inputs, one op each, for every family of kernels. `clave doctor` runs
 * them on a device and on the CPU backend. */
#include <stddef.h>

#include "clave.h"
#include "cli/report.h"

/* fields are separated by blanks and use the names of docs/reference/ops.md:
 *
 *   x=f32[2,3]      an input: floats in [-1, 1), integers in [0, 8); i64[4]<5: in [0, 5);
 *                   a&b: a list of inputs
 *   w=f32[2,3]!     the same as a constant
 *   w=Q8_0[4,64]    a constant of that encoding, decoded to f32
 *   out>f32[2,3]    an output
 *   axis=-1 eps=1e-5. kind=:mean keepdim=true stride=(1,2) shape={2,3}
 *                   an integer, a number (with a point), an enum, a bool, [int], [IntOrVid]
 *   steps=mul:f32:0,1  an elementwise step on inputs 0 and 1; unary: exp:f32:0 */
typedef struct check_row {
  const char *family, *op, *fields;
  bool exact; /* results must have the same bits on every device */
} check_row;

extern const check_row check_rows[];
extern const size_t n_check_rows;

enum { CHECK_MAX_OPERANDS = 10 };

/* A row as a program "check" with its inputs; `memory` owns their data. */
typedef struct check_program {
  clave_program *program;
  clave_tensor inputs[CHECK_MAX_OPERANDS];
  uint32_t n_inputs, n_outputs;
  void *memory[CHECK_MAX_OPERANDS];
  uint32_t n_memory;
} check_program;

/* Sets *status to the library's status for the program; the caller frees it. Returns an exit status
 * if out of memory. */
int check_program_make(const check_row *row, check_program *out, clave_status *status) CHECK;
void check_program_free(check_program *program); /* accepts a partly made program */

#endif
