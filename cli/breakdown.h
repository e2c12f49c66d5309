#ifndef CLI_BREAKDOWN_H
#define CLI_BREAKDOWN_H
/* Time breakdown of a run: for each node the work it did, how long it took, and how long the device
 * would need at its peaks. */
#include "clave_host.h"
#include "cli/inputs.h"
#include "json/writer.h"

/* All executions of a node on one device in a run, or the copies or transfers made for it. */
typedef struct work_row {
  clave_timing_kind kind;
  uint32_t node;
  char *op, *name, *device, *shapes; /* owned; shapes: of the first execution */
  clave_dtype dtype;
  bool shapes_vary;
  uint32_t count;      /* executions; this member and the next ones describe the last run */
  double flops, bytes; /* flops < 0: unknown */
  double compute, memory, limit; /* ns at the device's peaks; limit: sum of the larger */
  double ns;                     /* median of the runs */
  double *times;                 /* owned (n_runs); ns */
} work_row;

typedef struct breakdown {
  work_row *rows; /* owned; longest first */
  uint32_t n_rows, n_runs;
  size_t capacity;
  double *gaps;          /* owned (n_runs); ns per run in which no device is known to be busy */
  double *runs;          /* owned (n_runs); wall time of a run in ns */
  double between, total; /* ns; median of the gaps, and the sum of all rows and gaps */
  double clock;      /* ns; median of `runs`, which exceeds the total if different runs disturbed
                        different rows */
  clave_peak *peaks; /* owned; one for each device and dtype in rows */
  size_t n_peaks, cap_peaks;
} breakdown;

/* Runs the model's method in a new session, which replaces the model's. profile: file for a trace
 * of the last run, or NULL. Call free_breakdown even on failure. */
int measure_breakdown(model *model, const input_set *inputs, int64_t runs, int64_t warmup,
                      const char *profile, breakdown *out) CHECK;
void free_breakdown(breakdown *breakdown);

/* Merges the rows of each op and device into one row with the total count, longest first. The
 * caller frees the array; its texts are borrowed. Returns NULL if out of memory. */
work_row *group_by_op(const breakdown *breakdown, uint32_t *count);

/* Converts FLOP to GFLOP/s, or bytes to GB/s. Returns 0 if ns is 0. */
double rate_of(double work, double ns);
double percent_of_limit(const work_row *row); /* 0: peak unknown */
bool is_compute_bound(const work_row *row);

/* nodes: number of nodes to list */
int write_breakdown(const breakdown *breakdown, int64_t nodes, page *out) CHECK;
int write_breakdown_json(const breakdown *breakdown, json_writer *writer) CHECK;
/* Draws one point per node under the rooflines of the devices. */
int write_roofline(const breakdown *breakdown, const char *title, page *out) CHECK;

#endif
