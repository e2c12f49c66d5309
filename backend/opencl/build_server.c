/* The process that builds kernels for builders.c. It builds what is ordered and launches each
 * kernel once, since some drivers compile only then. All numbers of such a launch are 1 and all
 * buffers hold zeros, so that kernels do next to nothing. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"
#include "backend/opencl/program/build_messages.h"
#include "base/process.h"

enum { IDLE_MS = 3000, BUFFER_BYTES = 4 << 20, MAX_GLOBAL = 1 << 17 };

typedef struct server {
  int socket;
  backend *backend;
  cl_device *device;
  stream *stream;
  buffer *zeros; /* owned; stands for every buffer of a launch */
  bool saves;    /* was told to save, and has not finished */
} server;

/* ---------------------------------------------------------------- a launch */

static launch_value value_for(arg_kind kind, const order *order) {
  launch_value value = {.kind = VALUE_INT, .as.i = 1};
  if (kind == ARG_BUFFER)
    value = (launch_value){.kind = VALUE_OPERAND, .as.operand = {0, DTYPE_U8}};
  if (kind == ARG_FLOAT || kind == ARG_DOUBLE || kind == ARG_REAL)
    value = (launch_value){.kind = VALUE_FLOAT, .as.f = 1};
  if (kind == ARG_SEED) value.kind = VALUE_SEED;
  if (kind == ARG_RUN) value.kind = VALUE_RUN;
  if (kind == ARG_LOCAL)
    value = (launch_value){.kind = VALUE_LOCAL, .as.bytes = (size_t)order->local_bytes};
  if (kind == ARG_IMAGE) value = (launch_value){.kind = VALUE_IMAGE};
  if (kind == ARG_INDEX8) {
    value.kind = VALUE_INDEX8;
    for (int i = 0; i < 8; i++) value.as.i8[i] = 1;
  }
  return value;
}

static int fill_values(const order *order, launch_value *values) {
  int n = 0;
  for (uint32_t i = 0; i < order->n_args; i++) {
    arg_kind kind = (arg_kind)order->kinds[i];
    if (kind == ARG_FAULT || kind == ARG_FAULT_NODE) break;
    values[n++] = value_for(kind, order);
    if (kind != ARG_BUFFER) continue;
    values[n++] = (launch_value){.kind = VALUE_INT};
    i++;
  }
  return n;
}

static clave_status launch_once(server *server, const recorded_launch *launch) {
  recorded_launch copy = *launch;
  cl_recording recording = {.base.serial = 1, .launches = &copy, .n = 1};
  bound_tensor zeros = {.tensor = {.type = DTYPE_U8}, .buf = server->zeros};
  run_operands operands = {.tensors = &zeros, .scratch = server->zeros, .weights = &server->zeros};
  void *state = NULL;
  device_fault fault;
  TRY(server->backend->vt->fill_zero(server->stream, server->zeros, 0, BUFFER_BYTES));
  clave_status st = server->backend->vt->run(server->stream, &recording.base, &state, &operands, 0);
  clave_status end = server->backend->vt->finish(server->stream, &fault);
  server->backend->vt->state_destroy(server->stream, state);
  if (!st) return end;
  status_free(end);
  return st;
}

static clave_status build_server_launch_order(server *server, const order *order,
                                              kernel_program *program) {
  launch_value values[2 * MAX_LAUNCH_ARGS];
  recorded_launch launch = {.program = program,
                            .signature = program_signature(program),
                            .values = values,
                            .n_values = fill_values(order, values),
                            .dims = 3,
                            .wide = order->is_wide != 0,
                            .compute = (dtype)order->compute};
  args_place(launch.signature, launch.wide, launch.compute, &launch.places);
  for (int i = 0; i < 3; i++) {
    launch.global[i] = (size_t)order->global[i];
    launch.local[i] = (size_t)order->local[i];
  }
  return launch_once(server, &launch);
}

/* ---------------------------------------------------------------- messages */

/* Finds the three strings after the order. Returns false if there are not exactly three. */
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

/* Checks one kind; a buffer must be followed by its offset. */
static bool is_sound_kind(const order *order, uint32_t i) {
  bool has_offset = i + 1 < order->n_args && order->kinds[i + 1] == ARG_LONG;
  return order->kinds[i] <= ARG_FAULT_NODE && (order->kinds[i] != ARG_BUFFER || has_offset);
}

static bool is_sound(const order *order) {
  bool good = order->n_args <= MAX_LAUNCH_ARGS && order->local_bytes <= BUFFER_BYTES &&
              order->compute <= DTYPE_BOOL;
  for (uint32_t i = 0; good && i < order->n_args; i++) good = is_sound_kind(order, i);
  for (int i = 0; i < 3; i++)
    good = good && order->local[i] - 1 < 4096 && order->global[i] - 1 < MAX_GLOBAL &&
           order->global[i] % order->local[i] == 0;
  return good;
}

/* An order that cannot be built is answered like any other; the sender then builds it itself. */
static bool serve_order(server *server, const message *message, const char *payload) {
  order order;
  const char *texts[3];
  kernel_program *program;
  if (message->size < sizeof order) return false;
  memcpy(&order, payload, sizeof order);
  if (!is_sound(&order) ||
      !split_texts(payload + sizeof order, message->size - sizeof order, texts))
    return false;
  clave_status st = program_of_order(server->device, &order, texts, &program);
  if (!st) st = program_build(server->device, program);
  if (!st) st = build_server_launch_order(server, &order, program);
  status_free(st);
  return message_send(server->socket, MESSAGE_BUILT, message->number, "", 0, "", 0);
}

static bool serve_message(server *server, int timeout_ms) {
  message message;
  char *payload;
  if (!message_receive(server->socket, timeout_ms, &message, &payload)) return false;
  bool good = message.kind == MESSAGE_SAVE;
  if (good) server->saves = true;
  if (message.kind == MESSAGE_ORDER) good = serve_order(server, &message, payload);
  free(payload);
  return good;
}

/* Serves messages until one is late, bad or cannot be answered. Orders go before saving. */
static void serve(server *server) {
  for (;;) {
    bool waits = !server->saves || socket_wait(&server->socket, 1, 0) >= 0;
    if (waits && !serve_message(server, IDLE_MS)) return;
    if (waits || programs_save_next(server->device)) continue;
    server->saves = false;
    if (!message_send(server->socket, MESSAGE_SAVED, 0, "", 0, "", 0)) return;
  }
}

/* ---------------------------------------------------------------- the process */

static clave_status open_server(server *server, const greeting *hello, const char *folder) {
  opencl_options options = {.cache_dir = *folder ? folder : NULL, .builds_here = true};
  TRY(opencl_backend_create(hello->device, &options, &server->backend));
  server->device = (cl_device *)server->backend;
  greeting mine;
  build_greeting(server->device, hello->device, &mine);
  if (!message_send(server->socket, MESSAGE_READY, 0, &mine, sizeof mine, "", 0) ||
      memcmp(&mine, hello, sizeof mine) != 0)
    return INVALID(
        "the process that requests kernels has another version of clave or another device");
  TRY(server->backend->vt->stream_create(server->backend, &server->stream));
  return server->backend->vt->buffer_create(server->backend, BUFFER_BYTES, &server->zeros);
}

static void close_server(server *server) {
  if (!server->backend) return;
  server->backend->vt->buffer_destroy(server->backend, server->zeros);
  if (server->stream) server->backend->vt->stream_destroy(server->backend, server->stream);
  server->backend->vt->destroy(server->backend);
}

clave_status opencl_serve_builds(int socket) {
  enum { FIRST_MS = 10000 };
  server server = {.socket = socket};
  message message;
  char *payload;
  greeting greeting;
  const char *what = "no process requests kernels on standard input";
  if (!message_receive(socket, FIRST_MS, &message, &payload)) return INVALID("%s", what);
  bool good = message.kind == MESSAGE_GREETING && message.size >= sizeof greeting;
  if (good) memcpy(&greeting, payload, sizeof greeting);
  clave_status st =
      good ? open_server(&server, &greeting, payload + sizeof greeting) : INVALID("%s", what);
  free(payload);
  if (!st) serve(&server);
  close_server(&server);
  return st;
}
