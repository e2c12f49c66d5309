/* Timings of the last run, command by command, written as Chrome trace events (Perfetto opens
 * them). */
#include <inttypes.h>
#include <stdlib.h>

#include "base/file.h"
#include "interp/planner.h"
#include "interp/running.h"

clave_status trace_add(session *s, trace_event e) {
  TRY(grow_array((void **)&s->events, &s->cap_events, s->n_events, sizeof *s->events));
  s->events[s->n_events++] = e;
  return NULL;
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
    if (e->kind == COMMAND_TRANSFER || !vt->times) continue;
    TRY(vt->times(s->streams[e->backend], i, &start, &end));
    if (!seen[e->backend]) origin[e->backend] = start - e->start_ns;
    seen[e->backend] = true;
    e->start_ns = start - origin[e->backend];
    e->end_ns = end - origin[e->backend];
  }
  return NULL;
}

static void append_json_string(text *t, const char *s) {
  text_append(t, "\"", 1);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') {
      text_printf(t, "\\%c", c);
    } else if (c < 0x20) {
      text_printf(t, "\\u%04x", c);
    } else {
      text_append(t, s, 1);
    }
  }
  text_append(t, "\"", 1);
}

static void append_event(const session *s, text *t, const trace_event *e) {
  static const char *const kinds[] = {"op", "copy", "transfer"};
  const graph *g = &s->x->methods[e->method].g;
  const bool inside = e->instruction < g->n;
  const ir_instruction *ins = inside ? &g->instructions[e->instruction] : NULL;
  text_printf(
      t, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":",
      e->backend, (double)e->start_ns * 1e-3, (double)(e->end_ns - e->start_ns) * 1e-3,
      kinds[e->kind]);
  append_json_string(t, e->kind == COMMAND_RUN ? op_table[ins->op_type].name : kinds[e->kind]);
  text_printf(t, ",\"args\":{\"node\":");
  append_json_string(t, inside ? ins->name : "state update");
  text_printf(t, ",\"index\":%u}}", inside ? g->source[e->instruction] : g->n);
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

clave_status session_write_trace(const session *s, const char *path) {
  if (!s->options.profile) return INVALID("the session was made without profiling");
  text t = {0};
  text_printf(&t,
              "[{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"clave\"}}");
  for (int b = 0; b < s->devices.count; b++) {
    text_printf(
        &t,
        ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":", b);
    append_json_string(&t, s->devices.backends[b]->info.name);
    text_printf(&t, "}}");
  }
  for (uint32_t i = 0; i < s->n_events; i++) append_event(s, &t, &s->events[i]);
  text_printf(&t, "]\n");
  clave_status st = write_text(path, &t);
  text_free(&t);
  return st;
}
