#ifndef TEST_DELEGATE_CALLS_H
#define TEST_DELEGATE_CALLS_H
/* Sequences of calls of the plugin, right and wrong, that bytes choose: handles of all kinds, given
 * back or never given, tensors that do not fit, runs in flight. Whatever the sequence, each call
 * returns, an error has a line, a good run has the right result, and in the end all is let go. */
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
  int n_devices, n_programs, n_instances; /* ever made; the last of each N_HANDLES are known */
  int borrowed;                           /* payloads that were not given back yet */
  const void *clv;
  size_t clv_size;
  long n_good, n_results;  /* runs that were good; results that were looked at */
  float *x, *y[N_HANDLES]; /* blocks of ROOM * COLUMNS floats; y: of each instance its own */
} calls;

static inline void must(const char *what, bool good) {
  if (good) return;
  fprintf(stderr, "calls: %s\n", what);
  abort();
}

/* The next choice of n; 0 when the bytes are used up. */
static inline unsigned choose(calls *c, unsigned n) {
  return c->at < c->size ? c->bytes[c->at++] % n : 0;
}

/* Whether it was good. */
static inline bool settle(const calls *c, clave_status st) {
  const char *line = c->d->status_message(st);
  must("an error has one line", !st || (line[0] && !strchr(line, '\n')));
  c->d->status_free(st);
  return !st;
}

/* One of a kind that is or was, mostly; else another, or nothing. */
static inline clave_delegate_handle pick(calls *c, const clave_delegate_handle *list, int n) {
  const unsigned way = choose(c, 32);
  if (way == 0) return 0;
  if (way == 1) return c->devices[choose(c, N_HANDLES)];
  if (way == 2) return c->programs[choose(c, N_HANDLES)];
  if (way == 3) return c->instances[choose(c, N_HANDLES)];
  if (way == 4) return (clave_delegate_handle)choose(c, 256) << 56 | choose(c, 256);
  const int known = n < N_HANDLES ? n : N_HANDLES;
  if (way < 14 && known) return list[choose(c, (unsigned)known)];
  return known ? list[(n - 1) % N_HANDLES] : 0;
}

static inline clave_delegate_handle pick_device(calls *c) {
  return pick(c, c->devices, c->n_devices);
}
static inline clave_delegate_handle pick_program(calls *c) {
  return pick(c, c->programs, c->n_programs);
}
static inline clave_delegate_handle pick_instance(calls *c) {
  return pick(c, c->instances, c->n_instances);
}
static inline float *y_of(const calls *c, clave_delegate_handle instance) {
  int i = 0;
  while (i < N_HANDLES - 1 && c->instances[i] != instance) i++;
  return c->y[i];
}
static inline const char *pick_method(calls *c) {
  static const char *const names[] = {NULL, "backward", ""};
  const unsigned way = choose(c, 16);
  return way < 3 ? names[way] : "forward";
}

static inline void keep(clave_delegate_handle *list, int *n, clave_delegate_handle h) {
  list[(*n)++ % N_HANDLES] = h;
}

/* ---------------------------------------------------------------- payloads */

/* Softmax of (n, 4), n up to 5, or something like it that bytes have changed. */
typedef struct small_graph {
  clave_delegate_size size;
  clave_delegate_tensor tensors[2];
  clave_delegate_field fields[3];
  clave_delegate_node node;
  clave_delegate_graph g;
  uint32_t index[2];
} small_graph;

static inline void make_graph(small_graph *s) {
  memset(s, 0, sizeof *s);
  s->index[1] = 1;
  s->size = (clave_delegate_size){"n", 0, ROOM - 1};
  s->tensors[0] =
      (clave_delegate_tensor){"x", CLAVE_SLOT_INPUT, CLAVE_F32, 2, {0, COLUMNS}, {1, 0}, NULL};
  s->tensors[1] = s->tensors[0];
  s->tensors[1].name = "y";
  s->tensors[1].kind = CLAVE_SLOT_OUTPUT;
  s->fields[0] = (clave_delegate_field){
      .name = "x", .kind = CLAVE_DELEGATE_READS, .n = 1, .tensors = &s->index[0]};
  s->fields[1] = (clave_delegate_field){.name = "axis", .kind = CLAVE_DELEGATE_INT, .i = 1};
  s->fields[2] = (clave_delegate_field){
      .name = "out", .kind = CLAVE_DELEGATE_WRITES, .n = 1, .tensors = &s->index[1]};
  s->node = (clave_delegate_node){"Softmax", "", s->fields, 3};
  s->g = (clave_delegate_graph){.size = sizeof s->g,
                                .sizes = &s->size,
                                .n_sizes = 1,
                                .tensors = s->tensors,
                                .n_tensors = 2,
                                .nodes = &s->node,
                                .n_nodes = 1};
}

static inline void spoil_graph(calls *c, small_graph *s) {
  clave_delegate_tensor *t = &s->tensors[choose(c, 2)];
  clave_delegate_field *f = &s->fields[choose(c, 3)];
  switch (choose(c, 16)) {
    case 0:
      t->rank = (int)choose(c, 12) - 1;
      break;
    case 1:
      t->dtype = (clave_dtype)choose(c, 20);
      break;
    case 2:
      t->kind = (clave_slot_kind)choose(c, 7);
      break;
    case 3:
      t->sizes[choose(c, 8)] = choose(c, 4);
      break;
    case 4:
      t->dims[choose(c, 2)] = (int64_t)((uint64_t)choose(c, 256) << choose(c, 64));
      break;
    case 5:
      t->name = choose(c, 2) ? NULL : "x";
      break;
    case 6:
      f->kind = (clave_delegate_field_kind)choose(c, 13);
      break;
    case 7:
      f->n = choose(c, 3);
      break;
    case 8:
      f->tensors = choose(c, 2) ? NULL : &s->index[choose(c, 2)];
      break;
    case 9:
      f->name = choose(c, 2) ? NULL : "out";
      break;
    case 10:
      s->index[choose(c, 2)] = choose(c, 5);
      break;
    case 11:
      s->node.op = choose(c, 2) ? NULL : "Matmul";
      break;
    case 12:
      s->node.n_fields = choose(c, 4);
      break;
    case 13:
      s->g.n_nodes = choose(c, 2);
      break;
    case 14:
      f->i = (int64_t)choose(c, 256) - 128;
      break;
    default:
      s->size.max = (int64_t)choose(c, 10) - 5;
      break;
  }
}

typedef struct loan {
  calls *c;
  void *bytes;
} loan;

static inline void end_loan(void *ctx) {
  loan *l = ctx;
  l->c->borrowed--;
  free(l->bytes);
  free(l);
}

/* Bytes in a block of their own, freed when the plugin says that it reads them no more. */
static inline void load_clv(calls *c, clave_delegate_payload *p) {
  loan *l = malloc(sizeof *l);
  char *bytes = malloc(c->clv_size);
  must("memory", l && bytes);
  memcpy(bytes, c->clv, c->clv_size);
  *l = (loan){c, bytes};
  const unsigned way = choose(c, 4);
  p->data = bytes;
  p->data_size = way == 1 ? choose(c, 256) * 16 % c->clv_size : c->clv_size;
  if (way == 2) bytes[choose(c, 256) * 18 % c->clv_size] ^= (char)(1 << choose(c, 8));
  p->release = end_loan;
  p->release_ctx = l;
  c->borrowed++;
}

static inline void call_load(calls *c) {
  small_graph s;
  clave_delegate_handle h = 1;
  clave_delegate_payload p = {.size = sizeof p, .copy = choose(c, 2)};
  const unsigned way = choose(c, 8);
  make_graph(&s);
  p.graph = &s.g;
  p.format = CLAVE_DELEGATE_GRAPH;
  if (way == 0) p.format = (clave_delegate_format)choose(c, 5);
  if (way == 1) p.size = choose(c, 64);
  if (way == 2) spoil_graph(c, &s);
  if (way == 3) {
    p.format = CLAVE_DELEGATE_CLV;
    load_clv(c, &p);
  }
  if (way == 4) p.graph = NULL;
  const bool good = settle(c, c->d->load(&p, &h));
  must("a handle exactly where it is good", good == (h != 0));
  if (good) keep(c->programs, &c->n_programs, h);
}

/* ---------------------------------------------------------------- tensors */

static inline clave_tensor pick_tensor(calls *c) {
  clave_tensor t = {.dtype = CLAVE_F32,
                    .rank = 2,
                    .dims = {choose(c, ROOM), COLUMNS},
                    .strides = {COLUMNS, 1},
                    .data = c->x};
  switch (choose(c, 24)) {
    case 0:
      t.rank = (int)choose(c, 12) - 2;
      break;
    case 1:
      t.dtype = (clave_dtype)choose(c, 18);
      break;
    case 2:
      t.dims[choose(c, 2)] = (int64_t)choose(c, 12) - 6;
      break;
    case 3:
      t.dims[choose(c, 2)] = INT64_MAX >> choose(c, 64);
      break;
    case 4:
      t.strides[choose(c, 2)] = INT64_MIN >> choose(c, 64);
      break;
    case 5:
      t.data = NULL;
      break;
    case 6:
      t.strides[0] = 0;
      break;
    default:
      break;
  }
  if (t.strides[0] < 0 || t.strides[1] < 0 || t.strides[0] > COLUMNS || t.dims[0] > ROOM ||
      t.dims[1] > COLUMNS)
    t.data = NULL; /* what the description says is there would not be */
  return t;
}

static inline clave_delegate_memory pick_memory(calls *c, void *there) {
  clave_delegate_memory m = {
      .size = sizeof m, .memory = there, .bytes = ROOM * COLUMNS * sizeof(float)};
  switch (choose(c, 20)) {
    case 0:
      m.bytes = choose(c, ROOM * COLUMNS * sizeof(float));
      break;
    case 1:
      m.memory = NULL;
      break;
    case 2:
      m.kind = CLAVE_DELEGATE_DMA_BUF;
      break;
    case 3:
      m.kind = (clave_delegate_memory_kind)(choose(c, 8) + 2);
      break;
    case 4:
      m.size = choose(c, 64);
      break;
    case 5:
      m.offset = choose(c, COLUMNS) * sizeof(float);
      m.bytes -= m.offset;
      break;
    default:
      break;
  }
  return m;
}

/* ---------------------------------------------------------------- calls */

static inline void call_open(calls *c) {
  clave_delegate_handle h = 1;
  clave_delegate_device_options o = {
      .size = sizeof o, .device = "cpu", .n_threads = 1, .cache_dir = "off"};
  const unsigned way = choose(c, 8);
  if (way == 0) o.size = choose(c, 64);
  if (way == 1) o.device = "no such device";
  if (way == 2) o.cl_queue = &o;
  const bool good = settle(c, c->d->open(&o, &h));
  must("a handle exactly where it is good", good == (h != 0));
  if (good) keep(c->devices, &c->n_devices, h);
}

static inline void call_create(calls *c) {
  clave_delegate_handle h = 1;
  clave_delegate_instance_options o = {.size = sizeof o};
  if (choose(c, 8) == 7) o.size = choose(c, 64);
  const clave_delegate_handle program = pick_program(c), device = pick_device(c);
  const bool good = settle(c, c->d->create(program, device, choose(c, 2) ? &o : NULL, &h));
  must("a handle exactly where it is good", good == (h != 0));
  if (good) keep(c->instances, &c->n_instances, h);
}

static inline void call_query(calls *c) {
  small_graph s;
  clave_delegate_answer a[2];
  make_graph(&s);
  if (choose(c, 2)) spoil_graph(c, &s);
  const clave_delegate_handle device = pick_device(c);
  if (choose(c, 4) == 0)
    (void)settle(c, c->d->query_program(device, pick_program(c), pick_method(c), a, choose(c, 3)));
  else
    (void)settle(c, c->d->query(device, &s.g, a));
}

static inline void call_describe(calls *c) {
  const clave_delegate_handle p = pick_program(c);
  const char *method = pick_method(c);
  const uint32_t index = choose(c, 3);
  clave_program_info program = {.size = sizeof program};
  clave_method_info m = {.size = sizeof m};
  clave_tensor_info t = {.size = choose(c, 4) ? sizeof t : choose(c, 64)};
  clave_node_info n = {.size = sizeof n};
  clave_device_info device = {.size = sizeof device};
  switch (choose(c, 7)) {
    case 0:
      (void)settle(c, c->d->program_info(p, &program));
      break;
    case 1:
      (void)settle(c, c->d->method(p, index, &m));
      break;
    case 2:
      (void)settle(c, c->d->input(p, method, index, &t));
      break;
    case 3:
      (void)settle(c, c->d->output(p, method, index, &t));
      break;
    case 4:
      (void)settle(c, c->d->state(p, index, &t));
      break;
    case 5:
      (void)settle(c, c->d->node(p, method, index, &n));
      break;
    default:
      (void)settle(c, c->d->device_info(pick_device(c), choose(c, 4) ? &device : NULL));
  }
}

static inline void call_bind(calls *c) {
  const clave_delegate_handle in = pick_instance(c);
  const clave_tensor t = pick_tensor(c);
  const char *method = pick_method(c);
  const uint32_t index = choose(c, 16) == 15;
  const bool out = choose(c, 3) == 2;
  const clave_delegate_memory m = pick_memory(c, out ? y_of(c, in) : c->x);
  const clave_delegate_memory *given = choose(c, 8) == 7 ? NULL : &m;
  if (out)
    (void)settle(c, c->d->bind_output(in, method, index, given));
  else if (choose(c, 2))
    (void)settle(c, c->d->set_input(in, method, index, choose(c, 8) == 7 ? NULL : &t));
  else
    (void)settle(c, c->d->bind_input(in, method, index, choose(c, 8) == 7 ? NULL : &t, given));
}

/* The rows of what softmax gives have the sum 1. */
static inline void check_result(calls *c, clave_delegate_handle in) {
  clave_tensor y;
  if (!settle(c, c->d->result(in, NULL, choose(c, 16) == 15, &y))) return;
  must("a result is there", y.rank >= 0 && (y.data || y.dims[0] == 0));
  if (y.rank != 2 || y.dims[1] != COLUMNS || y.dtype != CLAVE_F32) return;
  c->n_results++;
  for (int64_t i = 0; i < y.dims[0]; i++) {
    const float *row = (const float *)y.data + i * COLUMNS;
    const float sum = row[0] + row[1] + row[2] + row[3];
    must("rows of a softmax have the sum 1", sum > 0.999f && sum < 1.001f);
  }
}

static inline void call_run(calls *c) {
  const clave_delegate_handle in = pick_instance(c);
  const char *method = pick_method(c);
  bool over = false;
  switch (choose(c, 6)) {
    case 0:
      (void)settle(c, c->d->submit(in, method, NULL, NULL));
      break;
    case 1:
      (void)settle(c, c->d->wait(in, (int)choose(c, 3) - 1, choose(c, 8) ? &over : NULL));
      break;
    case 2:
      (void)settle(c, c->d->cancel(in));
      break;
    default:
      c->n_good += settle(c, c->d->execute(in, method));
  }
}

/* Right sizes and a run, of an instance that may be any. */
static inline void call_whole(calls *c) {
  const clave_delegate_handle in = pick_instance(c);
  const int64_t n = choose(c, ROOM);
  const clave_tensor t = {
      .dtype = CLAVE_F32, .rank = 2, .dims = {n, COLUMNS}, .strides = {COLUMNS, 1}, .data = c->x};
  const clave_delegate_memory x = {
      .size = sizeof x, .memory = c->x, .bytes = (size_t)n * COLUMNS * 4};
  const clave_delegate_memory y = {
      .size = sizeof y, .memory = y_of(c, in), .bytes = (size_t)n * COLUMNS * 4};
  const bool set = choose(c, 2), bound = choose(c, 2);
  if (!settle(c, set ? c->d->set_input(in, NULL, 0, &t) : c->d->bind_input(in, NULL, 0, &t, &x)))
    return;
  (void)settle(c, c->d->bind_output(in, NULL, 0, bound ? &y : NULL));
  c->n_good += settle(c, c->d->execute(in, "forward"));
  check_result(c, in);
}

static inline void call_state(calls *c) {
  const clave_delegate_handle in = pick_instance(c);
  char bytes[8] = {0};
  switch (choose(c, 6)) {
    case 0:
      (void)settle(c, c->d->reset(in));
      break;
    case 1:
      (void)settle(c, c->d->resize(in, choose(c, 2) ? "n" : NULL, choose(c, 9)));
      break;
    case 2:
      (void)settle(c, c->d->read_state(in, choose(c, 2), bytes, choose(c, 9)));
      break;
    case 3:
      (void)settle(c, c->d->write_state(in, choose(c, 2), bytes, choose(c, 9)));
      break;
    case 4:
      (void)settle(c, c->d->copy_state(in, pick_instance(c)));
      break;
    default:
      (void)settle(c, c->d->observe(in, NULL, NULL));
  }
}

static inline void call_close(calls *c) {
  switch (choose(c, 4)) {
    case 0:
      (void)settle(c, c->d->close(pick_device(c)));
      break;
    case 1:
      (void)settle(c, c->d->unload(pick_program(c)));
      break;
    default:
      (void)settle(c, c->d->destroy(pick_instance(c)));
  }
}

static inline float *new_block(void) {
  float *block = malloc(ROOM * COLUMNS * sizeof *block);
  must("memory", block != NULL);
  for (int i = 0; i < ROOM * COLUMNS; i++) block[i] = (float)i * 0.25f;
  return block;
}

static inline void begin_calls(calls *c) {
  c->x = new_block();
  for (int i = 0; i < N_HANDLES; i++) c->y[i] = new_block();
}

/* One of each kind that is as it should be. */
static inline void begin_objects(calls *c) {
  small_graph s;
  make_graph(&s);
  const clave_delegate_payload p = {
      .size = sizeof p, .format = CLAVE_DELEGATE_GRAPH, .graph = &s.g, .copy = true};
  const clave_delegate_device_options o = {
      .size = sizeof o, .device = "cpu", .n_threads = 1, .cache_dir = "off"};
  must("a device", settle(c, c->d->open(&o, &c->devices[c->n_devices++])));
  must("a program", settle(c, c->d->load(&p, &c->programs[c->n_programs++])));
  must("an instance", settle(c, c->d->create(c->programs[0], c->devices[0], NULL,
                                             &c->instances[c->n_instances++])));
}

/* Handles that were forgotten, as more than N_HANDLES were made, are not in it: so many are not
 * made. */
static inline void end_calls(calls *c) {
  bool over;
  for (int i = 0; i < N_HANDLES; i++) {
    (void)settle(c, c->d->cancel(c->instances[i]));
    (void)settle(c, c->d->wait(c->instances[i], -1, &over));
    (void)settle(c, c->d->destroy(c->instances[i]));
    (void)settle(c, c->d->unload(c->programs[i]));
    (void)settle(c, c->d->close(c->devices[i]));
    must("a handle that was closed is none",
         !c->instances[i] || !settle(c, c->d->destroy(c->instances[i])));
  }
  must("every payload is given back", c->borrowed == 0);
  free(c->x);
  for (int i = 0; i < N_HANDLES; i++) free(c->y[i]);
}

static inline calls run_calls(const clave_delegate *d, const void *clv, size_t clv_size,
                              const uint8_t *bytes, size_t size) {
  static void (*const all[])(calls * c) = {call_load, call_create, call_query, call_describe,
                                           call_bind, call_bind,   call_bind,  call_run,
                                           call_run,  call_run,    call_state, call_close,
                                           call_open, call_whole,  call_whole, call_whole};
  calls c = {.d = d, .bytes = bytes, .size = size, .clv = clv, .clv_size = clv_size};
  begin_calls(&c);
  begin_objects(&c);
  while (c.at < c.size) {
    const unsigned what = choose(&c, sizeof all / sizeof *all + 2);
    if (what >= sizeof all / sizeof *all)
      check_result(&c, pick_instance(&c));
    else if ((all[what] != call_load || c.n_programs < N_HANDLES) &&
             (all[what] != call_create || c.n_instances < N_HANDLES) &&
             (all[what] != call_open || c.n_devices < N_HANDLES))
      all[what](&c);
  }
  end_calls(&c);
  return c;
}

#endif
