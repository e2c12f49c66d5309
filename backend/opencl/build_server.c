/* The child process that builds kernels for builders.c. It builds each ordered kernel and launches
 * it once, because some drivers compile only at a launch. All numbers of the launch are 1 and all
 * buffers hold zeros, so that the kernel does next to nothing. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/clblast.h"
#include "backend/opencl/program/build_messages.h"
#include "base/process.h"

enum { IDLE_MS = 3000, BUFFER_BYTES = 4 << 20, MAX_GLOBAL = 1 << 17 };

typedef struct server {
  int socket;
  backend *backend;
  cl_device *device;
  stream *stream;
  buffer *zeros; /* owned; stands for every buffer of a launch */
  bool saves;    /* received MESSAGE_SAVE and has not saved everything yet */
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

/* Finds the three strings that follow an order. Returns false if there are not exactly three. */
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

/* True if the kind of argument i is valid. A buffer must be followed by its offset. */
static bool is_valid_kind(const order *order, uint32_t i) {
  bool has_offset = i + 1 < order->n_args && order->kinds[i + 1] == ARG_LONG;
  return order->kinds[i] <= ARG_FAULT_NODE && (order->kinds[i] != ARG_BUFFER || has_offset);
}

static bool is_sound(const order *order) {
  bool good = order->n_args <= MAX_LAUNCH_ARGS && order->local_bytes <= BUFFER_BYTES &&
              order->compute <= DTYPE_BOOL;
  for (uint32_t i = 0; good && i < order->n_args; i++) good = is_valid_kind(order, i);
  for (int i = 0; i < 3; i++)
    good = good && order->local[i] - 1 < 4096 && order->global[i] - 1 < MAX_GLOBAL &&
           order->global[i] % order->local[i] == 0;
  return good;
}

static clave_status serve_build(server *server, const order *order, kernel_program *program) {
  TRY(program_build(server->device, program));
  return build_server_launch_order(server, order, program);
}

/* Does with the program what the other process will do first with it, and keeps the binary. */
static clave_status serve_trial(server *server, const order *order, kernel_program *program) {
  cl_device *device = server->device;
  cl_kernel kernel = NULL;
  if (order->instruction) instruction_try(device, (int)order->instruction - 1);
  clave_status st = program_kernel(device, program, &kernel);
  if (!st) device->cl->clReleaseKernel(kernel);
  if (!st && !order->instruction && quirk_serial_builds(device->base.info.platform))
    st = build_server_launch_order(server, order, program);
  program_save_accepted(device, program);
  program_load_saved(device, program);
  return st;
}

/* Answers an order. trial: the tried program, or NULL; its binary is sent if no folder keeps it. */
static bool answer_order(const server *server, const message *message, kernel_program *trial) {
  size_t size = 0;
  unsigned char *binary = NULL;
  if (trial && !server->device->cache_dir)
    binary = program_get_binary(server->device, trial, &size);
  if (size > MAX_ORDER_BYTES) size = 0;
  const bool good =
      message_send(server->socket, MESSAGE_BUILT, message->number, binary, size, "", 0);
  free(binary);
  return good;
}

/* Orders that cannot be built are answered, too; the sender then builds the program itself. */
static bool serve_order(server *server, const message *message, const char *payload) {
  order order;
  const char *texts[3];
  kernel_program *program;
  if (message->size < sizeof order) return false;
  memcpy(&order, payload, sizeof order);
  if (!is_sound(&order) ||
      !split_texts(payload + sizeof order, message->size - sizeof order, texts))
    return false;
  const bool is_trial = message->kind == MESSAGE_TRIAL;
  clave_status st = program_of_order(server->device, &order, texts, &program);
  const bool is_found = !st;
  if (!st) st = (is_trial ? serve_trial : serve_build)(server, &order, program);
  status_free(st);
  return answer_order(server, message, is_trial && is_found ? program : NULL);
}

static bool serve_message(server *server, int timeout_ms) {
  message message;
  char *payload;
  if (!message_receive(server->socket, timeout_ms, &message, &payload)) return false;
  bool good = message.kind == MESSAGE_SAVE;
  if (good) server->saves = true;
  if (message.kind == MESSAGE_ORDER || message.kind == MESSAGE_TRIAL)
    good = serve_order(server, &message, payload);
  free(payload);
  return good;
}

/* Serves messages until one is late, invalid or cannot be answered. Orders go before saving. */
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

static clave_status build_server_open_device(server *server, int index,
                                             const opencl_options *options) {
  TRY(opencl_backend_create(index, options, &server->backend));
  server->device = (cl_device *)server->backend;
  TRY(server->backend->vt->stream_create(server->backend, &server->stream));
  return server->backend->vt->buffer_create(server->backend, BUFFER_BYTES, &server->zeros);
}

static clave_status open_server(server *server, const greeting *hello, const char *folder) {
  opencl_options options = {.cache_dir = *folder ? folder : NULL, .builds_here = true};
  TRY(build_server_open_device(server, hello->device, &options));
  greeting mine;
  build_greeting(server->device, hello->device, &mine);
  if (!message_send(server->socket, MESSAGE_READY, 0, &mine, sizeof mine, "", 0) ||
      memcmp(&mine, hello, sizeof mine) != 0)
    return INVALID(
        "the process that requests kernels has another version of clave or another device");
  return NULL;
}

static void close_server(server *server) {
  if (!server->backend) return;
  server->backend->vt->buffer_destroy(server->backend, server->zeros);
  if (server->stream) server->backend->vt->stream_destroy(server->backend, server->stream);
  server->backend->vt->destroy(server->backend);
}

/* Computes one product by each function of CLBlast, which compiles a program for each. */
static clave_status multiply_zeros(server *server) {
  enum { N = 64, BATCHES = 2, ELEMENTS = N * N * BATCHES };
  const matrix first = {.ld = N, .stride = N * N, .transpose = CLBlastTransposeNo};
  blas_call call = {.m = N, .n = N, .k = N, .alpha = 1, .a = first, .b = first, .out = first};
  const bound_tensor zeros = {.tensor = {.type = DTYPE_F32}, .buf = server->zeros};
  const run_operands operands = {.tensors = &zeros, .scratch = server->zeros};
  device_fault fault;
  call.b.offset = ELEMENTS;
  call.out.offset = 2 * ELEMENTS;
  if (!clblast_of(server->device)) return UNSUPPORTED("CLBlast is not installed");
  for (call.batches = 1; call.batches <= BATCHES; call.batches++)
    TRY(blas_run((cl_stream *)server->stream, &call, &operands));
  return server->backend->vt->finish(server->stream, &fault);
}

/* Does the task of a greeting, and answers if that does not fail. Only a child that knows the task
 * says so before it calls the driver. */
static clave_status serve_task(int socket, const greeting *hello) {
  server server = {.socket = socket};
  const opencl_options options = {.builds_here = true};
  const device_list *list;
  if (hello->task >= N_TASKS)
    return INVALID("the process that requests a task has another version");
  if (!message_send(socket, MESSAGE_READY, hello->task, "", 0, "", 0)) return NULL;
  clave_status st = opencl_device_list(&list);
  if (st) return st;
  if (hello->task == TASK_CLBLAST) {
    st = build_server_open_device(&server, hello->device, &options);
    if (!st) st = multiply_zeros(&server);
  }
  if (!st) (void)message_send(socket, MESSAGE_BUILT, hello->task, "", 0, "", 0);
  close_server(&server);
  return st;
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
  if (good && greeting.task != TASK_BUILD) {
    free(payload);
    return serve_task(socket, &greeting);
  }
  clave_status st =
      good ? open_server(&server, &greeting, payload + sizeof greeting) : INVALID("%s", what);
  free(payload);
  if (!st) serve(&server);
  close_server(&server);
  return st;
}
