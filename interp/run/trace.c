/* Timings of the last run, command by command, written as Chrome trace events (Perfetto opens
 * them). */
#include "interp/run/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "interp/run/trace_work.h"
#include "json/writer.h"

clave_status trace_reserve(session *session) {
  bool good = array_reserve(&session->events, &session->cap_events, (size_t)session->n_events + 1,
                            sizeof *session->events);
  return good ? NULL : status_no_memory();
}

/* Replaces the host's submission times by the device's times, if the device measures them. The
 * first event of a device keeps its start time. */
clave_status trace_finish(session *session) {
  int64_t origin[MAX_BACKENDS];
  bool seen[MAX_BACKENDS] = {false};
  for (uint32_t i = 0; i < session->n_events; i++) {
    trace_event *event = &session->events[i];
    const backend_vtable *vt = session->devices.backends[event->backend]->vt;
    int64_t start, end;
    if (event->kind == COMMAND_TRANSFER || !vt->profile) continue;
    TRY(vt->profile->times(session->streams[event->backend], i, &start, &end));
    if (!seen[event->backend]) origin[event->backend] = start - event->start_ns;
    seen[event->backend] = true;
    event->start_ns = start - origin[event->backend];
    event->end_ns = end - origin[event->backend];
  }
  return NULL;
}

static const char *const kinds[] = {"op", "copy", "transfer"};

/* Returns the device's peak rates for a dtype, else its rates for F32, else NULL. */
static const device_peak *trace_find_peak(const peak_list *peaks, const char *device, dtype type) {
  const device_peak *other = NULL;
  for (uint32_t i = 0; i < peaks->n; i++) {
    const device_peak *peak = &peaks->items[i];
    if (strcmp(peak->device, device) != 0) continue;
    if (peak->type == type) return peak;
    if (peak->type == DTYPE_F32) other = peak;
  }
  return other;
}

static double time_of(double work, double rate) { return rate > 0 ? work / rate * 1e9 : 0; }

static void limit_event(const peak_list *peaks, const trace_event *event, session_timing *timing) {
  const device_peak *peak = trace_find_peak(peaks, timing->device, event->type);
  if (!peak || event->kind == COMMAND_TRANSFER) return;
  timing->compute_ns = time_of(event->flops > 0 ? event->flops : 0, peak->flops);
  timing->memory_ns = time_of(event->bytes, peak->bytes);
}

static session_timing describe_event(const session *session, const peak_list *peaks,
                                     const trace_event *event) {
  const graph *graph = &session->executable->methods[event->method].graph;
  const bool inside = event->instruction < graph->n;
  const ir_instruction *ins = inside ? &graph->instructions[event->instruction] : NULL;
  session_timing timing = {
      .kind = (int)event->kind,
      .node = node_number(graph, event->instruction),
      .op = event->kind == COMMAND_RUN ? op_table[ins->op_type].name : kinds[event->kind],
      .name = inside ? ins->name : "state update",
      .device = session->devices.backends[event->backend]->info.name,
      .start_ns = event->start_ns,
      .end_ns = event->end_ns,
      .shapes = event->shapes ? event->shapes : "",
      .type = event->type,
      .flops = event->flops,
      .bytes = event->bytes};
  limit_event(peaks, event, &timing);
  return timing;
}

/* FLOP per ns equals GFLOP/s. */
static void write_work(json_writer *writer, const session_timing *timing) {
  const double ns = (double)(timing->end_ns - timing->start_ns),
               limit = fmax(timing->compute_ns, timing->memory_ns);
  if (*timing->shapes) emit_string(writer, "shapes", timing->shapes);
  if (timing->flops >= 0) emit_decimal(writer, "flop", timing->flops, 0);
  emit_decimal(writer, "bytes", timing->bytes, 0);
  if (ns <= 0) return;
  if (timing->flops >= 0) emit_decimal(writer, "gflop_s", timing->flops / ns, 3);
  emit_decimal(writer, "gb_s", timing->bytes / ns, 3);
  if (limit <= 0) return;
  emit_decimal(writer, "percent_of_limit", 100 * limit / ns, 1);
  emit_string(writer, "limit", timing->compute_ns > timing->memory_ns ? "compute" : "memory");
}

static void write_event(json_writer *writer, const trace_event *event,
                        const session_timing *timing) {
  emit_record(writer, NULL);
  emit_string(writer, "ph", "X");
  emit_integer(writer, "pid", 1);
  emit_integer(writer, "tid", event->backend);
  emit_decimal(writer, "ts", (double)event->start_ns * 1e-3, 3);
  emit_decimal(writer, "dur", (double)(event->end_ns - event->start_ns) * 1e-3, 3);
  emit_string(writer, "cat", kinds[event->kind]);
  emit_string(writer, "name", timing->op);
  emit_object(writer, "args");
  emit_string(writer, "node", timing->name);
  emit_size(writer, "index", timing->node);
  write_work(writer, timing);
  emit_end_object(writer);
  emit_end_object(writer);
}

/* Writes the name of the process, or of one of its threads, which represent devices. */
static void write_name(json_writer *writer, const char *what, int number, const char *name) {
  emit_record(writer, NULL);
  emit_string(writer, "ph", "M");
  emit_integer(writer, "pid", 1);
  if (number >= 0) emit_integer(writer, "tid", number);
  emit_string(writer, "name", what);
  emit_object(writer, "args");
  emit_string(writer, "name", name);
  emit_end_object(writer);
  emit_end_object(writer);
}

static clave_status check_profiled(const session *session) {
  return session->options.profile ? NULL
                                  : INVALID("the session was created without the option `profile`");
}

clave_status session_timings(session *session, const peak_list *peaks,
                             void (*each)(void *ctx, const session_timing *timing), void *ctx) {
  TRY(check_profiled(session));
  TRY(trace_compute_work(session));
  for (uint32_t i = 0; i < session->n_events; i++) {
    const session_timing timing = describe_event(session, peaks, &session->events[i]);
    each(ctx, &timing);
  }
  return NULL;
}

clave_status session_write_trace(session *session, const peak_list *peaks, const char *path) {
  TRY(check_profiled(session));
  TRY(trace_compute_work(session));
  text text = {0};
  json_writer writer = {.out = &text};
  emit_array(&writer, NULL);
  write_name(&writer, "process_name", -1, "clave");
  for (int b = 0; b < session->devices.count; b++)
    write_name(&writer, "thread_name", b, session->devices.backends[b]->info.name);
  for (uint32_t i = 0; i < session->n_events; i++) {
    const session_timing timing = describe_event(session, peaks, &session->events[i]);
    write_event(&writer, &session->events[i], &timing);
  }
  emit_end_array(&writer);
  clave_status st = text_status(&text);
  if (!st) st = file_write(path, text.data, text.size);
  text_free(&text);
  return st;
}
