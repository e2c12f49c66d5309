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

enum { PIXELS = 28 * 28, CLASSES = 10, MOST_BYTES = 1 << 20, MOST_CONSTANTS = 16 };

typedef struct life {
  clave_delegate d;
  char *clv; /* the file */
  size_t clv_size;
  clave_program *plain; /* the same by clave's own API */
  void *flatbuffer;
  clave_delegate_handle device, programs[3], instances[3];
  int n_events, n_released;
  float image[PIXELS], scores[3][CLASSES];
} life;

static void on_event(void *ctx, const clave_delegate_event *event) {
  ((life *)ctx)->n_events += event->kind == CLAVE_DELEGATE_EVENT_NODE;
}
static void on_release(void *ctx) { ((life *)ctx)->n_released++; }

static clave_status load_clv(life *life) {
  const clave_delegate_payload payload = {.size = sizeof payload,
                                          .data = life->clv,
                                          .data_size = life->clv_size,
                                          .copy = true,
                                          .release = on_release,
                                          .release_ctx = life};
  return life->d.load(&payload, &life->programs[0]);
}

static bool find(void *ctx, const char *name, clave_tensor *constant) {
  const life *life = ctx;
  for (uint32_t i = 0; i < MOST_CONSTANTS; i++) {
    clave_tensor_info slot = {.size = sizeof slot};
    clave_status st = clave_program_slot(life->plain, i, &slot);
    if (!st && strcmp(slot.name, name) == 0) st = clave_program_constant(life->plain, i, constant);
    clave_status_free(st);
    if (!st && strcmp(slot.name, name) == 0) return true;
  }
  return false;
}

static clave_status load_by_name(life *life) {
  clave_delegate_payload payload = {.size = sizeof payload,
                                    .format = CLAVE_DELEGATE_PROGRAM,
                                    .find = find,
                                    .find_ctx = life,
                                    .copy = true,
                                    .release = on_release,
                                    .release_ctx = life};
  TRY(clave_program_load("examples/mnist/mnist.clv", NULL, &life->plain));
  TRY(clave_program_encode(life->plain, &life->flatbuffer, &payload.data_size));
  payload.data = life->flatbuffer;
  return life->d.load(&payload, &life->programs[1]);
}

/* Loads a graph that computes relu of the scores, and queries it. */
static clave_status load_graph(life *life) {
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
                                          .release_ctx = life};
  clave_delegate_answer answer;
  TRY(life->d.query(life->device, &graph, &answer));
  if (!answer.supported) abort();
  return life->d.load(&payload, &life->programs[2]);
}

static clave_status bind(life *life, int i, const clave_tensor *tensor, float *from, size_t bytes) {
  const clave_delegate_memory in = {.size = sizeof in, .memory = from, .bytes = bytes};
  const clave_delegate_memory out = {
      .size = sizeof out, .memory = life->scores[i], .bytes = sizeof life->scores[i]};
  TRY(life->d.bind_input(life->instances[i], NULL, 0, tensor, &in));
  return life->d.bind_output(life->instances[i], NULL, 0, &out);
}

static clave_status create(life *life) {
  const clave_delegate_instance_options options = {
      .size = sizeof options, .event = on_event, .event_ctx = life, .node_events = true};
  const clave_tensor image = {CLAVE_F32, 4, {1, 1, 28, 28}, {PIXELS, PIXELS, 28, 1}, NULL};
  const clave_tensor scores = {CLAVE_F32, 2, {1, CLASSES}, {CLASSES, 1}, NULL};
  for (int i = 0; i < 3; i++)
    TRY(life->d.create(life->programs[i], life->device, &options, &life->instances[i]));
  for (int i = 0; i < 2; i++) TRY(bind(life, i, &image, life->image, sizeof life->image));
  return bind(life, 2, &scores, life->scores[0], sizeof life->scores[0]);
}

static clave_status run(life *life) {
  bool over = false;
  TRY(life->d.execute(life->instances[0], "forward"));
  TRY(life->d.submit(life->instances[1], "forward", NULL, NULL));
  TRY(life->d.wait(life->instances[1], -1, &over));
  TRY(life->d.execute(life->instances[2], NULL));
  return over ? life->d.reset(life->instances[0]) : NULL;
}

static clave_status run_life(void *ctx) {
  life *life = ctx;
  const clave_delegate_device_options options = {
      .size = sizeof options, .device = "cpu", .n_threads = 2, .cache_dir = "off"};
  life->d.size = sizeof life->d;
  if (clave_delegate_register(CLAVE_DELEGATE_VERSION, &life->d) != CLAVE_OK) abort();
  TRY(life->d.open(&options, &life->device));
  TRY(load_clv(life));
  TRY(load_by_name(life));
  TRY(load_graph(life));
  TRY(create(life));
  return run(life);
}

static const char *wrong_life(void *ctx) {
  const life *life = ctx;
  if (memcmp(life->scores[0], life->scores[1], sizeof life->scores[0]) != 0)
    return "the results differ";
  for (int i = 0; i < CLASSES; i++)
    if (life->scores[2][i] != (life->scores[0][i] > 0 ? life->scores[0][i] : 0)) return "no relu";
  return life->n_events ? NULL : "no event was told";
}

/* Runs the first instance if all are there; it may not be bound yet, which is no error. */
static clave_status resume(void *ctx) {
  life *life = ctx;
  bool over;
  if (!life->d.open || !life->instances[2]) return NULL;
  life->d.status_free(life->d.wait(life->instances[1], -1, &over));
  clave_status st = life->d.execute(life->instances[0], NULL);
  if (clave_status_code(st) != CLAVE_INVALID) return st;
  clave_status_free(st); /* it was not bound yet */
  return NULL;
}

static void end_life(void *ctx) {
  life *alive = ctx;
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
  const life empty = {.clv = alive->clv, .clv_size = alive->clv_size};
  *alive = empty;
}

int main(int argc, char **argv) {
  static life life;
  if (argc < 3) {
    fprintf(stderr, "usage: run_delegate_faults alloc PROGRAM [FIRST STEP]\n");
    return 2;
  }
  static char bytes[MOST_BYTES];
  FILE *file = fopen(argv[2], "rb");
  life.clv = bytes;
  life.clv_size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file) (void)fclose(file);
  const fault_test test = {&life, run_life, wrong_life, resume, end_life};
  return fault_loop(&test, argv[1], argc > 3 ? atol(argv[3]) : 0, argc > 4 ? atol(argv[4]) : 1);
}
