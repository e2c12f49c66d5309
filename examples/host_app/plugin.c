/* The application's side of clave_delegate.h. */
#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- opening */

/* Returns false for an error, which it prints and frees. */
static bool good(const plugin *plugin, clave_status st) {
  if (!st) return true;
  fprintf(stderr, "host_app: note: clave: %s\n", plugin->d.status_message(st));
  plugin->d.status_free(st);
  return false;
}

static void log_line(void *ctx, const char *line) {
  (void)ctx;
  fprintf(stderr, "host_app: note: clave: %s\n", line);
}

static bool open_library(plugin *plugin, const char *path) {
  clave_delegate_register_fn get = NULL;
  plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = plugin->library ? dlsym(plugin->library, CLAVE_DELEGATE_REGISTER) : NULL;
  if (!symbol) {
    fprintf(stderr, "host_app: note: no plugin: %s\n", dlerror());
    return false;
  }
  memcpy(&get, &symbol, sizeof get);
  plugin->d = (clave_delegate){.size = sizeof plugin->d};
  if (get(CLAVE_DELEGATE_VERSION, &plugin->d) == CLAVE_OK) return true;
  fprintf(stderr, "host_app: note: %s is a plugin of another version\n", path);
  return false;
}

bool plugin_open(plugin *plugin, const char *path, void *context, void *device, void *queue) {
  const clave_delegate_device_options options = {.size = sizeof options,
                                                 .log = log_line,
                                                 .cl_context = context,
                                                 .cl_device = device,
                                                 .cl_queue = queue};
  memset(plugin, 0, sizeof *plugin);
  memset(plugin->partition_of, -1, sizeof plugin->partition_of);
  if (open_library(plugin, path) && good(plugin, plugin->d.open(&options, &plugin->device)))
    return true;
  plugin_close(plugin);
  return false;
}

void plugin_close(plugin *plugin) {
  if (!plugin->library) return;
  for (int i = 0; i < plugin->n_partitions; i++) {
    (void)good(plugin, plugin->d.destroy(plugin->partitions[i].instance));
    (void)good(plugin, plugin->d.unload(plugin->partitions[i].program));
  }
  if (plugin->device) (void)good(plugin, plugin->d.close(plugin->device));
  (void)dlclose(plugin->library);
  memset(plugin, 0, sizeof *plugin);
}

/* ---------------------------------------------------------------- the graph in clave's words */

typedef struct described {
  clave_delegate_field fields[10];
  uint32_t n;
  uint32_t tensors[4]; /* inputs, then the output */
  int64_t ints[16];
  uint32_t n_ints;
} described;

static clave_delegate_field *add_field(described *described, const char *name,
                                       clave_delegate_field_kind kind) {
  clave_delegate_field *field = &described->fields[described->n++];
  *field = (clave_delegate_field){.name = name, .kind = kind};
  return field;
}

static void add_tensors(described *described, const char *name, clave_delegate_field_kind kind,
                        int first, int n) {
  clave_delegate_field *field = add_field(described, name, kind);
  field->tensors = &described->tensors[first];
  field->n = (uint32_t)n;
}

static void add_ints(described *described, const char *name, clave_delegate_field_kind kind,
                     const int64_t *values, uint32_t n) {
  clave_delegate_field *field = add_field(described, name, kind);
  field->ints = memcpy(&described->ints[described->n_ints], values, n * sizeof *values);
  field->n = n;
  described->n_ints += n;
}

static void add_pair(described *described, const char *name, int64_t value) {
  add_ints(described, name, CLAVE_DELEGATE_INTS, (const int64_t[]){value, value}, 2);
}

static void add_step(described *described, const char *kind, const clave_delegate_operand *operands,
                     uint32_t n) {
  clave_delegate_field *field = add_field(described, kind, CLAVE_DELEGATE_STEP);
  field->dtype = CLAVE_F32;
  field->operands = operands;
  field->n = n;
}

static void describe_conv(described *described, const node *node) {
  add_tensors(described, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_tensors(described, "weight", CLAVE_DELEGATE_READS, 1, 1);
  add_tensors(described, "bias", CLAVE_DELEGATE_READS, 2, 1);
  add_pair(described, "stride", node->stride);
  add_pair(described, "padding", 1);
  add_pair(described, "dilation", 1);
}

static void describe_dense(described *described, const node *node) {
  (void)node;
  add_tensors(described, "a", CLAVE_DELEGATE_READS, 0, 1);
  add_tensors(described, "b", CLAVE_DELEGATE_READS, 1, 1);
  add_tensors(described, "bias", CLAVE_DELEGATE_READS, 2, 1);
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

static void describe_normalise(described *described, const node *node) {
  add_tensors(described, "inputs", CLAVE_DELEGATE_READS_LIST, 0, node->n_inputs);
  add_step(described, "mul", scaled, 2);
  add_step(described, "sub", shifted, 2);
  add_step(described, "div", divided, 2);
}

static void describe_relu(described *described, const node *node) {
  add_tensors(described, "inputs", CLAVE_DELEGATE_READS_LIST, 0, node->n_inputs);
  add_step(described, "relu", one, 1);
}

static void describe_add(described *described, const node *node) {
  add_tensors(described, "inputs", CLAVE_DELEGATE_READS_LIST, 0, node->n_inputs);
  add_step(described, "add", two, 2);
}

/* Describes it as a max pool with a window of one pixel and stride 2. */
static void describe_every_other(described *described, const node *node) {
  (void)node;
  add_field(described, "kind", CLAVE_DELEGATE_TEXT)->text = "max";
  add_tensors(described, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_pair(described, "kernel", 1);
  add_pair(described, "stride", 2);
  add_pair(described, "padding", 0);
  add_pair(described, "dilation", 1);
}

static void describe_pad(described *described, const node *node) {
  const int64_t around[] = {0, node->pad, 0, 0};
  add_tensors(described, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_ints(described, "before", CLAVE_DELEGATE_SIZES, around, 4);
  add_ints(described, "after", CLAVE_DELEGATE_SIZES, around, 4);
}

static void describe_mean(described *described, const node *node) {
  (void)node;
  add_field(described, "kind", CLAVE_DELEGATE_TEXT)->text = "mean";
  add_tensors(described, "x", CLAVE_DELEGATE_READS, 0, 1);
  add_ints(described, "axes", CLAVE_DELEGATE_INTS, (const int64_t[]){2, 3}, 2);
}

/* Ops without a counterpart in clave are described by their own names, which clave refuses. */
static const struct {
  const char *op;
  void (*describe)(described *described, const node *node);
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

static clave_delegate_node describe(described *described, const node *node) {
  memset(described, 0, sizeof *described);
  for (int i = 0; i < node->n_inputs; i++) described->tensors[i] = (uint32_t)node->inputs[i];
  described->tensors[node->n_inputs] = (uint32_t)node->output;
  if (words[node->op].describe) {
    words[node->op].describe(described, node);
    add_tensors(described, "out", CLAVE_DELEGATE_WRITES, node->n_inputs, 1);
  }
  return (clave_delegate_node){.op = words[node->op].op ? words[node->op].op : op_names[node->op],
                               .name = node->name,
                               .fields = described->fields,
                               .n_fields = described->n};
}

/* A description of all tensors and of nodes [first, first + count). Tensors that these nodes do not
 * use are temporaries. */
typedef struct translation {
  clave_delegate_size sizes[1];
  clave_delegate_tensor tensors[MAX_TENSORS];
  described described[MAX_NODES];
  clave_delegate_node nodes[MAX_NODES];
  clave_delegate_graph graph;
} translation;

static translation *translate(const graph *graph, int first, int count) {
  translation *translation = calloc(1, sizeof *translation);
  if (!translation) return NULL;
  translation->sizes[0] = (clave_delegate_size){"n", 1, BATCH};
  for (int i = 0; i < graph->n_tensors; i++) {
    const tensor *from = &graph->tensors[i];
    clave_delegate_tensor *to = &translation->tensors[i];
    *to =
        (clave_delegate_tensor){.name = from->name,
                                .kind = from->constant ? CLAVE_SLOT_CONSTANT : CLAVE_SLOT_TEMPORARY,
                                .dtype = CLAVE_F32,
                                .rank = from->rank,
                                .sizes = {from->constant ? 0 : 1},
                                .data = from->constant ? from->data : NULL};
    memcpy(to->dims, from->dims, sizeof from->dims);
  }
  for (int i = 0; i < count; i++)
    translation->nodes[i] = describe(&translation->described[i], &graph->nodes[first + i]);
  translation->graph = (clave_delegate_graph){.size = sizeof translation->graph,
                                              .sizes = translation->sizes,
                                              .n_sizes = 1,
                                              .tensors = translation->tensors,
                                              .n_tensors = (uint32_t)graph->n_tensors,
                                              .nodes = translation->nodes,
                                              .n_nodes = (uint32_t)count};
  return translation;
}

/* ---------------------------------------------------------------- dividing */

static bool is_listed(const int *list, int n, int tensor) {
  for (int i = 0; i < n; i++)
    if (list[i] == tensor) return true;
  return false;
}

static bool writes(const graph *graph, int from, int to, int tensor) {
  for (int i = from; i < to; i++)
    if (graph->nodes[i].output == tensor) return true;
  return false;
}

static bool reads(const graph *graph, int from, int to, int tensor) {
  for (int i = from; i < to; i++)
    if (is_listed(graph->nodes[i].inputs, graph->nodes[i].n_inputs, tensor)) return true;
  return false;
}

/* Finds the inputs and outputs of a partition. False if they exceed MAX_ARGUMENTS. */
static bool find_arguments(const graph *graph, partition *partition) {
  const int end = partition->first + partition->count;
  for (int t = 0; t < graph->n_tensors; t++) {
    const bool written = writes(graph, partition->first, end, t),
               constant = graph->tensors[t].constant;
    if (!constant && !written && reads(graph, partition->first, end, t)) {
      if (partition->n_inputs == MAX_ARGUMENTS) return false;
      partition->inputs[partition->n_inputs++] = t;
    }
    if (written && reads(graph, end, graph->n_nodes, t)) {
      if (partition->n_outputs == MAX_ARGUMENTS) return false;
      partition->outputs[partition->n_outputs++] = t;
    }
  }
  return true;
}

static bool load_partition(plugin *plugin, const graph *graph, partition *partition) {
  translation *translation = find_arguments(graph, partition)
                                 ? translate(graph, partition->first, partition->count)
                                 : NULL;
  if (!translation) return false;
  for (int i = 0; i < partition->n_inputs; i++)
    translation->tensors[partition->inputs[i]].kind = CLAVE_SLOT_INPUT;
  for (int i = 0; i < partition->n_outputs; i++)
    translation->tensors[partition->outputs[i]].kind = CLAVE_SLOT_OUTPUT;
  const clave_delegate_payload payload = {
      .size = sizeof payload, .format = CLAVE_DELEGATE_GRAPH, .graph = &translation->graph};
  const bool loaded = good(plugin, plugin->d.load(&payload, &partition->program)) &&
                      good(plugin, plugin->d.create(partition->program, plugin->device, NULL,
                                                    &partition->instance));
  free(translation);
  return loaded;
}

/* Queries for each node whether clave supports it. */
static void query_nodes(plugin *plugin, const graph *graph, clave_delegate_answer *answers) {
  translation *translation = translate(graph, 0, graph->n_nodes);
  memset(answers, 0, (size_t)graph->n_nodes * sizeof *answers);
  if (translation)
    (void)good(plugin, plugin->d.query(plugin->device, &translation->graph, answers));
  free(translation);
}

void plugin_divide(plugin *plugin, graph *graph, const bool *own) {
  clave_delegate_answer answers[MAX_NODES];
  query_nodes(plugin, graph, answers);
  for (int i = 0; i < graph->n_nodes;) {
    partition *piece = &plugin->partitions[plugin->n_partitions];
    *piece = (partition){.first = i};
    while (i < graph->n_nodes && answers[i].supported && !own[graph->nodes[i].op])
      i++, piece->count++;
    if (piece->count == 0) {
      i++;
    } else if (load_partition(plugin, graph, piece)) {
      for (int k = piece->first; k < i; k++) plugin->partition_of[k] = plugin->n_partitions;
      plugin->n_partitions++;
    } else {
      (void)good(plugin, plugin->d.unload(piece->program));
    }
  }
}

/* ---------------------------------------------------------------- running */

static clave_delegate_memory memory_of(const plugin *plugin, const graph *graph, int index, int n) {
  const tensor *tensor = &graph->tensors[index];
  clave_delegate_memory memory = {.size = sizeof memory, .memory = tensor->data};
  memory.bytes = (size_t)tensor_elements(tensor, n) * sizeof *tensor->data;
  if (plugin->dma_buf[index]) {
    memory.kind = CLAVE_DELEGATE_DMA_BUF;
    memory.fd = plugin->dma_buf[index];
  }
  if (!plugin->memory[index]) return memory;
  memory.kind = CLAVE_DELEGATE_CL_MEM;
  memory.memory = plugin->memory[index];
  return memory;
}

static bool bind(const plugin *plugin, const graph *graph, const partition *partition, int n) {
  for (int i = 0; i < partition->n_inputs; i++) {
    const tensor *tensor = &graph->tensors[partition->inputs[i]];
    int64_t dims[4] = {n};
    size_t step = (size_t)1;
    clave_tensor shape = {.dtype = CLAVE_F32, .rank = tensor->rank};
    memcpy(dims + 1, tensor->dims + 1, 3 * sizeof *dims);
    for (int k = tensor->rank - 1; k >= 0; k--) {
      shape.dims[k] = dims[k];
      shape.strides[k] = (int64_t)step;
      step *= (size_t)dims[k];
    }
    const clave_delegate_memory memory = memory_of(plugin, graph, partition->inputs[i], n);
    if (!good(plugin,
              plugin->d.bind_input(partition->instance, NULL, (uint32_t)i, &shape, &memory)))
      return false;
  }
  for (int i = 0; i < partition->n_outputs; i++) {
    const clave_delegate_memory result = memory_of(plugin, graph, partition->outputs[i], n);
    if (!good(plugin, plugin->d.bind_output(partition->instance, NULL, (uint32_t)i, &result)))
      return false;
  }
  return true;
}

bool plugin_run(plugin *plugin, graph *graph, const partition *partition, int n) {
  enum { LOOK_MS = 50 }; /* interval at which the application checks for interrupts */
  bool over = false, asked = false;
  if (!bind(plugin, graph, partition, n) ||
      !good(plugin, plugin->d.submit(partition->instance, NULL, NULL, NULL)))
    return false;
  while (!over) {
    clave_status st = plugin->d.wait(partition->instance, LOOK_MS, &over);
    if (!good(plugin, st)) return false;
    if (interrupted && !asked) asked = good(plugin, plugin->d.cancel(partition->instance));
  }
  return true;
}
