/* The application's side of clave_delegate.h. */
#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- opening */

/* False where there is an error, which is said and freed. */
static bool good(const plugin *p, clave_status st) {
  if (!st) return true;
  fprintf(stderr, "host_app: note: clave: %s\n", p->d.status_message(st));
  p->d.status_free(st);
  return false;
}

static void log_line(void *ctx, const char *line) {
  (void)ctx;
  fprintf(stderr, "host_app: note: clave: %s\n", line);
}

static bool open_library(plugin *p, const char *path) {
  clave_delegate_register_fn get = NULL;
  p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = p->library ? dlsym(p->library, CLAVE_DELEGATE_REGISTER) : NULL;
  if (!symbol) {
    fprintf(stderr, "host_app: note: no plugin: %s\n", dlerror());
    return false;
  }
  memcpy(&get, &symbol, sizeof get);
  p->d = (clave_delegate){.size = sizeof p->d};
  if (get(CLAVE_DELEGATE_VERSION, &p->d) == CLAVE_OK) return true;
  fprintf(stderr, "host_app: note: %s is a plugin of another version\n", path);
  return false;
}

bool plugin_open(plugin *p, const char *path, void *context, void *device, void *queue) {
  const clave_delegate_device_options options = {.size = sizeof options,
                                                 .log = log_line,
                                                 .cl_context = context,
                                                 .cl_device = device,
                                                 .cl_queue = queue};
  memset(p, 0, sizeof *p);
  memset(p->part_of, -1, sizeof p->part_of);
  if (open_library(p, path) && good(p, p->d.open(&options, &p->device))) return true;
  plugin_close(p);
  return false;
}

void plugin_close(plugin *p) {
  if (!p->library) return;
  for (int i = 0; i < p->n_parts; i++) {
    (void)good(p, p->d.destroy(p->parts[i].instance));
    (void)good(p, p->d.unload(p->parts[i].program));
  }
  if (p->device) (void)good(p, p->d.close(p->device));
  (void)dlclose(p->library);
  memset(p, 0, sizeof *p);
}

/* ---------------------------------------------------------------- the graph in clave's words */

typedef struct described {
  clave_delegate_field fields[10];
  uint32_t n;
  uint32_t tensors[4]; /* inputs, then the output */
  int64_t ints[16];
  uint32_t n_ints;
} described;

static clave_delegate_field *add_field(described *d, const char *name,
                                       clave_delegate_field_kind kind) {
  clave_delegate_field *f = &d->fields[d->n++];
  *f = (clave_delegate_field){.name = name, .kind = kind};
  return f;
}

static void add_tensors(described *d, const char *name, clave_delegate_field_kind kind, int first,
                        int n) {
  clave_delegate_field *f = add_field(d, name, kind);
  f->tensors = &d->tensors[first];
  f->n = (uint32_t)n;
}

static void add_ints(described *d, const char *name, clave_delegate_field_kind kind,
                     const int64_t *values, uint32_t n) {
  clave_delegate_field *f = add_field(d, name, kind);
  f->ints = memcpy(&d->ints[d->n_ints], values, n * sizeof *values);
  f->n = n;
  d->n_ints += n;
}

static void add_pair(described *d, const char *name, int64_t value) {
  add_ints(d, name, CLAVE_DELEGATE_INTS, (const int64_t[]){value, value}, 2);
}

static void add_step(described *d, const char *kind, const clave_delegate_operand *operands,
                     uint32_t n) {
  clave_delegate_field *f = add_field(d, kind, CLAVE_DELEGATE_STEP);
  f->dtype = CLAVE_F32;
  f->operands = operands;
  f->n = n;
}

static void describe_conv(described *d, const node *n) {
  add_tensors(d, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_tensors(d, "weight", CLAVE_DELEGATE_READS, 1, 1);
  add_tensors(d, "bias", CLAVE_DELEGATE_READS, 2, 1);
  add_pair(d, "stride", n->stride);
  add_pair(d, "padding", 1);
  add_pair(d, "dilation", 1);
}

static void describe_dense(described *d, const node *n) {
  (void)n;
  add_tensors(d, "a", CLAVE_DELEGATE_READS, 0, 1);
  add_tensors(d, "b", CLAVE_DELEGATE_READS, 1, 1);
  add_tensors(d, "bias", CLAVE_DELEGATE_READS, 2, 1);
}

#define INPUT(number) \
  { .source = CLAVE_DELEGATE_OPERAND_INPUT, .i = number }
#define STEP(number) \
  { .source = CLAVE_DELEGATE_OPERAND_STEP, .i = number }
static const clave_delegate_operand one[] = {INPUT(0)}, two[] = {INPUT(0), INPUT(1)},
                                    scaled[] = {INPUT(0),
                                                {.source = CLAVE_DELEGATE_OPERAND_FLOAT,
                                                 .f = 1.0 / 255}},
                                    shifted[] = {STEP(0), INPUT(1)},
                                    divided[] = {STEP(1), INPUT(2)};

static void describe_normalise(described *d, const node *n) {
  add_tensors(d, "inputs", CLAVE_DELEGATE_READS_LIST, 0, n->n_inputs);
  add_step(d, "mul", scaled, 2);
  add_step(d, "sub", shifted, 2);
  add_step(d, "div", divided, 2);
}

static void describe_relu(described *d, const node *n) {
  add_tensors(d, "inputs", CLAVE_DELEGATE_READS_LIST, 0, n->n_inputs);
  add_step(d, "relu", one, 1);
}

static void describe_add(described *d, const node *n) {
  add_tensors(d, "inputs", CLAVE_DELEGATE_READS_LIST, 0, n->n_inputs);
  add_step(d, "add", two, 2);
}

/* The largest of one pixel, in steps of two. */
static void describe_every_other(described *d, const node *n) {
  (void)n;
  add_field(d, "kind", CLAVE_DELEGATE_TEXT)->text = "max";
  add_tensors(d, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_pair(d, "kernel", 1);
  add_pair(d, "stride", 2);
  add_pair(d, "padding", 0);
  add_pair(d, "dilation", 1);
}

static void describe_pad(described *d, const node *n) {
  const int64_t around[] = {0, n->pad, 0, 0};
  add_tensors(d, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_ints(d, "before", CLAVE_DELEGATE_SIZES, around, 4);
  add_ints(d, "after", CLAVE_DELEGATE_SIZES, around, 4);
}

static void describe_mean(described *d, const node *n) {
  (void)n;
  add_field(d, "kind", CLAVE_DELEGATE_TEXT)->text = "mean";
  add_tensors(d, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_ints(d, "axes", CLAVE_DELEGATE_INTS, (const int64_t[]){2, 3}, 2);
}

/* What has no counterpart is asked for by its own name, and refused. */
static const struct {
  const char *op;
  void (*describe)(described *d, const node *n);
} words[N_OPS] = {
    [OP_NORMALISE] = {"Elementwise", describe_normalise},
    [OP_CONV] = {"Conv", describe_conv},
    [OP_RELU] = {"Elementwise", describe_relu},
    [OP_ADD] = {"Elementwise", describe_add},
    [OP_EVERY_OTHER] = {"Pool", describe_every_other},
    [OP_PAD] = {"Pad", describe_pad},
    [OP_MEAN] = {"Reduce", describe_mean},
    [OP_DENSE] = {"Matmul", describe_dense},
};

static clave_delegate_node describe(described *d, const node *n) {
  memset(d, 0, sizeof *d);
  for (int i = 0; i < n->n_inputs; i++) d->tensors[i] = (uint32_t)n->inputs[i];
  d->tensors[n->n_inputs] = (uint32_t)n->output;
  if (words[n->op].describe) {
    words[n->op].describe(d, n);
    add_tensors(d, "out", CLAVE_DELEGATE_WRITES, n->n_inputs, 1);
  }
  return (clave_delegate_node){.op = words[n->op].op ? words[n->op].op : op_names[n->op],
                               .name = n->name,
                               .fields = d->fields,
                               .n_fields = d->n};
}

/* All tensors and nodes [first, first + count); tensors of no part are temporaries without use. */
typedef struct translation {
  clave_delegate_size sizes[1];
  clave_delegate_tensor tensors[MAX_TENSORS];
  described described[MAX_NODES];
  clave_delegate_node nodes[MAX_NODES];
  clave_delegate_graph graph;
} translation;

static translation *translate(const graph *g, int first, int count) {
  translation *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->sizes[0] = (clave_delegate_size){"n", 1, BATCH};
  for (int i = 0; i < g->n_tensors; i++) {
    const tensor *from = &g->tensors[i];
    clave_delegate_tensor *to = &t->tensors[i];
    *to =
        (clave_delegate_tensor){.name = from->name,
                                .kind = from->constant ? CLAVE_SLOT_CONSTANT : CLAVE_SLOT_TEMPORARY,
                                .dtype = CLAVE_F32,
                                .rank = from->rank,
                                .sizes = {from->constant ? 0 : 1},
                                .data = from->constant ? from->data : NULL};
    memcpy(to->dims, from->dims, sizeof from->dims);
  }
  for (int i = 0; i < count; i++) t->nodes[i] = describe(&t->described[i], &g->nodes[first + i]);
  t->graph = (clave_delegate_graph){.size = sizeof t->graph,
                                    .sizes = t->sizes,
                                    .n_sizes = 1,
                                    .tensors = t->tensors,
                                    .n_tensors = (uint32_t)g->n_tensors,
                                    .nodes = t->nodes,
                                    .n_nodes = (uint32_t)count};
  return t;
}

/* ---------------------------------------------------------------- dividing */

static bool is_listed(const int *list, int n, int tensor) {
  for (int i = 0; i < n; i++)
    if (list[i] == tensor) return true;
  return false;
}

static bool writes(const graph *g, int from, int to, int tensor) {
  for (int i = from; i < to; i++)
    if (g->nodes[i].output == tensor) return true;
  return false;
}

static bool reads(const graph *g, int from, int to, int tensor) {
  for (int i = from; i < to; i++)
    if (is_listed(g->nodes[i].inputs, g->nodes[i].n_inputs, tensor)) return true;
  return false;
}

/* What a part takes from before it and gives to behind it. False: more than MAX_ARGUMENTS. */
static bool find_arguments(const graph *g, part *p) {
  const int end = p->first + p->count;
  for (int t = 0; t < g->n_tensors; t++) {
    const bool written = writes(g, p->first, end, t), constant = g->tensors[t].constant;
    if (!constant && !written && reads(g, p->first, end, t)) {
      if (p->n_inputs == MAX_ARGUMENTS) return false;
      p->inputs[p->n_inputs++] = t;
    }
    if (written && reads(g, end, g->n_nodes, t)) {
      if (p->n_outputs == MAX_ARGUMENTS) return false;
      p->outputs[p->n_outputs++] = t;
    }
  }
  return true;
}

static bool load_part(plugin *p, const graph *g, part *q) {
  translation *t = find_arguments(g, q) ? translate(g, q->first, q->count) : NULL;
  if (!t) return false;
  for (int i = 0; i < q->n_inputs; i++) t->tensors[q->inputs[i]].kind = CLAVE_SLOT_INPUT;
  for (int i = 0; i < q->n_outputs; i++) t->tensors[q->outputs[i]].kind = CLAVE_SLOT_OUTPUT;
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &t->graph};
  const bool loaded = good(p, p->d.load(&payload, &q->program)) &&
                      good(p, p->d.create(q->program, p->device, NULL, &q->instance));
  free(t);
  return loaded;
}

/* The nodes that clave takes, one by one. */
static void ask(plugin *p, const graph *g, clave_delegate_answer *answers) {
  translation *t = translate(g, 0, g->n_nodes);
  memset(answers, 0, (size_t)g->n_nodes * sizeof *answers);
  if (t) (void)good(p, p->d.query(p->device, &t->graph, answers));
  free(t);
}

void plugin_divide(plugin *p, graph *g, const bool *own) {
  clave_delegate_answer answers[MAX_NODES];
  ask(p, g, answers);
  for (int i = 0; i < g->n_nodes;) {
    part *q = &p->parts[p->n_parts];
    *q = (part){.first = i};
    while (i < g->n_nodes && answers[i].supported && !own[g->nodes[i].op]) i++, q->count++;
    if (q->count == 0) {
      i++;
    } else if (load_part(p, g, q)) {
      for (int k = q->first; k < i; k++) p->part_of[k] = p->n_parts;
      p->n_parts++;
    } else {
      (void)good(p, p->d.unload(q->program));
    }
  }
}

/* ---------------------------------------------------------------- running */

static clave_delegate_memory memory_of(const plugin *p, const graph *g, int index, int n) {
  const tensor *t = &g->tensors[index];
  clave_delegate_memory m = {.size = sizeof m, .memory = t->data};
  m.bytes = (size_t)tensor_elements(t, n) * sizeof *t->data;
  if (p->dma_buf[index]) {
    m.kind = CLAVE_DELEGATE_DMA_BUF;
    m.fd = p->dma_buf[index];
  }
  if (!p->memory[index]) return m;
  m.kind = CLAVE_DELEGATE_CL_MEM;
  m.memory = p->memory[index];
  return m;
}

static bool bind(const plugin *p, const graph *g, const part *q, int n) {
  for (int i = 0; i < q->n_inputs; i++) {
    const tensor *t = &g->tensors[q->inputs[i]];
    int64_t dims[4] = {n};
    size_t step = (size_t)1;
    clave_tensor shape = {.dtype = CLAVE_F32, .rank = t->rank};
    memcpy(dims + 1, t->dims + 1, 3 * sizeof *dims);
    for (int k = t->rank - 1; k >= 0; k--) {
      shape.dims[k] = dims[k];
      shape.strides[k] = (int64_t)step;
      step *= (size_t)dims[k];
    }
    const clave_delegate_memory m = memory_of(p, g, q->inputs[i], n);
    if (!good(p, p->d.bind_input(q->instance, NULL, (uint32_t)i, &shape, &m))) return false;
  }
  for (int i = 0; i < q->n_outputs; i++) {
    const clave_delegate_memory m = memory_of(p, g, q->outputs[i], n);
    if (!good(p, p->d.bind_output(q->instance, NULL, (uint32_t)i, &m))) return false;
  }
  return true;
}

bool plugin_run(plugin *p, graph *g, const part *q, int n) {
  enum { LOOK_MS = 50 }; /* how often the application looks whether to go on */
  bool over = false, asked = false;
  if (!bind(p, g, q, n) || !good(p, p->d.submit(q->instance, NULL, NULL, NULL))) return false;
  while (!over) {
    clave_status st = p->d.wait(q->instance, LOOK_MS, &over);
    if (!good(p, st)) return false;
    if (interrupted && !asked) asked = good(p, p->d.cancel(q->instance));
  }
  return true;
}
