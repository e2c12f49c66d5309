#ifndef TEST_DELEGATE_CALLS_H
#define TEST_DELEGATE_CALLS_H
/* Makes sequences of calls of the plugin, right and wrong, which bytes select: with handles of all
 * kinds, released or not, tensors of wrong sizes, and runs in progress. Each call must return, an
 * error must have a line, a good run the right result, and in the end everything must be freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delegate/clave_delegate.h"

enum { N_HANDLES = 12, ROOM = 6, COLUMNS = 4 };

typedef struct calls {
  const clave_delegate *d;
  const uint8_t *bytes;
  size_t size, at;
  clave_delegate_handle devices[N_HANDLES], programs[N_HANDLES], instances[N_HANDLES];
  int n_devices, n_programs, n_instances; /* objects made; the last N_HANDLES of each are known */
  int borrowed;                           /* payloads that the plugin still borrows */
  const void *clv;
  size_t clv_size;
  long n_good, n_results;  /* successful runs; results that were checked */
  float *x, *y[N_HANDLES]; /* blocks of ROOM * COLUMNS floats; y: one for each instance */
} calls;

static inline void must(const char *what, bool good) {
  if (good) return;
  fprintf(stderr, "calls: %s\n", what);
  abort();
}

/* Returns the next choice below n, or 0 when the bytes are used up. */
static inline unsigned choose(calls *calls, unsigned n) {
  return calls->at < calls->size ? calls->bytes[calls->at++] % n : 0;
}

/* Checks that an error has one line and frees the status. Returns true if it was no error. */
static inline bool settle(const calls *calls, clave_status st) {
  const char *line = calls->d->status_message(st);
  must("an error has one line", !st || (line[0] && !strchr(line, '\n')));
  calls->d->status_free(st);
  return !st;
}

/* Returns a handle, mostly one of this list, sometimes one of another kind, an invalid one or 0. */
static inline clave_delegate_handle pick(calls *calls, const clave_delegate_handle *list, int n) {
  const unsigned way = choose(calls, 32);
  if (way == 0) return 0;
  if (way == 1) return calls->devices[choose(calls, N_HANDLES)];
  if (way == 2) return calls->programs[choose(calls, N_HANDLES)];
  if (way == 3) return calls->instances[choose(calls, N_HANDLES)];
  if (way == 4) return (clave_delegate_handle)choose(calls, 256) << 56 | choose(calls, 256);
  const int known = n < N_HANDLES ? n : N_HANDLES;
  if (way < 14 && known) return list[choose(calls, (unsigned)known)];
  return known ? list[(n - 1) % N_HANDLES] : 0;
}

static inline clave_delegate_handle pick_device(calls *calls) {
  return pick(calls, calls->devices, calls->n_devices);
}
static inline clave_delegate_handle pick_program(calls *calls) {
  return pick(calls, calls->programs, calls->n_programs);
}
static inline clave_delegate_handle pick_instance(calls *calls) {
  return pick(calls, calls->instances, calls->n_instances);
}
static inline float *y_of(const calls *calls, clave_delegate_handle instance) {
  int i = 0;
  while (i < N_HANDLES - 1 && calls->instances[i] != instance) i++;
  return calls->y[i];
}
static inline const char *pick_method(calls *calls) {
  static const char *const names[] = {NULL, "backward", ""};
  const unsigned way = choose(calls, 16);
  return way < 3 ? names[way] : "forward";
}

static inline void keep(clave_delegate_handle *list, int *count, clave_delegate_handle h) {
  list[(*count)++ % N_HANDLES] = h;
}

/* ---------------------------------------------------------------- payloads */

/* A graph with a softmax of (n, 4), n up to 5, which bytes may alter. */
typedef struct small_graph {
  clave_delegate_size size;
  clave_delegate_tensor tensors[2];
  clave_delegate_field fields[3];
  clave_delegate_node node;
  clave_delegate_graph g;
  uint32_t index[2];
} small_graph;

static inline void make_graph(small_graph *graph) {
  memset(graph, 0, sizeof *graph);
  graph->index[1] = 1;
  graph->size = (clave_delegate_size){"n", 0, ROOM - 1};
  graph->tensors[0] =
      (clave_delegate_tensor){"x", CLAVE_SLOT_INPUT, CLAVE_F32, 2, {0, COLUMNS}, {1, 0}, NULL};
  graph->tensors[1] = graph->tensors[0];
  graph->tensors[1].name = "y";
  graph->tensors[1].kind = CLAVE_SLOT_OUTPUT;
  graph->fields[0] = (clave_delegate_field){
      .name = "x", .kind = CLAVE_DELEGATE_READS, .n = 1, .tensors = &graph->index[0]};
  graph->fields[1] = (clave_delegate_field){.name = "axis", .kind = CLAVE_DELEGATE_INT, .i = 1};
  graph->fields[2] = (clave_delegate_field){
      .name = "out", .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = &graph->index[1]};
  graph->node = (clave_delegate_node){"Softmax", "", graph->fields, 3};
  graph->g = (clave_delegate_graph){.size = sizeof graph->g,
                                    .sizes = &graph->size,
                                    .n_sizes = 1,
                                    .tensors = graph->tensors,
                                    .n_tensors = 2,
                                    .nodes = &graph->node,
                                    .n_nodes = 1};
}

static inline void spoil_graph(calls *calls, small_graph *graph) {
  clave_delegate_tensor *tensor = &graph->tensors[choose(calls, 2)];
  clave_delegate_field *field = &graph->fields[choose(calls, 3)];
  switch (choose(calls, 16)) {
    case 0:
      tensor->rank = (int)choose(calls, 12) - 1;
      break;
    case 1:
      tensor->dtype = (clave_dtype)choose(calls, 20);
      break;
    case 2:
      tensor->kind = (clave_slot_kind)choose(calls, 7);
      break;
    case 3:
      tensor->sizes[choose(calls, 8)] = choose(calls, 4);
      break;
    case 4:
      tensor->dims[choose(calls, 2)] = (int64_t)((uint64_t)choose(calls, 256) << choose(calls, 64));
      break;
    case 5:
      tensor->name = choose(calls, 2) ? NULL : "x";
      break;
    case 6:
      field->kind = (clave_delegate_field_kind)choose(calls, 13);
      break;
    case 7:
      field->n = choose(calls, 3);
      break;
    case 8:
      field->tensors = choose(calls, 2) ? NULL : &graph->index[choose(calls, 2)];
      break;
    case 9:
      field->name = choose(calls, 2) ? NULL : "out";
      break;
    case 10:
      graph->index[choose(calls, 2)] = choose(calls, 5);
      break;
    case 11:
      graph->node.op = choose(calls, 2) ? NULL : "Matmul";
      break;
    case 12:
      graph->node.n_fields = choose(calls, 4);
      break;
    case 13:
      graph->g.n_nodes = choose(calls, 2);
      break;
    case 14:
      field->i = (int64_t)choose(calls, 256) - 128;
      break;
    default:
      graph->size.max = (int64_t)choose(calls, 10) - 5;
      break;
  }
}

typedef struct loan {
  calls *c;
  void *bytes;
} loan;

static inline void end_loan(void *ctx) {
  loan *loan = ctx;
  loan->c->borrowed--;
  free(loan->bytes);
  free(loan);
}

/* A block of bytes, freed when the plugin reports that it no longer reads them. */
static inline void load_clv(calls *calls, clave_delegate_payload *payload) {
  loan *borrowed = malloc(sizeof *borrowed);
  char *bytes = malloc(calls->clv_size);
  must("memory", borrowed && bytes);
  memcpy(bytes, calls->clv, calls->clv_size);
  *borrowed = (loan){calls, bytes};
  const unsigned way = choose(calls, 4);
  payload->data = bytes;
  payload->data_size = way == 1 ? choose(calls, 256) * 16 % calls->clv_size : calls->clv_size;
  if (way == 2) bytes[choose(calls, 256) * 18 % calls->clv_size] ^= (char)(1 << choose(calls, 8));
  payload->release = end_loan;
  payload->release_ctx = borrowed;
  calls->borrowed++;
}

static inline void call_load(calls *calls) {
  small_graph graph;
  clave_delegate_handle h = 1;
  clave_delegate_payload payload = {.size = sizeof payload, .copy = choose(calls, 2)};
  const unsigned way = choose(calls, 8);
  make_graph(&graph);
  payload.graph = &graph.g;
  payload.format = CLAVE_DELEGATE_GRAPH;
  if (way == 0) payload.format = (clave_delegate_format)choose(calls, 5);
  if (way == 1) payload.size = choose(calls, 64);
  if (way == 2) spoil_graph(calls, &graph);
  if (way == 3) {
    payload.format = CLAVE_DELEGATE_CLV;
    load_clv(calls, &payload);
  }
  if (way == 4) payload.graph = NULL;
  const bool good = settle(calls, calls->d->load(&payload, &h));
  must("a handle exactly where it is good", good == (h != 0));
  if (good) keep(calls->programs, &calls->n_programs, h);
}

/* ---------------------------------------------------------------- tensors */

static inline clave_tensor pick_tensor(calls *calls) {
  clave_tensor tensor = {.dtype = CLAVE_F32,
                         .rank = 2,
                         .dims = {choose(calls, ROOM), COLUMNS},
                         .strides = {COLUMNS, 1},
                         .data = calls->x};
  switch (choose(calls, 24)) {
    case 0:
      tensor.rank = (int)choose(calls, 12) - 2;
      break;
    case 1:
      tensor.dtype = (clave_dtype)choose(calls, 18);
      break;
    case 2:
      tensor.dims[choose(calls, 2)] = (int64_t)choose(calls, 12) - 6;
      break;
    case 3:
      tensor.dims[choose(calls, 2)] = INT64_MAX >> choose(calls, 64);
      break;
    case 4:
      tensor.strides[choose(calls, 2)] = INT64_MIN >> choose(calls, 64);
      break;
    case 5:
      tensor.data = NULL;
      break;
    case 6:
      tensor.strides[0] = 0;
      break;
    default:
      break;
  }
  if (tensor.strides[0] < 0 || tensor.strides[1] < 0 || tensor.strides[0] > COLUMNS ||
      tensor.dims[0] > ROOM || tensor.dims[1] > COLUMNS)
    tensor.data = NULL; /* the tensor would exceed its memory */
  return tensor;
}

static inline clave_delegate_memory pick_memory(calls *calls, void *there) {
  clave_delegate_memory memory = {
      .size = sizeof memory, .memory = there, .bytes = ROOM * COLUMNS * sizeof(float)};
  switch (choose(calls, 20)) {
    case 0:
      memory.bytes = choose(calls, ROOM * COLUMNS * sizeof(float));
      break;
    case 1:
      memory.memory = NULL;
      break;
    case 2:
      memory.kind = CLAVE_DELEGATE_DMA_BUF;
      break;
    case 3:
      memory.kind = (clave_delegate_memory_kind)(choose(calls, 8) + 2);
      break;
    case 4:
      memory.size = choose(calls, 64);
      break;
    case 5:
      memory.offset = choose(calls, COLUMNS) * sizeof(float);
      memory.bytes -= memory.offset;
      break;
    default:
      break;
  }
  return memory;
}

/* ---------------------------------------------------------------- calls */

static inline void call_open(calls *calls) {
  clave_delegate_handle h = 1;
  clave_delegate_device_options options = {
      .size = sizeof options, .device = "cpu", .n_threads = 1, .cache_dir = "off"};
  const unsigned way = choose(calls, 8);
  if (way == 0) options.size = choose(calls, 64);
  if (way == 1) options.device = "no such device";
  if (way == 2) options.cl_queue = &options;
  const bool good = settle(calls, calls->d->open(&options, &h));
  must("a handle exactly where it is good", good == (h != 0));
  if (good) keep(calls->devices, &calls->n_devices, h);
}

static inline void call_create(calls *calls) {
  clave_delegate_handle h = 1;
  clave_delegate_instance_options options = {.size = sizeof options};
  if (choose(calls, 8) == 7) options.size = choose(calls, 64);
  const clave_delegate_handle program = pick_program(calls), device = pick_device(calls);
  const bool good =
      settle(calls, calls->d->create(program, device, choose(calls, 2) ? &options : NULL, &h));
  must("a handle exactly where it is good", good == (h != 0));
  if (good) keep(calls->instances, &calls->n_instances, h);
}

static inline void call_query(calls *calls) {
  small_graph graph;
  clave_delegate_answer answer[2];
  make_graph(&graph);
  if (choose(calls, 2)) spoil_graph(calls, &graph);
  const clave_delegate_handle device = pick_device(calls);
  if (choose(calls, 4) == 0)
    (void)settle(calls, calls->d->query_program(device, pick_program(calls), pick_method(calls),
                                                answer, choose(calls, 3)));
  else
    (void)settle(calls, calls->d->query(device, &graph.g, answer));
}

static inline void call_describe(calls *calls) {
  const clave_delegate_handle p = pick_program(calls);
  const char *method = pick_method(calls);
  const uint32_t index = choose(calls, 3);
  clave_program_info program = {.size = sizeof program};
  clave_method_info info = {.size = sizeof info};
  clave_tensor_info tensor_info = {.size =
                                       choose(calls, 4) ? sizeof tensor_info : choose(calls, 64)};
  clave_node_info node_info = {.size = sizeof node_info};
  clave_device_info device = {.size = sizeof device};
  switch (choose(calls, 7)) {
    case 0:
      (void)settle(calls, calls->d->program_info(p, &program));
      break;
    case 1:
      (void)settle(calls, calls->d->method(p, index, &info));
      break;
    case 2:
      (void)settle(calls, calls->d->input(p, method, index, &tensor_info));
      break;
    case 3:
      (void)settle(calls, calls->d->output(p, method, index, &tensor_info));
      break;
    case 4:
      (void)settle(calls, calls->d->state(p, index, &tensor_info));
      break;
    case 5:
      (void)settle(calls, calls->d->node(p, method, index, &node_info));
      break;
    default:
      (void)settle(calls,
                   calls->d->device_info(pick_device(calls), choose(calls, 4) ? &device : NULL));
  }
}

static inline void call_bind(calls *calls) {
  const clave_delegate_handle in = pick_instance(calls);
  const clave_tensor tensor = pick_tensor(calls);
  const char *method = pick_method(calls);
  const uint32_t index = choose(calls, 16) == 15;
  const bool out = choose(calls, 3) == 2;
  const clave_delegate_memory memory = pick_memory(calls, out ? y_of(calls, in) : calls->x);
  const clave_delegate_memory *given = choose(calls, 8) == 7 ? NULL : &memory;
  if (out)
    (void)settle(calls, calls->d->bind_output(in, method, index, given));
  else if (choose(calls, 2))
    (void)settle(calls,
                 calls->d->set_input(in, method, index, choose(calls, 8) == 7 ? NULL : &tensor));
  else
    (void)settle(calls, calls->d->bind_input(in, method, index,
                                             choose(calls, 8) == 7 ? NULL : &tensor, given));
}

/* Checks that each row of a softmax result has the sum 1. */
static inline void check_result(calls *calls, clave_delegate_handle in) {
  clave_tensor tensor;
  if (!settle(calls, calls->d->result(in, NULL, choose(calls, 16) == 15, &tensor))) return;
  must("a result is there", tensor.rank >= 0 && (tensor.data || tensor.dims[0] == 0));
  if (tensor.rank != 2 || tensor.dims[1] != COLUMNS || tensor.dtype != CLAVE_F32) return;
  calls->n_results++;
  for (int64_t i = 0; i < tensor.dims[0]; i++) {
    const float *row = (const float *)tensor.data + i * COLUMNS;
    const float sum = row[0] + row[1] + row[2] + row[3];
    must("rows of a softmax have the sum 1", sum > 0.999f && sum < 1.001f);
  }
}

static inline void call_run(calls *calls) {
  const clave_delegate_handle in = pick_instance(calls);
  const char *method = pick_method(calls);
  bool over = false;
  switch (choose(calls, 6)) {
    case 0:
      (void)settle(calls, calls->d->submit(in, method, NULL, NULL));
      break;
    case 1:
      (void)settle(calls,
                   calls->d->wait(in, (int)choose(calls, 3) - 1, choose(calls, 8) ? &over : NULL));
      break;
    case 2:
      (void)settle(calls, calls->d->cancel(in));
      break;
    default:
      calls->n_good += settle(calls, calls->d->execute(in, method));
  }
}

/* Sets tensors of the right sizes and runs any instance. */
static inline void call_whole(calls *calls) {
  const clave_delegate_handle in = pick_instance(calls);
  const int64_t n = choose(calls, ROOM);
  const clave_tensor tensor = {.dtype = CLAVE_F32,
                               .rank = 2,
                               .dims = {n, COLUMNS},
                               .strides = {COLUMNS, 1},
                               .data = calls->x};
  const clave_delegate_memory input = {
      .size = sizeof input, .memory = calls->x, .bytes = (size_t)n * COLUMNS * 4};
  const clave_delegate_memory output = {
      .size = sizeof output, .memory = y_of(calls, in), .bytes = (size_t)n * COLUMNS * 4};
  const bool set = choose(calls, 2), bound = choose(calls, 2);
  if (!settle(calls, set ? calls->d->set_input(in, NULL, 0, &tensor)
                         : calls->d->bind_input(in, NULL, 0, &tensor, &input)))
    return;
  (void)settle(calls, calls->d->bind_output(in, NULL, 0, bound ? &output : NULL));
  calls->n_good += settle(calls, calls->d->execute(in, "forward"));
  check_result(calls, in);
}

static inline void call_state(calls *calls) {
  const clave_delegate_handle in = pick_instance(calls);
  char bytes[8] = {0};
  switch (choose(calls, 6)) {
    case 0:
      (void)settle(calls, calls->d->reset(in));
      break;
    case 1:
      (void)settle(calls, calls->d->resize(in, choose(calls, 2) ? "n" : NULL, choose(calls, 9)));
      break;
    case 2:
      (void)settle(calls, calls->d->read_state(in, choose(calls, 2), bytes, choose(calls, 9)));
      break;
    case 3:
      (void)settle(calls, calls->d->write_state(in, choose(calls, 2), bytes, choose(calls, 9)));
      break;
    case 4:
      (void)settle(calls, calls->d->copy_state(in, pick_instance(calls)));
      break;
    default:
      (void)settle(calls, calls->d->observe(in, NULL, NULL));
  }
}

static inline void call_close(calls *calls) {
  switch (choose(calls, 4)) {
    case 0:
      (void)settle(calls, calls->d->close(pick_device(calls)));
      break;
    case 1:
      (void)settle(calls, calls->d->unload(pick_program(calls)));
      break;
    default:
      (void)settle(calls, calls->d->destroy(pick_instance(calls)));
  }
}

static inline float *new_block(void) {
  float *block = malloc(ROOM * COLUMNS * sizeof *block);
  must("memory", block != NULL);
  for (int i = 0; i < ROOM * COLUMNS; i++) block[i] = (float)i * 0.25f;
  return block;
}

static inline void begin_calls(calls *calls) {
  calls->x = new_block();
  for (int i = 0; i < N_HANDLES; i++) calls->y[i] = new_block();
}

/* Makes a valid object of each kind. */
static inline void begin_objects(calls *calls) {
  small_graph graph;
  make_graph(&graph);
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &graph.g, .copy = true};
  const clave_delegate_device_options options = {
      .size = sizeof options, .device = "cpu", .n_threads = 1, .cache_dir = "off"};
  must("a device", settle(calls, calls->d->open(&options, &calls->devices[calls->n_devices++])));
  must("a program", settle(calls, calls->d->load(&payload, &calls->programs[calls->n_programs++])));
  must("an instance", settle(calls, calls->d->create(calls->programs[0], calls->devices[0], NULL,
                                                     &calls->instances[calls->n_instances++])));
}

/* Destroys all objects. Handles beyond the last N_HANDLES would be lost, so no more are made. */
static inline void end_calls(calls *calls) {
  bool over;
  for (int i = 0; i < N_HANDLES; i++) {
    (void)settle(calls, calls->d->cancel(calls->instances[i]));
    (void)settle(calls, calls->d->wait(calls->instances[i], -1, &over));
    (void)settle(calls, calls->d->destroy(calls->instances[i]));
    (void)settle(calls, calls->d->unload(calls->programs[i]));
    (void)settle(calls, calls->d->close(calls->devices[i]));
    must("a handle that was closed is none",
         !calls->instances[i] || !settle(calls, calls->d->destroy(calls->instances[i])));
  }
  must("every payload is given back", calls->borrowed == 0);
  free(calls->x);
  for (int i = 0; i < N_HANDLES; i++) free(calls->y[i]);
}

static inline calls run_calls(const clave_delegate *delegate, const void *clv, size_t clv_size,
                              const uint8_t *bytes, size_t size) {
  static void (*const all[])(calls * c) = {call_load, call_create, call_query, call_describe,
                                           call_bind, call_bind,   call_bind,  call_run,
                                           call_run,  call_run,    call_state, call_close,
                                           call_open, call_whole,  call_whole, call_whole};
  calls calls = {.d = delegate, .bytes = bytes, .size = size, .clv = clv, .clv_size = clv_size};
  begin_calls(&calls);
  begin_objects(&calls);
  while (calls.at < calls.size) {
    const unsigned what = choose(&calls, sizeof all / sizeof *all + 2);
    if (what >= sizeof all / sizeof *all)
      check_result(&calls, pick_instance(&calls));
    else if ((all[what] != call_load || calls.n_programs < N_HANDLES) &&
             (all[what] != call_create || calls.n_instances < N_HANDLES) &&
             (all[what] != call_open || calls.n_devices < N_HANDLES))
      all[what](&calls);
  }
  end_calls(&calls);
  return calls;
}

#endif
