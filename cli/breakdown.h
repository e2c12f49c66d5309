#ifndef CLI_BREAKDOWN_H
#define CLI_BREAKDOWN_H
/* Where the time of a run goes: node by node what was done, how long it took, and how long the
 * device would have needed at its peaks. */
#include "clave_host.h"
#include "cli/inputs.h"
#include "json/writer.h"

/* A node on a device, in all its executions of a run; or copies, or transfers, for it. */
typedef struct work_row {
  clave_timing_kind kind;
  uint32_t node;
  char *op, *name, *device, *shapes; /* owned; shapes: of the first execution */
  clave_dtype dtype;
  bool shapes_vary;
  uint32_t count;                /* executions, as the following of the last run */
  double flops, bytes;           /* flops < 0: not known */
  double compute, memory, limit; /* ns at the device's peaks; limit: the larger one of each
                                    execution */
  double ns;                     /* median of the runs */
  double *times;                 /* owned (n_runs) */
} work_row;

typedef struct breakdown {
  work_row *rows; /* owned, the longest first */
  uint32_t n_rows, n_runs;
  size_t capacity;
  double *gaps;          /* owned (n_runs) ns of a run in which no device is known to work */
  double *runs;          /* owned (n_runs) ns of it by the clock */
  double between, total; /* ns: the gaps' median; of all that, which the rows add up to */
  double clock;          /* ns: the runs' median, longer where rows were disturbed in turns */
  clave_peak *peaks;     /* owned; of the devices and dtypes that rows have */
  size_t n_peaks, cap_peaks;
} breakdown;

/* Runs model's method in a session of its own, which model has from then on. profile: a file for
 * the last run's trace, or NULL. On failure, too, free_breakdown is to be called. */
int measure_breakdown(model *model, const input_set *inputs, int64_t runs, int64_t warmup,
                      const char *profile, breakdown *out) CHECK;
void free_breakdown(breakdown *breakdown);

/* Rows of one op on one device as one row, whose count is that of all; the longest first. Its texts
 * are borrowed; to be freed. NULL: no memory. */
work_row *group_by_op(const breakdown *breakdown, uint32_t *count);

/* Of FLOP: GFLOP/s, of bytes: GB/s; 0 where there is no time. */
double rate_of(double work, double ns);
double percent_of_limit(const work_row *row); /* 0: no peak is known */
bool is_compute_bound(const work_row *row);

/* nodes: how many are listed. */
int write_breakdown(const breakdown *breakdown, int64_t nodes, page *out) CHECK;
int write_breakdown_json(const breakdown *breakdown, json_writer *writer) CHECK;
/* Dots under the devices' roofs. */
int write_roofline(const breakdown *breakdown, const char *title, page *out) CHECK;

#endif
