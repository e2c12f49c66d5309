/* ResNet-20 (He et al., "Deep Residual Learning", section 4.2) for CIFAR-10, with batch norms
 * folded into the convolutions, behind the pipeline that makes planes of pixels. */
#include "graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const op_names[N_OPS] = {"to_planes",   "normalise", "conv", "relu",  "add",
                                     "every_other", "pad",       "mean", "dense", "rank"};

int64_t tensor_elements(const tensor *t, int n) {
  int64_t count = t->constant ? t->dims[0] : n;
  for (int i = 1; i < t->rank; i++) count *= t->dims[i];
  return count;
}

/* ---------------------------------------------------------------- building */

static int add_tensor(graph *g, int rank, const int64_t *dims) {
  tensor *t = &g->tensors[g->n_tensors];
  (void)snprintf(t->name, sizeof t->name, "t%d", g->n_tensors);
  t->rank = rank;
  memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
  return g->n_tensors++;
}

/* The next of the weights. */
static int add_constant(graph *g, float **at, int rank, const int64_t *dims) {
  const int i = add_tensor(g, rank, dims);
  tensor *t = &g->tensors[i];
  t->constant = true;
  t->data = *at;
  *at += tensor_elements(t, 0);
  return i;
}

/* A node of one input, and of constants that may be added to it. Gives its output. */
static int add_node(graph *g, op op, int x, int rank, const int64_t *dims) {
  node *n = &g->nodes[g->n_nodes];
  *n = (node){.op = op, .inputs = {x}, .n_inputs = x >= 0, .output = add_tensor(g, rank, dims)};
  (void)snprintf(n->name, sizeof n->name, "%s_%d", op_names[op], g->n_nodes++);
  return n->output;
}

static void add_input(graph *g, int tensor) {
  node *n = &g->nodes[g->n_nodes - 1];
  n->inputs[n->n_inputs++] = tensor;
}

static int add_conv(graph *g, float **at, int x, int64_t channels, int stride) {
  const tensor *t = &g->tensors[x];
  const int64_t weight[] = {channels, t->dims[1], 3, 3};
  const int64_t out[] = {BATCH, channels, t->dims[2] / stride, t->dims[3] / stride};
  const int y = add_node(g, OP_CONV, x, 4, out);
  g->nodes[g->n_nodes - 1].stride = stride;
  add_input(g, add_constant(g, at, 4, weight));
  add_input(g, add_constant(g, at, 1, &channels));
  return y;
}

static int add_relu(graph *g, int x) { return add_node(g, OP_RELU, x, 4, g->tensors[x].dims); }

/* Every second pixel, and zeros for the channels that are new. */
static int add_shortcut(graph *g, int x, int64_t channels) {
  const int64_t *from = g->tensors[x].dims, old = from[1];
  const int64_t half[] = {BATCH, old, from[2] / 2, from[3] / 2};
  const int64_t wide[] = {BATCH, channels, half[2], half[3]};
  const int y = add_node(g, OP_PAD, add_node(g, OP_EVERY_OTHER, x, 4, half), 4, wide);
  g->nodes[g->n_nodes - 1].pad = (int)(channels - old) / 2;
  return y;
}

static int add_block(graph *g, float **at, int x, int64_t channels) {
  const bool same = g->tensors[x].dims[1] == channels;
  int y = add_relu(g, add_conv(g, at, x, channels, same ? 1 : 2));
  y = add_conv(g, at, y, channels, 1);
  const int shortcut = same ? x : add_shortcut(g, x, channels);
  const int sum = add_node(g, OP_ADD, y, 4, g->tensors[y].dims);
  add_input(g, shortcut);
  return add_relu(g, sum);
}

static void build(graph *g, float **at) {
  static const int64_t planes[] = {BATCH, CHANNELS, SIDE, SIDE},
                       of_channels[] = {1, CHANNELS, 1, 1};
  static const int64_t widths[] = {16, 32, 64}, scores[] = {BATCH, CLASSES}, classes = CLASSES;
  int x = add_node(g, OP_TO_PLANES, -1, 4, planes);
  x = add_node(g, OP_NORMALISE, x, 4, planes);
  add_input(g, add_constant(g, at, 4, of_channels));
  add_input(g, add_constant(g, at, 4, of_channels));
  x = add_relu(g, add_conv(g, at, x, widths[0], 1));
  for (int stage = 0; stage < 3; stage++)
    for (int block = 0; block < 3; block++) x = add_block(g, at, x, widths[stage]);
  x = add_node(g, OP_MEAN, x, 2, (const int64_t[]){BATCH, widths[2]});
  x = add_node(g, OP_DENSE, x, 2, scores);
  add_input(g, add_constant(g, at, 2, (const int64_t[]){widths[2], CLASSES}));
  add_input(g, add_constant(g, at, 1, &classes));
  (void)add_node(g, OP_RANK, x, 2, scores);
}

/* ---------------------------------------------------------------- files, memory */

enum { MAX_WEIGHTS = 1 << 20 }; /* floats */

static size_t read_weights(graph *g, const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) fprintf(stderr, "host_app: %s: %s\n", path, strerror(errno));
  g->weights = malloc(MAX_WEIGHTS * sizeof *g->weights);
  const size_t n = f && g->weights ? fread(g->weights, sizeof *g->weights, MAX_WEIGHTS, f) : 0;
  if (f) (void)fclose(f);
  return n;
}

static bool alloc_tensors(graph *g) {
  for (int i = 0; i < g->n_tensors; i++) {
    tensor *t = &g->tensors[i];
    if (t->constant) continue;
    t->data = calloc((size_t)tensor_elements(t, BATCH), sizeof *t->data);
    if (!t->data) return false;
  }
  return true;
}

bool graph_create(const char *weights, graph *g) {
  memset(g, 0, sizeof *g);
  const size_t n = read_weights(g, weights);
  float *end = g->weights;
  if (n) build(g, &end);
  if (!n || (size_t)(end - g->weights) != n) {
    fprintf(stderr, "host_app: %s: expected the weights that weights.py writes\n", weights);
    return false;
  }
  if (alloc_tensors(g)) return true;
  fprintf(stderr, "host_app: out of memory\n");
  return false;
}

void graph_destroy(graph *g) {
  for (int i = 0; i < g->n_tensors; i++)
    if (!g->tensors[i].constant) free(g->tensors[i].data);
  free(g->weights);
}
