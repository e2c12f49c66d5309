#ifndef CLI_SPEEDS_H
#define CLI_SPEEDS_H
/* What a device can do, measured by programs of one op: what a caller gets, and of kernels alone
 * how fast it moves bytes and multiplies. */
#include "clave_host.h"
#include "cli/checks.h"

/* A session of a row's program that has run once. */
clave_status run_check(const check_program *program, clave_device *device, bool profile,
                       clave_session **out) CLAVE_CHECK;

typedef struct speed_row {
  clave_dtype dtype; /* of what is multiplied and added */
  check_row row;
  double work; /* bytes that are moved, or operations */
} speed_row;
extern const speed_row bandwidth_row;  /* of floats that no cache holds */
extern const speed_row product_rows[]; /* the first is F32's; a dtype may have several */
extern const size_t n_product_rows;

/* Milliseconds of the best of a few runs. */
typedef struct run_time {
  double whole;   /* copies of inputs and outputs included */
  double kernels; /* by the device's clock */
} run_time;
/* status: what the library says of the row, to be freed. An exit status where there is no memory.
 */
int time_check(const check_row *row, clave_device *device, run_time *out,
               clave_status *status) CHECK;

/* The peak for a dtype by the rows of its own; .flops_a_second 0: it has none, or they do not run
 * on the device. *bandwidth: bytes a second, measured where it is 0. `name` is borrowed. */
int measure_peak_of(clave_device *device, const char *name, clave_dtype dtype, double *bandwidth,
                    clave_peak *out) CHECK;

#endif
