/* Sums profiled runs node by node, and measures the peaks of the devices used. */
#include "cli/breakdown.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure.h"
#include "cli/progress.h"
#include "cli/speeds.h"

/* ---------------------------------------------------------------- rows */

static void free_row(const work_row *row) {
  free(row->op);
  free(row->name);
  free(row->device);
  free(row->shapes);
  free(row->times);
}

void free_breakdown(breakdown *report) {
  for (uint32_t i = 0; i < report->n_rows; i++) free_row(&report->rows[i]);
  free(report->rows);
  free(report->gaps);
  free(report->runs);
  free(report->peaks);
  *report = (breakdown){0};
}

typedef struct interval {
  double start, end; /* ns */
} interval;

/* State while a run is added. */
typedef struct collector {
  breakdown *breakdown;
  uint32_t run, guess; /* guess: the next row if this run has the order of the previous one */
  interval *busy;      /* owned; unsorted intervals in which a device was busy */
  size_t n_busy, cap_busy;
  bool no_memory;
} collector;

static bool breakdown_is_row_of(const work_row *row, const clave_timing *timing) {
  return row->kind == timing->kind && row->node == timing->node &&
         strcmp(row->device, timing->device) == 0;
}

static work_row *add_row(breakdown *breakdown, const clave_timing *timing) {
  if (!array_reserve(&breakdown->rows, &breakdown->capacity, (size_t)breakdown->n_rows + 1,
                     sizeof *breakdown->rows))
    return NULL;
  work_row *row = &breakdown->rows[breakdown->n_rows];
  *row = (work_row){.kind = timing->kind,
                    .node = timing->node,
                    .dtype = timing->dtype,
                    .op = strdup(timing->op),
                    .name = strdup(timing->name),
                    .device = strdup(timing->device),
                    .shapes = strdup(timing->shapes),
                    .times = calloc(breakdown->n_runs, sizeof *row->times)};
  if (row->op && row->name && row->device && row->shapes && row->times) {
    breakdown->n_rows++;
    return row;
  }
  free_row(row);
  return NULL;
}

static work_row *breakdown_find_row(collector *collector, const clave_timing *timing) {
  breakdown *breakdown = collector->breakdown;
  for (uint32_t i = 0; i < breakdown->n_rows; i++) {
    const uint32_t at = (collector->guess + i) % breakdown->n_rows;
    if (!breakdown_is_row_of(&breakdown->rows[at], timing)) continue;
    collector->guess = at + 1;
    return &breakdown->rows[at];
  }
  return add_row(breakdown, timing);
}

static void add_timing(void *ctx, const clave_timing *timing) {
  collector *collector = ctx;
  work_row *row = collector->no_memory ? NULL : breakdown_find_row(collector, timing);
  const interval busy = {(double)timing->start_ns, (double)timing->end_ns};
  if (!row ||
      !array_reserve(&collector->busy, &collector->cap_busy, collector->n_busy + 1, sizeof busy)) {
    collector->no_memory = true;
    return;
  }
  collector->busy[collector->n_busy++] = busy;
  row->times[collector->run] += busy.end - busy.start;
  row->shapes_vary |= strcmp(row->shapes, timing->shapes) != 0;
  row->count++;
  row->flops = timing->flops < 0 || row->flops < 0 ? -1 : row->flops + timing->flops;
  row->bytes += timing->bytes;
  row->compute += timing->compute_ns;
  row->memory += timing->memory_ns;
  row->limit += fmax(timing->compute_ns, timing->memory_ns);
}

static int compare_starts(const void *left, const void *right) {
  const interval *a = left, *b = right;
  return (a->start > b->start) - (a->start < b->start);
}

/* Returns the ns in which at least one device was busy. Sorts the intervals. */
static double busy_time(interval *all, size_t n) {
  double sum = 0, until = 0;
  if (n) qsort(all, n, sizeof *all, compare_starts);
  for (size_t i = 0; i < n; i++) {
    if (all[i].end > until) sum += all[i].end - fmax(all[i].start, until);
    until = fmax(until, all[i].end);
  }
  return sum;
}

/* Resets the fields that describe the last run only, because runs whose nodes depend on data
 * differ. */
static void begin_run(const breakdown *breakdown) {
  for (uint32_t i = 0; i < breakdown->n_rows; i++) {
    work_row *row = &breakdown->rows[i];
    row->count = 0;
    row->flops = row->bytes = row->compute = row->memory = row->limit = 0;
  }
}

/* ---------------------------------------------------------------- runs */

static int breakdown_run_once(const model *model, const input_set *inputs, double *ms) {
  TRY_STATUS(clave_session_reset(model->session));
  TRY_EXIT(set_inputs(inputs, model));
  const double start = read_clock();
  TRY_STATUS(clave_session_run(model->session, model->method.name));
  *ms = read_clock() - start;
  return EXIT_GOOD;
}

static int add_run(const model *model, const input_set *inputs, uint32_t run, breakdown *out) {
  double ms;
  collector collector = {.breakdown = out, .run = run};
  TRY_EXIT(breakdown_run_once(model, inputs, &ms));
  begin_run(out);
  clave_status status = clave_session_timings(model->session, add_timing, &collector);
  out->runs[run] = ms * 1e6;
  out->gaps[run] = fmax(0, ms * 1e6 - busy_time(collector.busy, collector.n_busy));
  free(collector.busy);
  TRY_STATUS(status);
  return collector.no_memory ? fail_memory() : EXIT_GOOD;
}

static int compare_rows(const void *left, const void *right) {
  const work_row *a = left, *b = right;
  if (a->ns != b->ns) return a->ns < b->ns ? 1 : -1;
  if (a->node != b->node) return a->node < b->node ? -1 : 1;
  return (int)a->kind - (int)b->kind;
}

/* Takes medians, so that a single disturbed run has no effect. The total is the sum of the medians.
 */
static void sum_up(breakdown *breakdown) {
  breakdown->clock = sort_to_median(breakdown->runs, breakdown->n_runs);
  breakdown->total = breakdown->between = sort_to_median(breakdown->gaps, breakdown->n_runs);
  for (uint32_t i = 0; i < breakdown->n_rows; i++) {
    breakdown->rows[i].ns = sort_to_median(breakdown->rows[i].times, breakdown->n_runs);
    breakdown->total += breakdown->rows[i].ns;
  }
  if (breakdown->n_rows)
    qsort(breakdown->rows, breakdown->n_rows, sizeof *breakdown->rows, compare_rows);
}

/* ---------------------------------------------------------------- peaks */

/* Writes a spec for clave_device_open that selects the device of this name. */
static int find_spec(const char *name, char *out, size_t size) {
  int n;
  TRY_STATUS(clave_devices_count(&n));
  (void)snprintf(out, size, "cpu");
  for (int i = 0; i < n; i++) {
    clave_device_info info = {.size = sizeof info};
    TRY_STATUS(clave_devices_get(i, &info));
    if (strcmp(info.name, name) != 0 || info.index < 0) continue;
    (void)snprintf(out, size, "opencl:%d", info.index);
    break;
  }
  return EXIT_GOOD;
}

static int measure_on(const model *model, const char *name, clave_dtype dtype, double *bandwidth,
                      clave_peak *out) {
  char spec[32];
  clave_device *device = NULL;
  if (strcmp(name, model->device_info.name) == 0)
    return measure_peak_of(model->device, name, dtype, bandwidth, out);
  TRY_EXIT(find_spec(name, spec, sizeof spec));
  TRY_STATUS(clave_device_open(spec, NULL, &device));
  const int code = measure_peak_of(device, name, dtype, bandwidth, out);
  clave_device_destroy(device);
  return code;
}

/* Measures the peak of a device for a dtype at the first call. A peak that cannot be measured is
 * stored as 0. Reuses the device's bandwidth. */
static int need_peak(const model *model, const char *device, clave_dtype dtype,
                     breakdown *breakdown) {
  double bandwidth = 0;
  for (size_t i = 0; i < breakdown->n_peaks; i++) {
    if (strcmp(breakdown->peaks[i].device, device) != 0) continue;
    if (breakdown->peaks[i].dtype == dtype) return EXIT_GOOD;
    bandwidth = breakdown->peaks[i].bytes_a_second;
  }
  if (!array_reserve(&breakdown->peaks, &breakdown->cap_peaks, breakdown->n_peaks + 1,
                     sizeof *breakdown->peaks))
    return fail_memory();
  clave_peak *peak = &breakdown->peaks[breakdown->n_peaks];
  TRY_EXIT(measure_on(model, device, dtype, &bandwidth, peak));
  breakdown->n_peaks++;
  return EXIT_GOOD;
}

/* Drops dtypes that a device cannot multiply, but keeps F32, which carries the bandwidth. */
static void drop_unknown_peaks(breakdown *breakdown) {
  size_t kept = 0;
  for (size_t i = 0; i < breakdown->n_peaks; i++)
    if (breakdown->peaks[i].flops_a_second > 0 || breakdown->peaks[i].dtype == CLAVE_F32)
      breakdown->peaks[kept++] = breakdown->peaks[i];
  breakdown->n_peaks = kept;
}

static bool has_product(clave_dtype dtype) {
  for (size_t i = 0; i < n_product_rows; i++)
    if (product_rows[i].dtype == dtype) return true;
  return false;
}

/* Measures the peak of F32 for every device; dtypes without products use it, too. */
static int measure_peaks(const model *model, breakdown *breakdown) {
  show_progress("measuring the device");
  for (uint32_t i = 0; i < breakdown->n_rows; i++) {
    const work_row *row = &breakdown->rows[i];
    TRY_EXIT(need_peak(model, row->device, CLAVE_F32, breakdown));
    if (row->kind == CLAVE_TIMING_NODE && row->flops > 0 && has_product(row->dtype))
      TRY_EXIT(need_peak(model, row->device, row->dtype, breakdown));
  }
  drop_unknown_peaks(breakdown);
  TRY_STATUS(clave_session_set_peaks(model->session, breakdown->peaks, breakdown->n_peaks));
  clear_progress();
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- measuring */

static int breakdown_run_all(model *model, const input_set *inputs, int64_t warmup,
                             breakdown *out) {
  double ignored;
  show_progress("running");
  for (int64_t i = 0; i < warmup || i < 1; i++)
    TRY_EXIT(breakdown_run_once(model, inputs, &ignored));
  TRY_EXIT(add_run(model, inputs, 0, out)); /* finds the devices and dtypes */
  TRY_EXIT(measure_peaks(model, out));
  show_progress("running");
  for (uint32_t i = 0; i < out->n_rows; i++) out->rows[i].times[0] = 0;
  for (uint32_t i = 0; i < out->n_runs; i++) TRY_EXIT(add_run(model, inputs, i, out));
  clear_progress();
  return EXIT_GOOD;
}

int measure_breakdown(model *model, const input_set *inputs, int64_t runs, int64_t warmup,
                      const char *profile, breakdown *out) {
  *out = (breakdown){.n_runs = (uint32_t)runs,
                     .gaps = calloc((size_t)runs, sizeof *out->gaps),
                     .runs = calloc((size_t)runs, sizeof *out->runs)};
  if (!out->gaps || !out->runs) return fail_memory();
  clave_session_destroy(model->session);
  model->session = NULL;
  model->warm_up = CLAVE_WARM_UP_WAIT;
  TRY_EXIT(open_session(model, SESSION_PROFILED));
  TRY_EXIT(breakdown_run_all(model, inputs, warmup, out));
  sum_up(out);
  if (profile) TRY_STATUS(clave_session_write_profile(model->session, profile));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- groups */

static void add_to_group(work_row *group, const work_row *row) {
  group->count += row->count;
  group->flops = group->flops < 0 || row->flops < 0 ? -1 : group->flops + row->flops;
  group->bytes += row->bytes;
  group->compute += row->compute;
  group->memory += row->memory;
  group->limit += row->limit;
  group->ns += row->ns;
}

work_row *group_by_op(const breakdown *breakdown, uint32_t *count) {
  work_row *groups = calloc((size_t)breakdown->n_rows + 1, sizeof *groups);
  *count = 0;
  for (uint32_t i = 0; groups && i < breakdown->n_rows; i++) {
    const work_row *row = &breakdown->rows[i];
    uint32_t g = 0;
    while (g < *count &&
           (strcmp(groups[g].op, row->op) != 0 || strcmp(groups[g].device, row->device) != 0))
      g++;
    if (g == *count) {
      groups[(*count)++] = *row;
    } else {
      add_to_group(&groups[g], row);
    }
  }
  if (groups) qsort(groups, *count, sizeof *groups, compare_rows);
  return groups;
}

/* ---------------------------------------------------------------- rates */

double rate_of(double work, double ns) { return ns > 0 && work > 0 ? work / ns : 0; }

double percent_of_limit(const work_row *row) {
  return row->ns > 0 ? 100 * row->limit / row->ns : 0;
}

bool is_compute_bound(const work_row *row) { return row->compute > row->memory; }
