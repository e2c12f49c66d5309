/* delegate PLUGIN ROUNDS: measures the overhead of a run through the plugin over the same run by
 * clave's own functions: a softmax of four numbers on the CPU backend, in alternation, with and
 * without binding its input and output before each run. */
#include "delegate/clave_delegate.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common.h"
#include "clave_builder.h"

enum { N = 4, RUNS = 2000 };

static float x[N] = {1, 2, 3, 4}, y[N];
static clave_delegate d = {.size = sizeof d};

static void fine(clave_status st) {
  if (!st) return;
  fprintf(stderr, "bench: %s\n", d.status_message(st));
  exit(1);
}

static void open_plain(bench_session *session) {
  const int64_t dims[] = {N};
  clave_builder *make;
  check(clave_builder_create(&make));
  clave_id in = clave_builder_tensor(make, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 1, dims, NULL);
  clave_id out = clave_builder_tensor(make, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 1, dims, NULL);
  clave_builder_method(make, "forward");
  clave_builder_input(make, "x", in);
  clave_builder_op(make, "Softmax", "");
  clave_builder_set_tensor(make, "x", in);
  clave_builder_set_int(make, "axis", 0);
  clave_builder_set_tensor(make, "out", out);
  clave_builder_output(make, "y", out);
  check(clave_builder_finish(make, &session->program));
  clave_builder_destroy(make);
  check(clave_device_open("cpu", NULL, &session->device));
  check(clave_session_create(session->program, session->device, NULL, &session->session));
}

static clave_delegate_handle open_delegate(const char *path) {
  static const uint32_t index[] = {0, 1};
  const clave_delegate_tensor tensors[] = {{"x", CLAVE_SLOT_INPUT, CLAVE_F32, 1, {N}, {0}, NULL},
                                           {"y", CLAVE_SLOT_OUTPUT, CLAVE_F32, 1, {N}, {0}, NULL}};
  const clave_delegate_field fields[] = {
      {.name = "x", .kind = CLAVE_DELEGATE_READS, .n = 1, .tensors = &index[0]},
      {.name = "axis", .kind = CLAVE_DELEGATE_INT},
      {.name = "out", .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = &index[1]}};
  const clave_delegate_node node = {"Softmax", "", fields, 3};
  const clave_delegate_graph graph = {
      .size = sizeof graph, .tensors = tensors, .n_tensors = 2, .nodes = &node, .n_nodes = 1};
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &graph};
  const clave_delegate_device_options options = {.size = sizeof options, .device = "cpu"};
  clave_delegate_handle device, program, instance;
  clave_delegate_register_fn get = NULL;
  void *library = dlopen(path, RTLD_NOW), *symbol = NULL;
  if (library) symbol = dlsym(library, CLAVE_DELEGATE_REGISTER);
  memcpy(&get, &symbol, sizeof get);
  if (!get || get(CLAVE_DELEGATE_VERSION, &d) != CLAVE_OK) {
    fprintf(stderr, "bench: %s: no plugin\n", path);
    exit(1);
  }
  fine(d.open(&options, &device));
  fine(d.load(&payload, &program));
  fine(d.create(program, device, NULL, &instance));
  return instance;
}

static void bind_plain(const bench_session *session, const clave_tensor *tensor) {
  check(clave_session_bind_input(session->session, NULL, 0, tensor));
  check(clave_session_bind_output(session->session, NULL, 0, y, sizeof y));
}

static void bind_delegate(clave_delegate_handle h, const clave_tensor *tensor) {
  const clave_delegate_memory in = {.size = sizeof in, .memory = x, .bytes = sizeof x};
  const clave_delegate_memory out = {.size = sizeof out, .memory = y, .bytes = sizeof y};
  fine(d.bind_input(h, NULL, 0, tensor, &in));
  fine(d.bind_output(h, NULL, 0, &out));
}

/* Returns microseconds per run. session NULL: runs through the plugin. */
static double time_runs(const bench_session *session, clave_delegate_handle h, bool bind) {
  const clave_tensor tensor = clave_tensor_make(CLAVE_F32, 1, (const int64_t[]){N}, x);
  const double begin = now_s();
  for (int i = 0; i < RUNS; i++) {
    if (session) {
      if (bind) bind_plain(session, &tensor);
      check(clave_session_run(session->session, NULL));
    } else {
      if (bind) bind_delegate(h, &tensor);
      fine(d.execute(h, NULL));
    }
  }
  return 1e6 * (now_s() - begin) / RUNS;
}

int main(int argc, char **argv) {
  double plain[2][MAX_ROUNDS], ours[2][MAX_ROUNDS];
  bench_session session;
  if (argc != 3) {
    fprintf(stderr, "usage: delegate PLUGIN ROUNDS\n");
    return 2;
  }
  const int rounds = atoi(argv[2]) < MAX_ROUNDS ? atoi(argv[2]) : MAX_ROUNDS;
  open_plain(&session);
  const clave_delegate_handle h = open_delegate(argv[1]);
  for (int bind = 1; bind >= 0; bind--)
    for (int r = 0; r < rounds; r++) {
      plain[bind][r] = time_runs(&session, 0, bind);
      ours[bind][r] = time_runs(NULL, h, bind);
    }
  printf("{\"plain_us\": %.3f, \"delegate_us\": %.3f, ", median(plain[0], rounds),
         median(ours[0], rounds));
  printf("\"plain_bound_us\": %.3f, \"delegate_bound_us\": %.3f}\n", median(plain[1], rounds),
         median(ours[1], rounds));
  close_session(&session);
  return 0;
}
