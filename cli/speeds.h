#ifndef CLI_SPEEDS_H
#define CLI_SPEEDS_H
/* Speeds of a device, measured by programs of one op: end-to-end speeds, and memory and multiply
 * rates of kernels alone. */
#include "clave_host.h"
#include "cli/checks.h"

/* Creates a session of the program and runs it once. */
clave_status run_check(const check_program *program, clave_device *device, bool profile,
                       clave_session **out) CLAVE_CHECK;

typedef struct speed_row {
  clave_dtype dtype; /* dtype of the operands */
  check_row row;
  double work; /* bytes moved, or operations */
} speed_row;
extern const speed_row bandwidth_row;  /* floats that exceed all caches */
extern const speed_row product_rows[]; /* the first row is for F32; a dtype may have several rows */
extern const size_t n_product_rows;

/* Milliseconds of the best of a few runs. */
typedef struct run_time {
  double whole;   /* including copies of inputs and outputs */
  double kernels; /* kernels only, by the device's clock */
} run_time;
/* Sets *status to the library's status for the row; the caller frees it. Returns an exit status if
 * out of memory. */
int time_check(const check_row *row, clave_device *device, run_time *out,
               clave_status *status) CHECK;

/* Measures the peak for a dtype by its rows; .flops_a_second is 0 if the dtype has no rows or the
 * device cannot run them. *bandwidth is in bytes per second, and is measured if it is 0. `name` is
 * borrowed. */
int measure_peak_of(clave_device *device, const char *name, clave_dtype dtype, double *bandwidth,
                    clave_peak *out) CHECK;

#endif
