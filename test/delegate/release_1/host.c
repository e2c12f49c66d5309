/* A host of the first release: compiled against the frozen clave.h and clave_delegate.h beside it,
 * linked with nothing of clave. It does not change. */
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "clave_delegate.h"

#define FIELD(type, member) \
  {#type "." #member, (long)offsetof(type, member), (long)sizeof((type *)0)->member},
#define WHOLE(type) {#type, 0, (long)sizeof(type)},
#define VALUE(number) {#number, (long)(number), 0},
const layout_row release_1_layout[] = {
#include "layout.def"
};
const size_t release_1_rows = sizeof release_1_layout / sizeof *release_1_layout;

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

typedef struct host {
  clave_delegate d;
  clave_delegate_handle device, program, instance;
  float image[PIXELS], scores[CLASSES];
  int runs, released;
  char wrong[300];
} host;

#define EXPECT(condition)                                                               \
  if (!(condition)) {                                                                   \
    (void)snprintf(h->wrong, sizeof h->wrong, "line %d: not %s", __LINE__, #condition); \
    return false;                                                                       \
  }

static bool good(host *h, clave_status st) {
  if (st) (void)snprintf(h->wrong, sizeof h->wrong, "%s", h->d.status_message(st));
  h->d.status_free(st);
  return h->wrong[0] == 0;
}
#define GOOD(call) \
  if (!good(h, h->d.call)) return false

static void on_event(void *ctx, const clave_delegate_event *e) {
  host *h = ctx;
  if (e->kind == CLAVE_DELEGATE_EVENT_RUN && e->end_ns >= e->start_ns) h->runs++;
}
static void on_release(void *ctx) { ((host *)ctx)->released++; }

/* A bright bar down the middle. */
static void draw(host *h) {
  memset(h->image, 0, sizeof h->image);
  for (int y = 5; y < 23; y++)
    for (int x = 13; x < 16; x++) h->image[y * SIDE + x] = 1;
}

static bool is_one(const float *scores) {
  for (int i = 0; i < CLASSES; i++)
    if (i != 1 && scores[i] >= scores[1]) return false;
  return true;
}

static bool begin(host *h, const void *clv, size_t size) {
  const clave_delegate_device_options device = {.size = sizeof device, .device = "cpu"};
  const clave_delegate_payload payload = {.size = sizeof payload,
                                          .data = clv,
                                          .data_size = size,
                                          .release = on_release,
                                          .release_ctx = h};
  const clave_delegate_instance_options instance = {
      .size = sizeof instance, .event = on_event, .event_ctx = h};
  clave_device_info info = {.size = sizeof info};
  GOOD(open(&device, &h->device));
  GOOD(device_info(h->device, &info));
  EXPECT(strcmp(info.kind, "cpu") == 0);
  GOOD(load(&payload, &h->program));
  GOOD(create(h->program, h->device, &instance, &h->instance));
  return true;
}

static bool describe(host *h) {
  clave_program_info p = {.size = sizeof p};
  clave_method_info m = {.size = sizeof m};
  clave_tensor_info t = {.size = sizeof t};
  clave_node_info n = {.size = sizeof n};
  GOOD(program_info(h->program, &p));
  EXPECT(p.n_methods == 1 && p.n_constants == 10);
  GOOD(method(h->program, 0, &m));
  EXPECT(m.n_inputs == 1 && m.n_outputs == 1 && m.n_nodes == 15);
  GOOD(input(h->program, m.name, 0, &t));
  EXPECT(t.rank == 4 && t.dims[0] == CLAVE_DYNAMIC && t.dims[3] == SIDE);
  GOOD(output(h->program, m.name, 0, &t));
  EXPECT(t.rank == 2 && t.dims[1] == CLASSES);
  GOOD(node(h->program, m.name, 0, &n));
  EXPECT(strcmp(n.op, "conv") == 0);
  return true;
}

static bool run(host *h) {
  const clave_tensor shape = {.dtype = CLAVE_F32,
                              .rank = 4,
                              .dims = {1, 1, SIDE, SIDE},
                              .strides = {PIXELS, PIXELS, SIDE, 1}};
  const clave_delegate_memory in = {
      .size = sizeof in, .memory = h->image, .bytes = sizeof h->image};
  const clave_delegate_memory out = {
      .size = sizeof out, .memory = h->scores, .bytes = sizeof h->scores};
  bool over = false;
  clave_tensor y;
  draw(h);
  GOOD(bind_input(h->instance, "forward", 0, &shape, &in));
  GOOD(bind_output(h->instance, "forward", 0, &out));
  GOOD(execute(h->instance, "forward"));
  EXPECT(is_one(h->scores));
  memset(h->scores, 0, sizeof h->scores);
  GOOD(submit(h->instance, NULL, NULL, NULL));
  GOOD(wait(h->instance, -1, &over));
  EXPECT(over && is_one(h->scores) && h->runs == 2);
  GOOD(result(h->instance, NULL, 0, &y));
  EXPECT(y.data == h->scores && y.rank == 2);
  GOOD(cancel(h->instance));
  GOOD(reset(h->instance));
  return true;
}

/* A softmax of four numbers, as a graph of the host's. */
static bool run_graph(host *h) {
  static const uint32_t index[] = {0, 1};
  const clave_delegate_tensor tensors[] = {
      {.name = "x", .kind = CLAVE_SLOT_INPUT, .dtype = CLAVE_F32, .rank = 1, .dims = {4}},
      {.name = "y", .kind = CLAVE_SLOT_OUTPUT, .dtype = CLAVE_F32, .rank = 1, .dims = {4}}};
  const clave_delegate_field fields[] = {
      {.name = "x", .kind = CLAVE_DELEGATE_READS, .n = 1, .tensors = &index[0]},
      {.name = "axis", .kind = CLAVE_DELEGATE_INT, .i = 0},
      {.name = "out", .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = &index[1]}};
  const clave_delegate_node node = {"Softmax", "node", fields, 3};
  const clave_delegate_graph graph = {
      .size = sizeof graph, .tensors = tensors, .n_tensors = 2, .nodes = &node, .n_nodes = 1};
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &graph};
  clave_delegate_answer answer = {0};
  clave_delegate_handle program, instance;
  float values[] = {1, 1, 1, 1};
  const clave_tensor x = {
      .dtype = CLAVE_F32, .rank = 1, .dims = {4}, .strides = {1}, .data = values};
  clave_tensor y;
  GOOD(query(h->device, &graph, &answer));
  EXPECT(answer.supported && strcmp(answer.where, "cpu") == 0);
  GOOD(load(&payload, &program));
  GOOD(create(program, h->device, NULL, &instance));
  GOOD(set_input(instance, NULL, 0, &x));
  GOOD(execute(instance, NULL));
  GOOD(result(instance, NULL, 0, &y));
  EXPECT(((const float *)y.data)[3] == 0.25f);
  GOOD(destroy(instance));
  GOOD(unload(program));
  return true;
}

static bool end(host *h) {
  GOOD(destroy(h->instance));
  EXPECT(h->released == 0);
  GOOD(unload(h->program));
  EXPECT(h->released == 1);
  GOOD(close(h->device));
  clave_status st = h->d.execute(h->instance, NULL);
  EXPECT(h->d.status_code(st) == CLAVE_INVALID && h->d.status_message(st)[0]);
  h->d.status_free(st);
  return true;
}

const char *run_release_1_host(const char *path, const void *clv, size_t size) {
  static host h;
  clave_delegate_register_fn get;
  memset(&h, 0, sizeof h);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, CLAVE_DELEGATE_REGISTER) : NULL;
  if (!symbol) return "the plugin cannot be opened";
  memcpy(&get, &symbol, sizeof get);
  h.d.size = sizeof h.d;
  if (get(CLAVE_DELEGATE_VERSION, &h.d) != CLAVE_OK) return "the plugin refuses release 1";
  if (begin(&h, clv, size) && describe(&h) && run(&h) && run_graph(&h)) (void)end(&h);
  (void)dlclose(library);
  return h.wrong[0] ? h.wrong : NULL;
}
