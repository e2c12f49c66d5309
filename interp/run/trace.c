/* Timings of the last run, command by command, written as Chrome trace events (Perfetto opens
 * them). */
#include "interp/run/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "interp/run/trace_work.h"
#include "json/writer.h"

clave_status trace_reserve(session *s) {
  bool good = array_reserve(&s->events, &s->cap_events, (size_t)s->n_events + 1, sizeof *s->events);
  return good ? NULL : status_no_memory();
}

/* Devices that keep time themselves replace the host's submission times; their clocks start where
 * the run did. */
clave_status trace_finish(session *s) {
  int64_t origin[MAX_BACKENDS];
  bool seen[MAX_BACKENDS] = {false};
  for (uint32_t i = 0; i < s->n_events; i++) {
    trace_event *e = &s->events[i];
    const backend_vtable *vt = s->devices.backends[e->backend]->vt;
    int64_t start, end;
    if (e->kind == COMMAND_TRANSFER || !vt->profile) continue;
    TRY(vt->profile->times(s->streams[e->backend], i, &start, &end));
    if (!seen[e->backend]) origin[e->backend] = start - e->start_ns;
    seen[e->backend] = true;
    e->start_ns = start - origin[e->backend];
    e->end_ns = end - origin[e->backend];
  }
  return NULL;
}

static const char *const kinds[] = {"op", "copy", "transfer"};

/* What the device can do at most with elements of a type, or, where that is not known, of F32. */
static const device_peak *find_peak(const peak_list *peaks, const char *device, dtype type) {
  const device_peak *other = NULL;
  for (uint32_t i = 0; i < peaks->n; i++) {
    const device_peak *p = &peaks->items[i];
    if (strcmp(p->device, device) != 0) continue;
    if (p->type == type) return p;
    if (p->type == DTYPE_F32) other = p;
  }
  return other;
}

static double time_of(double work, double rate) { return rate > 0 ? work / rate * 1e9 : 0; }

static void limit_event(const peak_list *peaks, const trace_event *e, session_timing *t) {
  const device_peak *p = find_peak(peaks, t->device, e->type);
  if (!p || e->kind == COMMAND_TRANSFER) return;
  t->compute_ns = time_of(e->flops > 0 ? e->flops : 0, p->flops);
  t->memory_ns = time_of(e->bytes, p->bytes);
}

static session_timing describe_event(const session *s, const peak_list *peaks,
                                     const trace_event *e) {
  const graph *g = &s->x->methods[e->method].g;
  const bool inside = e->instruction < g->n;
  const ir_instruction *ins = inside ? &g->instructions[e->instruction] : NULL;
  session_timing t = {.kind = (int)e->kind,
                      .node = node_number(g, e->instruction),
                      .op = e->kind == COMMAND_RUN ? op_table[ins->op_type].name : kinds[e->kind],
                      .name = inside ? ins->name : "state update",
                      .device = s->devices.backends[e->backend]->info.name,
                      .start_ns = e->start_ns,
                      .end_ns = e->end_ns,
                      .shapes = e->shapes ? e->shapes : "",
                      .type = e->type,
                      .flops = e->flops,
                      .bytes = e->bytes};
  limit_event(peaks, e, &t);
  return t;
}

/* FLOP a ns are GFLOP/s. */
static void write_work(json_writer *j, const session_timing *t) {
  const double ns = (double)(t->end_ns - t->start_ns), limit = fmax(t->compute_ns, t->memory_ns);
  if (*t->shapes) emit_string(j, "shapes", t->shapes);
  if (t->flops >= 0) emit_decimal(j, "flop", t->flops, 0);
  emit_decimal(j, "bytes", t->bytes, 0);
  if (ns <= 0) return;
  if (t->flops >= 0) emit_decimal(j, "gflop_s", t->flops / ns, 3);
  emit_decimal(j, "gb_s", t->bytes / ns, 3);
  if (limit <= 0) return;
  emit_decimal(j, "percent_of_limit", 100 * limit / ns, 1);
  emit_string(j, "limit", t->compute_ns > t->memory_ns ? "compute" : "memory");
}

static void write_event(json_writer *j, const trace_event *e, const session_timing *t) {
  emit_record(j, NULL);
  emit_string(j, "ph", "X");
  emit_integer(j, "pid", 1);
  emit_integer(j, "tid", e->backend);
  emit_decimal(j, "ts", (double)e->start_ns * 1e-3, 3);
  emit_decimal(j, "dur", (double)(e->end_ns - e->start_ns) * 1e-3, 3);
  emit_string(j, "cat", kinds[e->kind]);
  emit_string(j, "name", t->op);
  emit_object(j, "args");
  emit_string(j, "node", t->name);
  emit_size(j, "index", t->node);
  write_work(j, t);
  emit_end_object(j);
  emit_end_object(j);
}

/* The name of a process, or of one of its threads: the devices. */
static void write_name(json_writer *j, const char *what, int number, const char *name) {
  emit_record(j, NULL);
  emit_string(j, "ph", "M");
  emit_integer(j, "pid", 1);
  if (number >= 0) emit_integer(j, "tid", number);
  emit_string(j, "name", what);
  emit_object(j, "args");
  emit_string(j, "name", name);
  emit_end_object(j);
  emit_end_object(j);
}

static clave_status write_text(const char *path, const text *t) {
  TRY(text_status(t));
  file_writer *w;
  TRY(file_writer_create(path, &w));
  clave_status st = file_writer_append(w, t->data, t->size);
  if (!st) st = file_writer_commit(w);
  file_writer_destroy(w);
  return st;
}

static clave_status check_profiled(const session *s) {
  return s->options.profile ? NULL : INVALID("the session was made without profiling");
}

clave_status session_timings(session *s, const peak_list *peaks,
                             void (*each)(void *ctx, const session_timing *t), void *ctx) {
  TRY(check_profiled(s));
  TRY(trace_settle(s));
  for (uint32_t i = 0; i < s->n_events; i++) {
    const session_timing t = describe_event(s, peaks, &s->events[i]);
    each(ctx, &t);
  }
  return NULL;
}

clave_status session_write_trace(session *s, const peak_list *peaks, const char *path) {
  TRY(check_profiled(s));
  TRY(trace_settle(s));
  text t = {0};
  json_writer j = {.out = &t};
  emit_array(&j, NULL);
  write_name(&j, "process_name", -1, "clave");
  for (int b = 0; b < s->devices.count; b++)
    write_name(&j, "thread_name", b, s->devices.backends[b]->info.name);
  for (uint32_t i = 0; i < s->n_events; i++) {
    const session_timing timing = describe_event(s, peaks, &s->events[i]);
    write_event(&j, &s->events[i], &timing);
  }
  emit_end_array(&j);
  clave_status st = write_text(path, &t);
  text_free(&t);
  return st;
}
