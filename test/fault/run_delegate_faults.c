/* Faults in the plugin's own functions, linked here without the library: payloads of each kind, a
 * question, runs in this thread and in the instance's own, state.
 *
 *   run_delegate_faults alloc PROGRAM [FIRST STEP]
 *
 * PROGRAM: a .clv with one method of one float input (batch, 1, 28, 28). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "delegate/clave_delegate.h"
#include "test/fault/loop.h"

enum { PIXELS = 28 * 28, CLASSES = 10, MAX_BYTES = 1 << 20, MAX_CONSTANTS = 16 };

typedef struct scenario {
  clave_delegate d;
  char *clv; /* the file */
  size_t clv_size;
  clave_program *plain; /* the same program in clave's own API */
  void *flatbuffer;
  clave_delegate_handle device, programs[3], instances[3];
  int n_events, n_released;
  float image[PIXELS], scores[3][CLASSES];
} scenario;

static void on_event(void *ctx, const clave_delegate_event *event) {
  ((scenario *)ctx)->n_events += event->kind == CLAVE_DELEGATE_EVENT_NODE;
}
static void on_release(void *ctx) { ((scenario *)ctx)->n_released++; }

static clave_status load_clv(scenario *scenario) {
  const clave_delegate_payload payload = {.size = sizeof payload,
                                          .data = scenario->clv,
                                          .data_size = scenario->clv_size,
                                          .copy = true,
                                          .release = on_release,
                                          .release_ctx = scenario};
  return scenario->d.load(&payload, &scenario->programs[0]);
}

static bool find(void *ctx, const char *name, clave_tensor *constant) {
  const scenario *scenario = ctx;
  for (uint32_t i = 0; i < MAX_CONSTANTS; i++) {
    clave_tensor_info slot = {.size = sizeof slot};
    clave_status st = clave_program_slot(scenario->plain, i, &slot);
    if (!st && strcmp(slot.name, name) == 0)
      st = clave_program_constant(scenario->plain, i, constant);
    clave_status_free(st);
    if (!st && strcmp(slot.name, name) == 0) return true;
  }
  return false;
}

static clave_status load_by_name(scenario *scenario) {
  clave_delegate_payload payload = {.size = sizeof payload,
                                    .format = CLAVE_DELEGATE_PROGRAM,
                                    .find = find,
                                    .find_ctx = scenario,
                                    .copy = true,
                                    .release = on_release,
                                    .release_ctx = scenario};
  TRY(clave_program_load("examples/mnist/mnist.clv", NULL, &scenario->plain));
  TRY(clave_program_encode(scenario->plain, &scenario->flatbuffer, &payload.data_size));
  payload.data = scenario->flatbuffer;
  return scenario->d.load(&payload, &scenario->programs[1]);
}

/* Loads a graph that computes relu of the scores, and queries it. */
static clave_status load_graph(scenario *scenario) {
  static const uint32_t index[] = {0, 1};
  static const clave_delegate_operand operand = {.source = CLAVE_DELEGATE_OPERAND_INPUT};
  const clave_delegate_size size = {"n", 1, 4};
  const clave_delegate_tensor tensors[] = {
      {"x", CLAVE_SLOT_INPUT, CLAVE_F32, 2, {0, CLASSES}, {1}, NULL},
      {"y", CLAVE_SLOT_OUTPUT, CLAVE_F32, 2, {0, CLASSES}, {1}, NULL},
      {"s", CLAVE_SLOT_STATE, CLAVE_F32, 1, {2}, {0}, NULL}};
  static const float first[] = {1, 2};
  static const void *const initial[] = {NULL, NULL, first};
  const clave_delegate_field fields[] = {
      {.name = "inputs", .kind = CLAVE_DELEGATE_READS_LIST, .n = 1, .tensors = &index[0]},
      {.name = "relu",
       .kind = CLAVE_DELEGATE_STEP,
       .dtype = CLAVE_F32,
       .n = 1,
       .operands = &operand},
      {.name = "out", .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = &index[1]}};
  const clave_delegate_node node = {"Elementwise", "relu", fields, 3};
  const clave_delegate_graph graph = {sizeof graph, &size, 1,       tensors, 3,
                                      &node,        1,     initial, NULL,    0};
  const clave_delegate_payload payload = {.size = sizeof payload,
                                          .format = CLAVE_DELEGATE_GRAPH,
                                          .graph = &graph,
                                          .release = on_release,
                                          .release_ctx = scenario};
  clave_delegate_answer answer;
  TRY(scenario->d.query(scenario->device, &graph, &answer));
  if (!answer.supported) abort();
  return scenario->d.load(&payload, &scenario->programs[2]);
}

static clave_status bind(scenario *scenario, int i, const clave_tensor *tensor, float *from,
                         size_t bytes) {
  const clave_delegate_memory in = {.size = sizeof in, .memory = from, .bytes = bytes};
  const clave_delegate_memory out = {
      .size = sizeof out, .memory = scenario->scores[i], .bytes = sizeof scenario->scores[i]};
  TRY(scenario->d.bind_input(scenario->instances[i], NULL, 0, tensor, &in));
  return scenario->d.bind_output(scenario->instances[i], NULL, 0, &out);
}

static clave_status create(scenario *scenario) {
  const clave_delegate_instance_options options = {
      .size = sizeof options, .event = on_event, .event_ctx = scenario, .node_events = true};
  const clave_tensor image = {CLAVE_F32, 4, {1, 1, 28, 28}, {PIXELS, PIXELS, 28, 1}, NULL};
  const clave_tensor scores = {CLAVE_F32, 2, {1, CLASSES}, {CLASSES, 1}, NULL};
  for (int i = 0; i < 3; i++)
    TRY(scenario->d.create(scenario->programs[i], scenario->device, &options,
                           &scenario->instances[i]));
  for (int i = 0; i < 2; i++)
    TRY(bind(scenario, i, &image, scenario->image, sizeof scenario->image));
  return bind(scenario, 2, &scores, scenario->scores[0], sizeof scenario->scores[0]);
}

static clave_status run(scenario *scenario) {
  bool over = false;
  TRY(scenario->d.execute(scenario->instances[0], "forward"));
  TRY(scenario->d.submit(scenario->instances[1], "forward", NULL, NULL));
  TRY(scenario->d.wait(scenario->instances[1], -1, &over));
  TRY(scenario->d.execute(scenario->instances[2], NULL));
  return over ? scenario->d.reset(scenario->instances[0]) : NULL;
}

static clave_status run_scenario(void *ctx) {
  scenario *scenario = ctx;
  const clave_delegate_device_options options = {
      .size = sizeof options, .device = "cpu", .n_threads = 2, .cache_dir = "off"};
  scenario->d.size = sizeof scenario->d;
  if (clave_delegate_register(CLAVE_DELEGATE_VERSION, &scenario->d) != CLAVE_OK) abort();
  TRY(scenario->d.open(&options, &scenario->device));
  TRY(load_clv(scenario));
  TRY(load_by_name(scenario));
  TRY(load_graph(scenario));
  TRY(create(scenario));
  return run(scenario);
}

static const char *check_scenario(void *ctx) {
  const scenario *scenario = ctx;
  if (memcmp(scenario->scores[0], scenario->scores[1], sizeof scenario->scores[0]) != 0)
    return "the results differ";
  for (int i = 0; i < CLASSES; i++)
    if (scenario->scores[2][i] != (scenario->scores[0][i] > 0 ? scenario->scores[0][i] : 0))
      return "no relu";
  return scenario->n_events ? NULL : "no event was told";
}

/* Runs the first instance if all exist. That it is not bound yet counts as no error. */
static clave_status resume(void *ctx) {
  scenario *scenario = ctx;
  bool over;
  if (!scenario->d.open || !scenario->instances[2]) return NULL;
  scenario->d.status_free(scenario->d.wait(scenario->instances[1], -1, &over));
  clave_status st = scenario->d.execute(scenario->instances[0], NULL);
  if (clave_status_code(st) != CLAVE_INVALID) return st;
  clave_status_free(st); /* it was not bound yet */
  return NULL;
}

static void end_scenario(void *ctx) {
  scenario *alive = ctx;
  bool over;
  if (alive->d.open) {
    for (int i = 0; i < 3; i++) {
      alive->d.status_free(alive->d.wait(alive->instances[i], -1, &over));
      alive->d.status_free(alive->d.destroy(alive->instances[i]));
      alive->d.status_free(alive->d.unload(alive->programs[i]));
    }
    alive->d.status_free(alive->d.close(alive->device));
  }
  clave_program_destroy(alive->plain);
  free(alive->flatbuffer);
  const scenario empty = {.clv = alive->clv, .clv_size = alive->clv_size};
  *alive = empty;
}

int main(int argc, char **argv) {
  static scenario scenario;
  if (argc < 3) {
    fprintf(stderr, "usage: run_delegate_faults alloc PROGRAM [FIRST STEP]\n");
    return 2;
  }
  static char bytes[MAX_BYTES];
  FILE *file = fopen(argv[2], "rb");
  scenario.clv = bytes;
  scenario.clv_size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file) (void)fclose(file);
  const fault_test test = {&scenario, run_scenario, check_scenario, resume, end_scenario};
  return fault_loop(&test, argv[1], argc > 3 ? atol(argv[3]) : 0, argc > 4 ? atol(argv[4]) : 1);
}
