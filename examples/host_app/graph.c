/* ResNet-20 (He et al., "Deep Residual Learning", section 4.2) for CIFAR-10, with batch norms
 * folded into the convolutions, after the pipeline that makes planes of pixels. */
#include "graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const op_names[N_OPS] = {"to_planes",   "normalise", "conv", "relu",  "add",
                                     "every_other", "pad",       "mean", "dense", "rank"};

int64_t tensor_elements(const tensor *tensor, int n) {
  int64_t count = tensor->constant ? tensor->dims[0] : n;
  for (int i = 1; i < tensor->rank; i++) count *= tensor->dims[i];
  return count;
}

/* ---------------------------------------------------------------- building */

static int add_tensor(graph *graph, int rank, const int64_t *dims) {
  tensor *tensor = &graph->tensors[graph->n_tensors];
  (void)snprintf(tensor->name, sizeof tensor->name, "t%d", graph->n_tensors);
  tensor->rank = rank;
  memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
  return graph->n_tensors++;
}

/* Adds a constant whose data are the next weights at *at. */
static int add_constant(graph *graph, float **at, int rank, const int64_t *dims) {
  const int i = add_tensor(graph, rank, dims);
  tensor *tensor = &graph->tensors[i];
  tensor->constant = true;
  tensor->data = *at;
  *at += tensor_elements(tensor, 0);
  return i;
}

/* Adds a node with one input, to which constants can be added. Returns its output. */
static int add_node(graph *graph, op op, int x, int rank, const int64_t *dims) {
  node *op_node = &graph->nodes[graph->n_nodes];
  *op_node =
      (node){.op = op, .inputs = {x}, .n_inputs = x >= 0, .output = add_tensor(graph, rank, dims)};
  (void)snprintf(op_node->name, sizeof op_node->name, "%s_%d", op_names[op], graph->n_nodes++);
  return op_node->output;
}

static void add_input(graph *graph, int tensor) {
  node *node = &graph->nodes[graph->n_nodes - 1];
  node->inputs[node->n_inputs++] = tensor;
}

static int add_conv(graph *graph, float **at, int x, int64_t channels, int stride) {
  const tensor *tensor = &graph->tensors[x];
  const int64_t weight[] = {channels, tensor->dims[1], 3, 3};
  const int64_t out[] = {BATCH, channels, tensor->dims[2] / stride, tensor->dims[3] / stride};
  const int y = add_node(graph, OP_CONV, x, 4, out);
  graph->nodes[graph->n_nodes - 1].stride = stride;
  add_input(graph, add_constant(graph, at, 4, weight));
  add_input(graph, add_constant(graph, at, 1, &channels));
  return y;
}

static int add_relu(graph *graph, int x) {
  return add_node(graph, OP_RELU, x, 4, graph->tensors[x].dims);
}

/* Adds a shortcut: every second pixel, and zeros for the additional channels. */
static int add_shortcut(graph *graph, int x, int64_t channels) {
  const int64_t *from = graph->tensors[x].dims, old = from[1];
  const int64_t half[] = {BATCH, old, from[2] / 2, from[3] / 2};
  const int64_t wide[] = {BATCH, channels, half[2], half[3]};
  const int y = add_node(graph, OP_PAD, add_node(graph, OP_EVERY_OTHER, x, 4, half), 4, wide);
  graph->nodes[graph->n_nodes - 1].pad = (int)(channels - old) / 2;
  return y;
}

static int add_block(graph *graph, float **at, int x, int64_t channels) {
  const bool same = graph->tensors[x].dims[1] == channels;
  int y = add_relu(graph, add_conv(graph, at, x, channels, same ? 1 : 2));
  y = add_conv(graph, at, y, channels, 1);
  const int shortcut = same ? x : add_shortcut(graph, x, channels);
  const int sum = add_node(graph, OP_ADD, y, 4, graph->tensors[y].dims);
  add_input(graph, shortcut);
  return add_relu(graph, sum);
}

static void build(graph *graph, float **at) {
  static const int64_t planes[] = {BATCH, CHANNELS, SIDE, SIDE},
                       of_channels[] = {1, CHANNELS, 1, 1};
  static const int64_t widths[] = {16, 32, 64}, scores[] = {BATCH, CLASSES}, classes = CLASSES;
  int x = add_node(graph, OP_TO_PLANES, -1, 4, planes);
  x = add_node(graph, OP_NORMALISE, x, 4, planes);
  add_input(graph, add_constant(graph, at, 4, of_channels));
  add_input(graph, add_constant(graph, at, 4, of_channels));
  x = add_relu(graph, add_conv(graph, at, x, widths[0], 1));
  for (int stage = 0; stage < 3; stage++)
    for (int block = 0; block < 3; block++) x = add_block(graph, at, x, widths[stage]);
  x = add_node(graph, OP_MEAN, x, 2, (const int64_t[]){BATCH, widths[2]});
  x = add_node(graph, OP_DENSE, x, 2, scores);
  add_input(graph, add_constant(graph, at, 2, (const int64_t[]){widths[2], CLASSES}));
  add_input(graph, add_constant(graph, at, 1, &classes));
  (void)add_node(graph, OP_RANK, x, 2, scores);
}

/* ---------------------------------------------------------------- files, memory */

enum { MAX_WEIGHTS = 1 << 20 }; /* floats */

static size_t read_weights(graph *graph, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) fprintf(stderr, "host_app: %s: %s\n", path, strerror(errno));
  graph->weights = malloc(MAX_WEIGHTS * sizeof *graph->weights);
  const size_t n =
      file && graph->weights ? fread(graph->weights, sizeof *graph->weights, MAX_WEIGHTS, file) : 0;
  if (file) (void)fclose(file);
  return n;
}

static bool alloc_tensors(graph *graph) {
  for (int i = 0; i < graph->n_tensors; i++) {
    tensor *tensor = &graph->tensors[i];
    if (tensor->constant) continue;
    tensor->data = calloc((size_t)tensor_elements(tensor, BATCH), sizeof *tensor->data);
    if (!tensor->data) return false;
  }
  return true;
}

bool graph_create(const char *weights, graph *graph) {
  memset(graph, 0, sizeof *graph);
  const size_t n = read_weights(graph, weights);
  float *end = graph->weights;
  if (n) build(graph, &end);
  if (!n || (size_t)(end - graph->weights) != n) {
    fprintf(stderr, "host_app: %s: expected the weights that weights.py writes\n", weights);
    return false;
  }
  if (alloc_tensors(graph)) return true;
  fprintf(stderr, "host_app: out of memory\n");
  return false;
}

void graph_destroy(graph *graph) {
  for (int i = 0; i < graph->n_tensors; i++)
    if (!graph->tensors[i].constant) free(graph->tensors[i].data);
  free(graph->weights);
}
