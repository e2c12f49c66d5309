#ifndef HOST_APP_GRAPH_H
#define HOST_APP_GRAPH_H
/* The application's own graph, ops and kernels. They do not depend on clave; plugin.h does. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  BATCH = 8, /* maximum of images per run */
  SIDE = 32,
  CHANNELS = 3,
  CLASSES = 10,
  IMAGE_BYTES = SIDE * SIDE * CHANNELS,
  MAX_TENSORS = 160,
  MAX_NODES = 96
};

typedef enum op {
  OP_TO_PLANES,   /* the image: u8 (n, h, w, 3) -> (n, 3, h, w), 0 to 255 */
  OP_NORMALISE,   /* x, mean (1, 3, 1, 1), deviation (1, 3, 1, 1) -> (x / 255 - mean) / deviation */
  OP_CONV,        /* x, weight (out, in, 3, 3), bias (out); padding 1, stride 1 or 2 */
  OP_RELU,        /* x */
  OP_ADD,         /* x, y */
  OP_EVERY_OTHER, /* x (n, c, h, w) -> (n, c, h / 2, w / 2): every second pixel */
  OP_PAD,         /* x (n, c, h, w) -> (n, c + 2 * pad, h, w): channels of zeros */
  OP_MEAN,        /* x (n, c, h, w) -> (n, c) */
  OP_DENSE,       /* x (n, in), weight (in, out), bias (out) */
  OP_RANK,        /* x (n, classes) -> probabilities, and the most likely class in `best` */
  N_OPS
} op;
extern const char *const op_names[N_OPS];

/* Row-major floats. The first dimension is the number of images in a run, except for constants. */
typedef struct tensor {
  char name[24];
  int rank;
  int64_t dims[4]; /* dims[0] is for BATCH images */
  bool constant;
  float *data; /* owned by the graph; constants point into its weights */
} tensor;

typedef struct node {
  op op;
  char name[24];
  int inputs[3], n_inputs, output; /* indices of graph.tensors */
  int stride, pad;
} node;

typedef struct graph {
  tensor tensors[MAX_TENSORS];
  node nodes[MAX_NODES]; /* in the order in which they run */
  int n_tensors, n_nodes;
  float *weights;        /* owned */
  const uint8_t *images; /* (n, SIDE, SIDE, 3), of the current run */
  int best[BATCH];
} graph;

/* Makes the image pipeline and ResNet-20. weights: the file that weights.py writes. Errors are
 * written to stderr. */
bool graph_create(const char *weights, graph *graph);
void graph_destroy(graph *graph);
int64_t tensor_elements(const tensor *tensor, int n); /* for n images */

/* ---- kernels.c ---- */
void run_node(graph *graph, const node *node, int n); /* runs the application's kernel */

#endif
