/* Profiled runs, added up node by node, and the peaks of what they ran on. */
#include "cli/breakdown.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure.h"
#include "cli/progress.h"
#include "cli/speeds.h"

/* ---------------------------------------------------------------- rows */

static void free_row(const work_row *r) {
  free(r->op);
  free(r->name);
  free(r->device);
  free(r->shapes);
  free(r->times);
}

void free_breakdown(breakdown *b) {
  for (uint32_t i = 0; i < b->n_rows; i++) free_row(&b->rows[i]);
  free(b->rows);
  free(b->gaps);
  free(b->runs);
  free(b->peaks);
  *b = (breakdown){0};
}

typedef struct interval {
  double start, end; /* ns */
} interval;

/* A run that is being added. */
typedef struct collector {
  breakdown *b;
  uint32_t run, guess; /* guess: the row that comes next if this run goes as the last */
  interval *busy;      /* owned: when a device worked, in no order */
  size_t n_busy, cap_busy;
  bool no_memory;
} collector;

static bool is_of(const work_row *r, const clave_timing *t) {
  return r->kind == t->kind && r->node == t->node && strcmp(r->device, t->device) == 0;
}

static work_row *add_row(breakdown *b, const clave_timing *t) {
  if (!array_reserve(&b->rows, &b->capacity, (size_t)b->n_rows + 1, sizeof *b->rows)) return NULL;
  work_row *r = &b->rows[b->n_rows];
  *r = (work_row){.kind = t->kind,
                  .node = t->node,
                  .dtype = t->dtype,
                  .op = strdup(t->op),
                  .name = strdup(t->name),
                  .device = strdup(t->device),
                  .shapes = strdup(t->shapes),
                  .times = calloc(b->n_runs, sizeof *r->times)};
  if (r->op && r->name && r->device && r->shapes && r->times) {
    b->n_rows++;
    return r;
  }
  free_row(r);
  return NULL;
}

static work_row *find_row(collector *c, const clave_timing *t) {
  breakdown *b = c->b;
  for (uint32_t i = 0; i < b->n_rows; i++) {
    const uint32_t at = (c->guess + i) % b->n_rows;
    if (!is_of(&b->rows[at], t)) continue;
    c->guess = at + 1;
    return &b->rows[at];
  }
  return add_row(b, t);
}

static void add_timing(void *ctx, const clave_timing *t) {
  collector *c = ctx;
  work_row *r = c->no_memory ? NULL : find_row(c, t);
  const interval busy = {(double)t->start_ns, (double)t->end_ns};
  if (!r || !array_reserve(&c->busy, &c->cap_busy, c->n_busy + 1, sizeof busy)) {
    c->no_memory = true;
    return;
  }
  c->busy[c->n_busy++] = busy;
  r->times[c->run] += busy.end - busy.start;
  r->shapes_vary |= strcmp(r->shapes, t->shapes) != 0;
  r->count++;
  r->flops = t->flops < 0 || r->flops < 0 ? -1 : r->flops + t->flops;
  r->bytes += t->bytes;
  r->compute += t->compute_ns;
  r->memory += t->memory_ns;
  r->limit += fmax(t->compute_ns, t->memory_ns);
}

static int compare_starts(const void *a, const void *b) {
  const interval *x = a, *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

/* How long any device worked, in ns: two may at once. */
static double busy_time(interval *all, size_t n) {
  double sum = 0, until = 0;
  if (n) qsort(all, n, sizeof *all, compare_starts);
  for (size_t i = 0; i < n; i++) {
    if (all[i].end > until) sum += all[i].end - fmax(all[i].start, until);
    until = fmax(until, all[i].end);
  }
  return sum;
}

/* Runs do the same but for what data decides: what is told is the last one's. */
static void begin_run(const breakdown *b) {
  for (uint32_t i = 0; i < b->n_rows; i++) {
    work_row *r = &b->rows[i];
    r->count = 0;
    r->flops = r->bytes = r->compute = r->memory = r->limit = 0;
  }
}

/* ---------------------------------------------------------------- runs */

static int run_once(const model *m, const input_set *inputs, double *ms) {
  TRY_STATUS(clave_session_reset(m->session));
  TRY_EXIT(set_inputs(inputs, m));
  const double start = read_clock();
  TRY_STATUS(clave_session_run(m->session, m->method.name));
  *ms = read_clock() - start;
  return EXIT_GOOD;
}

static int add_run(const model *m, const input_set *inputs, uint32_t run, breakdown *out) {
  double ms;
  collector c = {.b = out, .run = run};
  TRY_EXIT(run_once(m, inputs, &ms));
  begin_run(out);
  clave_status status = clave_session_timings(m->session, add_timing, &c);
  out->runs[run] = ms * 1e6;
  out->gaps[run] = fmax(0, ms * 1e6 - busy_time(c.busy, c.n_busy));
  free(c.busy);
  TRY_STATUS(status);
  return c.no_memory ? fail_memory() : EXIT_GOOD;
}

static int compare_rows(const void *a, const void *b) {
  const work_row *x = a, *y = b;
  if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
  if (x->node != y->node) return x->node < y->node ? -1 : 1;
  return (int)x->kind - (int)y->kind;
}

/* Medians, so that a run that waited counts nowhere; they add up to the whole by what it is. */
static void sum_up(breakdown *b) {
  b->clock = sort_to_median(b->runs, b->n_runs);
  b->total = b->between = sort_to_median(b->gaps, b->n_runs);
  for (uint32_t i = 0; i < b->n_rows; i++) {
    b->rows[i].ns = sort_to_median(b->rows[i].times, b->n_runs);
    b->total += b->rows[i].ns;
  }
  if (b->n_rows) qsort(b->rows, b->n_rows, sizeof *b->rows, compare_rows);
}

/* ---------------------------------------------------------------- peaks */

/* A spec for clave_device_open of the device by this name. */
static int find_spec(const char *name, char *out, size_t size) {
  int n;
  TRY_STATUS(clave_devices_count(&n));
  (void)snprintf(out, size, "cpu");
  for (int i = 0; i < n; i++) {
    clave_device_info d = {.size = sizeof d};
    TRY_STATUS(clave_devices_get(i, &d));
    if (strcmp(d.name, name) != 0 || d.index < 0) continue;
    (void)snprintf(out, size, "opencl:%d", d.index);
    break;
  }
  return EXIT_GOOD;
}

static int measure_on(const model *m, const char *name, clave_dtype dtype, double *bandwidth,
                      clave_peak *out) {
  char spec[32];
  clave_device *device = NULL;
  if (strcmp(name, m->device_info.name) == 0)
    return measure_peak_of(m->device, name, dtype, bandwidth, out);
  TRY_EXIT(find_spec(name, spec, sizeof spec));
  TRY_STATUS(clave_device_open(spec, NULL, &device));
  const int code = measure_peak_of(device, name, dtype, bandwidth, out);
  clave_device_destroy(device);
  return code;
}

/* Once for a device and a dtype, whether it can be measured or not; the device's bandwidth once. */
static int need_peak(const model *m, const char *device, clave_dtype dtype, breakdown *b) {
  double bandwidth = 0;
  for (size_t i = 0; i < b->n_peaks; i++) {
    if (strcmp(b->peaks[i].device, device) != 0) continue;
    if (b->peaks[i].dtype == dtype) return EXIT_GOOD;
    bandwidth = b->peaks[i].bytes_a_second;
  }
  if (!array_reserve(&b->peaks, &b->cap_peaks, b->n_peaks + 1, sizeof *b->peaks))
    return fail_memory();
  clave_peak *p = &b->peaks[b->n_peaks];
  TRY_EXIT(measure_on(m, device, dtype, &bandwidth, p));
  b->n_peaks++;
  return EXIT_GOOD;
}

/* A dtype that a device does not multiply has no peak of its own; with F32 comes the bandwidth. */
static void drop_unknown_peaks(breakdown *b) {
  size_t kept = 0;
  for (size_t i = 0; i < b->n_peaks; i++)
    if (b->peaks[i].flops_a_second > 0 || b->peaks[i].dtype == CLAVE_F32)
      b->peaks[kept++] = b->peaks[i];
  b->n_peaks = kept;
}

static bool has_product(clave_dtype dtype) {
  for (size_t i = 0; i < n_product_rows; i++)
    if (product_rows[i].dtype == dtype) return true;
  return false;
}

/* F32 stands for dtypes that nothing is multiplied in. */
static int measure_peaks(const model *m, breakdown *b) {
  show_progress("measuring the device");
  for (uint32_t i = 0; i < b->n_rows; i++) {
    const work_row *r = &b->rows[i];
    TRY_EXIT(need_peak(m, r->device, CLAVE_F32, b));
    if (r->kind == CLAVE_TIMING_NODE && r->flops > 0 && has_product(r->dtype))
      TRY_EXIT(need_peak(m, r->device, r->dtype, b));
  }
  drop_unknown_peaks(b);
  TRY_STATUS(clave_session_set_peaks(m->session, b->peaks, b->n_peaks));
  clear_progress();
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- all of it */

static int run_all(model *m, const input_set *inputs, int64_t warmup, breakdown *out) {
  double ignored;
  show_progress("running");
  for (int64_t i = 0; i < warmup || i < 1; i++) TRY_EXIT(run_once(m, inputs, &ignored));
  TRY_EXIT(add_run(m, inputs, 0, out)); /* which devices and dtypes there are */
  TRY_EXIT(measure_peaks(m, out));
  show_progress("running");
  for (uint32_t i = 0; i < out->n_rows; i++) out->rows[i].times[0] = 0;
  for (uint32_t i = 0; i < out->n_runs; i++) TRY_EXIT(add_run(m, inputs, i, out));
  clear_progress();
  return EXIT_GOOD;
}

int measure_breakdown(model *m, const input_set *inputs, int64_t runs, int64_t warmup,
                      const char *profile, breakdown *out) {
  *out = (breakdown){.n_runs = (uint32_t)runs,
                     .gaps = calloc((size_t)runs, sizeof *out->gaps),
                     .runs = calloc((size_t)runs, sizeof *out->runs)};
  if (!out->gaps || !out->runs) return fail_memory();
  clave_session_destroy(m->session);
  m->session = NULL;
  m->warm_up = CLAVE_WARM_UP_WAIT;
  TRY_EXIT(open_session(m, SESSION_PROFILED));
  TRY_EXIT(run_all(m, inputs, warmup, out));
  sum_up(out);
  if (profile) TRY_STATUS(clave_session_write_profile(m->session, profile));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- groups */

static void add_to_group(work_row *group, const work_row *r) {
  group->count += r->count;
  group->flops = group->flops < 0 || r->flops < 0 ? -1 : group->flops + r->flops;
  group->bytes += r->bytes;
  group->compute += r->compute;
  group->memory += r->memory;
  group->limit += r->limit;
  group->ns += r->ns;
}

work_row *group_by_op(const breakdown *b, uint32_t *n) {
  work_row *groups = calloc((size_t)b->n_rows + 1, sizeof *groups);
  *n = 0;
  for (uint32_t i = 0; groups && i < b->n_rows; i++) {
    const work_row *r = &b->rows[i];
    uint32_t g = 0;
    while (g < *n && (strcmp(groups[g].op, r->op) != 0 || strcmp(groups[g].device, r->device) != 0))
      g++;
    if (g == *n) {
      groups[(*n)++] = *r;
    } else {
      add_to_group(&groups[g], r);
    }
  }
  if (groups) qsort(groups, *n, sizeof *groups, compare_rows);
  return groups;
}

/* ---------------------------------------------------------------- rates */

double rate_of(double work, double ns) { return ns > 0 && work > 0 ? work / ns : 0; }

double percent_of_limit(const work_row *r) { return r->ns > 0 ? 100 * r->limit / r->ns : 0; }

bool is_compute_bound(const work_row *r) { return r->compute > r->memory; }
