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

static void on_event(void *ctx, const clave_delegate_event *e) {
  ((life *)ctx)->n_events += e->kind == CLAVE_DELEGATE_EVENT_NODE;
}
static void on_release(void *ctx) { ((life *)ctx)->n_released++; }

static clave_status load_clv(life *l) {
  const clave_delegate_payload p = {.size = sizeof p,
                                    .data = l->clv,
                                    .data_size = l->clv_size,
                                    .copy = true,
                                    .release = on_release,
                                    .release_ctx = l};
  return l->d.load(&p, &l->programs[0]);
}

static bool find(void *ctx, const char *name, clave_tensor *constant) {
  const life *l = ctx;
  for (uint32_t i = 0; i < MOST_CONSTANTS; i++) {
    clave_tensor_info slot = {.size = sizeof slot};
    clave_status st = clave_program_slot(l->plain, i, &slot);
    if (!st && strcmp(slot.name, name) == 0) st = clave_program_constant(l->plain, i, constant);
    clave_status_free(st);
    if (!st && strcmp(slot.name, name) == 0) return true;
  }
  return false;
}

static clave_status load_by_name(life *l) {
  clave_delegate_payload p = {.size = sizeof p,
                              .format = CLAVE_DELEGATE_PROGRAM,
                              .find = find,
                              .find_ctx = l,
                              .copy = true,
                              .release = on_release,
                              .release_ctx = l};
  TRY(clave_program_load("examples/mnist/mnist.clv", NULL, &l->plain));
  TRY(clave_program_encode(l->plain, &l->flatbuffer, &p.data_size));
  p.data = l->flatbuffer;
  return l->d.load(&p, &l->programs[1]);
}

/* relu of the scores, and as a question. */
static clave_status load_graph(life *l) {
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
  const clave_delegate_graph g = {sizeof g, &size, 1, tensors, 3, &node, 1, initial, NULL, 0};
  const clave_delegate_payload p = {.size = sizeof p,
                                    .format = CLAVE_DELEGATE_GRAPH,
                                    .graph = &g,
                                    .release = on_release,
                                    .release_ctx = l};
  clave_delegate_answer answer;
  TRY(l->d.query(l->device, &g, &answer));
  if (!answer.supported) abort();
  return l->d.load(&p, &l->programs[2]);
}

static clave_status bind(life *l, int i, const clave_tensor *x, float *from, size_t bytes) {
  const clave_delegate_memory in = {.size = sizeof in, .memory = from, .bytes = bytes};
  const clave_delegate_memory out = {
      .size = sizeof out, .memory = l->scores[i], .bytes = sizeof l->scores[i]};
  TRY(l->d.bind_input(l->instances[i], NULL, 0, x, &in));
  return l->d.bind_output(l->instances[i], NULL, 0, &out);
}

static clave_status create(life *l) {
  const clave_delegate_instance_options o = {
      .size = sizeof o, .event = on_event, .event_ctx = l, .node_events = true};
  const clave_tensor image = {CLAVE_F32, 4, {1, 1, 28, 28}, {PIXELS, PIXELS, 28, 1}, NULL};
  const clave_tensor scores = {CLAVE_F32, 2, {1, CLASSES}, {CLASSES, 1}, NULL};
  for (int i = 0; i < 3; i++) TRY(l->d.create(l->programs[i], l->device, &o, &l->instances[i]));
  for (int i = 0; i < 2; i++) TRY(bind(l, i, &image, l->image, sizeof l->image));
  return bind(l, 2, &scores, l->scores[0], sizeof l->scores[0]);
}

static clave_status run(life *l) {
  bool over = false;
  TRY(l->d.execute(l->instances[0], "forward"));
  TRY(l->d.submit(l->instances[1], "forward", NULL, NULL));
  TRY(l->d.wait(l->instances[1], -1, &over));
  TRY(l->d.execute(l->instances[2], NULL));
  return over ? l->d.reset(l->instances[0]) : NULL;
}

static clave_status run_life(void *ctx) {
  life *l = ctx;
  const clave_delegate_device_options o = {
      .size = sizeof o, .device = "cpu", .n_threads = 2, .cache_dir = "off"};
  l->d.size = sizeof l->d;
  if (clave_delegate_register(CLAVE_DELEGATE_VERSION, &l->d) != CLAVE_OK) abort();
  TRY(l->d.open(&o, &l->device));
  TRY(load_clv(l));
  TRY(load_by_name(l));
  TRY(load_graph(l));
  TRY(create(l));
  return run(l);
}

static const char *wrong_life(void *ctx) {
  const life *l = ctx;
  if (memcmp(l->scores[0], l->scores[1], sizeof l->scores[0]) != 0) return "the results differ";
  for (int i = 0; i < CLASSES; i++)
    if (l->scores[2][i] != (l->scores[0][i] > 0 ? l->scores[0][i] : 0)) return "no relu";
  return l->n_events ? NULL : "no event was told";
}

/* What is there runs, where it has all that it needs. */
static clave_status resume(void *ctx) {
  life *l = ctx;
  bool over;
  if (!l->d.open || !l->instances[2]) return NULL;
  l->d.status_free(l->d.wait(l->instances[1], -1, &over));
  clave_status st = l->d.execute(l->instances[0], NULL);
  if (clave_status_code(st) != CLAVE_INVALID) return st;
  clave_status_free(st); /* it was not bound yet */
  return NULL;
}

static void end_life(void *ctx) {
  life *l = ctx;
  bool over;
  if (l->d.open) {
    for (int i = 0; i < 3; i++) {
      l->d.status_free(l->d.wait(l->instances[i], -1, &over));
      l->d.status_free(l->d.destroy(l->instances[i]));
      l->d.status_free(l->d.unload(l->programs[i]));
    }
    l->d.status_free(l->d.close(l->device));
  }
  clave_program_destroy(l->plain);
  free(l->flatbuffer);
  const life empty = {.clv = l->clv, .clv_size = l->clv_size};
  *l = empty;
}

int main(int argc, char **argv) {
  static life l;
  if (argc < 3) {
    fprintf(stderr, "usage: run_delegate_faults alloc PROGRAM [FIRST STEP]\n");
    return 2;
  }
  static char bytes[MOST_BYTES];
  FILE *f = fopen(argv[2], "rb");
  l.clv = bytes;
  l.clv_size = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) (void)fclose(f);
  const fault_test test = {&l, run_life, wrong_life, resume, end_life};
  return fault_loop(&test, argv[1], argc > 3 ? atol(argv[3]) : 0, argc > 4 ? atol(argv[4]) : 1);
}
