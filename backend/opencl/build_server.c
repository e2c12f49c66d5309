/* The other end of builders.c, in a process of its own: builds what is ordered and launches each
 * kernel once, since some drivers compile then. All numbers of such a launch are 1 and all buffers
 * are one of zeros, so that kernels do next to nothing. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"
#include "backend/opencl/program/build_messages.h"
#include "base/process.h"

enum { IDLE_MS = 3000, BUFFER_BYTES = 4 << 20, MAX_GLOBAL = 1 << 17 };

typedef struct server {
  int socket;
  backend *b;
  cl_device *d;
  stream *s;
  buffer *zeros;
  bool saves; /* asked to, and not yet done */
} server;

/* ---------------------------------------------------------------- a launch */

static launch_value value_for(arg_kind kind, const order *o) {
  launch_value v = {.kind = VALUE_INT, .as.i = 1};
  if (kind == ARG_BUFFER) v = (launch_value){.kind = VALUE_OPERAND, .as.operand = {0, DTYPE_U8}};
  if (kind == ARG_FLOAT || kind == ARG_DOUBLE || kind == ARG_REAL)
    v = (launch_value){.kind = VALUE_FLOAT, .as.f = 1};
  if (kind == ARG_SEED) v.kind = VALUE_SEED;
  if (kind == ARG_RUN) v.kind = VALUE_RUN;
  if (kind == ARG_LOCAL)
    v = (launch_value){.kind = VALUE_LOCAL, .as.bytes = (size_t)o->local_bytes};
  if (kind == ARG_IMAGE) v = (launch_value){.kind = VALUE_IMAGE};
  if (kind == ARG_INDEX8) {
    v.kind = VALUE_INDEX8;
    for (int i = 0; i < 8; i++) v.as.i8[i] = 1;
  }
  return v;
}

static int fill_values(const order *o, launch_value *values) {
  int n = 0;
  for (uint32_t i = 0; i < o->n_args; i++) {
    arg_kind kind = (arg_kind)o->kinds[i];
    if (kind == ARG_FAULT || kind == ARG_FAULT_NODE) break;
    values[n++] = value_for(kind, o);
    if (kind != ARG_BUFFER) continue;
    values[n++] = (launch_value){.kind = VALUE_INT};
    i++;
  }
  return n;
}

static clave_status launch_once(server *v, const recorded_launch *l) {
  recorded_launch copy = *l;
  cl_recording r = {.base.serial = 1, .launches = &copy, .n = 1};
  bound_tensor zeros = {.t = {.type = DTYPE_U8}, .buf = v->zeros};
  run_operands operands = {.tensors = &zeros, .scratch = v->zeros, .weights = &v->zeros};
  void *state = NULL;
  device_fault fault;
  TRY(v->b->vt->fill_zero(v->s, v->zeros, 0, BUFFER_BYTES));
  clave_status st = v->b->vt->run(v->s, &r.base, &state, &operands, 0);
  clave_status end = v->b->vt->finish(v->s, &fault);
  v->b->vt->state_destroy(v->s, state);
  if (!st) return end;
  status_free(end);
  return st;
}

static clave_status launch_order(server *v, const order *o, kernel_program *p) {
  launch_value values[2 * MAX_LAUNCH_ARGS];
  recorded_launch l = {.program = p,
                       .signature = program_signature(p),
                       .values = values,
                       .n_values = fill_values(o, values),
                       .dims = 3,
                       .wide = o->is_wide != 0,
                       .compute = (dtype)o->compute};
  args_place(l.signature, l.wide, l.compute, &l.places);
  for (int i = 0; i < 3; i++) {
    l.global[i] = (size_t)o->global[i];
    l.local[i] = (size_t)o->local[i];
  }
  return launch_once(v, &l);
}

/* ---------------------------------------------------------------- messages */

/* The strings behind the order; false if they are not three. */
static bool split_texts(const char *at, size_t size, const char *texts[3]) {
  for (int i = 0; i < 3; i++) {
    const char *end = memchr(at, 0, size);
    if (!end) return false;
    texts[i] = at;
    size -= (size_t)(end - at) + 1;
    at = end + 1;
  }
  return size == 0;
}

/* A buffer's offset comes behind it. */
static bool is_sound_kind(const order *o, uint32_t i) {
  bool has_offset = i + 1 < o->n_args && o->kinds[i + 1] == ARG_LONG;
  return o->kinds[i] <= ARG_FAULT_NODE && (o->kinds[i] != ARG_BUFFER || has_offset);
}

static bool is_sound(const order *o) {
  bool good =
      o->n_args <= MAX_LAUNCH_ARGS && o->local_bytes <= BUFFER_BYTES && o->compute <= DTYPE_BOOL;
  for (uint32_t i = 0; good && i < o->n_args; i++) good = is_sound_kind(o, i);
  for (int i = 0; i < 3; i++)
    good = good && o->local[i] - 1 < 4096 && o->global[i] - 1 < MAX_GLOBAL &&
           o->global[i] % o->local[i] == 0;
  return good;
}

/* An order that cannot be done is answered like any other: who ordered it tries by itself. */
static bool serve_order(server *v, const message *m, const char *payload) {
  order o;
  const char *texts[3];
  kernel_program *p;
  if (m->size < sizeof o) return false;
  memcpy(&o, payload, sizeof o);
  if (!is_sound(&o) || !split_texts(payload + sizeof o, m->size - sizeof o, texts)) return false;
  clave_status st = program_of_order(v->d, &o, texts, &p);
  if (!st) st = program_build(v->d, p);
  if (!st) st = launch_order(v, &o, p);
  status_free(st);
  return message_send(v->socket, MESSAGE_BUILT, m->number, "", 0, "", 0);
}

static bool serve_message(server *v, int timeout_ms) {
  message m;
  char *payload;
  if (!message_receive(v->socket, timeout_ms, &m, &payload)) return false;
  bool good = m.kind == MESSAGE_SAVE;
  if (good) v->saves = true;
  if (m.kind == MESSAGE_ORDER) good = serve_order(v, &m, payload);
  free(payload);
  return good;
}

/* Orders go before what is to be kept. */
static void serve(server *v) {
  for (;;) {
    bool waits = !v->saves || socket_wait(&v->socket, 1, 0) >= 0;
    if (waits && !serve_message(v, IDLE_MS)) return;
    if (waits || programs_save_next(v->d)) continue;
    v->saves = false;
    if (!message_send(v->socket, MESSAGE_SAVED, 0, "", 0, "", 0)) return;
  }
}

/* ---------------------------------------------------------------- the process */

static clave_status open_server(server *v, const greeting *g, const char *folder) {
  opencl_options o = {.cache_dir = *folder ? folder : NULL, .builds_here = true};
  TRY(opencl_backend_create(g->device, &o, &v->b));
  v->d = (cl_device *)v->b;
  greeting mine;
  build_greeting(v->d, g->device, &mine);
  if (!message_send(v->socket, MESSAGE_READY, 0, &mine, sizeof mine, "", 0) ||
      memcmp(&mine, g, sizeof mine) != 0)
    return INVALID("the process that asks for kernels is of another version or device");
  TRY(v->b->vt->stream_create(v->b, &v->s));
  return v->b->vt->buffer_create(v->b, BUFFER_BYTES, &v->zeros);
}

static void close_server(server *v) {
  if (!v->b) return;
  v->b->vt->buffer_destroy(v->b, v->zeros);
  if (v->s) v->b->vt->stream_destroy(v->b, v->s);
  v->b->vt->destroy(v->b);
}

clave_status opencl_serve_builds(int socket) {
  enum { FIRST_MS = 10000 };
  server v = {.socket = socket};
  message m;
  char *payload;
  greeting g;
  const char *what = "no process asks for kernels there";
  if (!message_receive(socket, FIRST_MS, &m, &payload)) return INVALID("%s", what);
  bool good = m.kind == MESSAGE_GREETING && m.size >= sizeof g;
  if (good) memcpy(&g, payload, sizeof g);
  clave_status st = good ? open_server(&v, &g, payload + sizeof g) : INVALID("%s", what);
  free(payload);
  if (!st) serve(&v);
  close_server(&v);
  return st;
}
