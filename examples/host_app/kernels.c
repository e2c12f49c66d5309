/* The application's own kernels: plain loops, right anywhere, fast nowhere. */
#include <math.h>
#include <string.h>

#include "graph.h"

typedef struct job {
  const node *node;
  const float *x, *a, *b;  /* inputs */
  const int64_t *in, *out; /* dims of x and y */
  float *y;
  int n;
  int64_t elements; /* of y */
} job;

static void to_planes(graph *g, const job *j) {
  for (int64_t i = 0; i < j->n; i++)
    for (int64_t c = 0; c < CHANNELS; c++)
      for (int64_t p = 0; p < SIDE * SIDE; p++)
        j->y[(i * CHANNELS + c) * SIDE * SIDE + p] =
            g->images[(i * SIDE * SIDE + p) * CHANNELS + c];
}

static void normalise(graph *g, const job *j) {
  (void)g;
  for (int64_t i = 0; i < j->elements; i++) {
    const int64_t c = i / (SIDE * SIDE) % CHANNELS;
    j->y[i] = (j->x[i] * (1.0f / 255) - j->a[c]) / j->b[c];
  }
}

/* Adds weight * x, moved by (down, right) and taken in steps of the stride, to a plane of y. */
static void add_tap(const job *j, const float *x, float *y, float weight, int64_t down,
                    int64_t right) {
  const int64_t stride = j->node->stride, width = j->in[3];
  for (int64_t row = 0; row < j->out[2]; row++) {
    const int64_t r = row * stride + down;
    if (r < 0 || r >= j->in[2]) continue;
    const int64_t begin = right < 0, end = (width - right + stride - 1) / stride;
    for (int64_t q = begin; q < end && q < j->out[3]; q++)
      y[row * j->out[3] + q] += weight * x[r * width + q * stride + right];
  }
}

static void conv(graph *g, const job *j) {
  const int64_t from = j->in[2] * j->in[3], to = j->out[2] * j->out[3];
  (void)g;
  for (int64_t i = 0; i < j->n * j->out[1]; i++) {
    const int64_t image = i / j->out[1], c = i % j->out[1];
    float *y = j->y + i * to;
    for (int64_t p = 0; p < to; p++) y[p] = j->b[c];
    for (int64_t k = 0; k < 9 * j->in[1]; k++)
      add_tap(j, j->x + (image * j->in[1] + k / 9) * from, y, j->a[c * 9 * j->in[1] + k],
              k % 9 / 3 - 1, k % 3 - 1);
  }
}

static void relu(graph *g, const job *j) {
  (void)g;
  for (int64_t i = 0; i < j->elements; i++) j->y[i] = j->x[i] > 0 ? j->x[i] : 0;
}

static void add(graph *g, const job *j) {
  (void)g;
  for (int64_t i = 0; i < j->elements; i++) j->y[i] = j->x[i] + j->a[i];
}

static void every_other(graph *g, const job *j) {
  const int64_t height = j->out[2], width = j->out[3];
  (void)g;
  for (int64_t i = 0; i < j->elements; i++) {
    const int64_t column = i % width, row = i / width % height, plane = i / (width * height);
    j->y[i] = j->x[(plane * j->in[2] + 2 * row) * j->in[3] + 2 * column];
  }
}

static void pad(graph *g, const job *j) {
  const int64_t plane = j->in[2] * j->in[3], inner = j->in[1] * plane, outer = j->out[1] * plane;
  (void)g;
  memset(j->y, 0, (size_t)j->elements * sizeof *j->y);
  for (int64_t i = 0; i < j->n; i++)
    memcpy(j->y + i * outer + j->node->pad * plane, j->x + i * inner, (size_t)inner * sizeof *j->y);
}

static void mean(graph *g, const job *j) {
  const int64_t plane = j->in[2] * j->in[3];
  (void)g;
  for (int64_t i = 0; i < j->elements; i++) {
    float sum = 0;
    for (int64_t p = 0; p < plane; p++) sum += j->x[i * plane + p];
    j->y[i] = sum / (float)plane;
  }
}

static void dense(graph *g, const job *j) {
  const int64_t in = j->in[1], out = j->out[1];
  (void)g;
  for (int64_t i = 0; i < j->elements; i++) {
    float sum = j->b[i % out];
    for (int64_t k = 0; k < in; k++) sum += j->x[i / out * in + k] * j->a[k * out + i % out];
    j->y[i] = sum;
  }
}

static void rank(graph *g, const job *j) {
  for (int i = 0; i < j->n; i++) {
    const float *x = j->x + i * CLASSES;
    float sum = 0;
    int best = 0;
    for (int c = 1; c < CLASSES; c++) best = x[c] > x[best] ? c : best;
    for (int c = 0; c < CLASSES; c++) sum += expf(x[c] - x[best]);
    for (int c = 0; c < CLASSES; c++) j->y[i * CLASSES + c] = expf(x[c] - x[best]) / sum;
    g->best[i] = best;
  }
}

static void (*const kernels[N_OPS])(graph *g, const job *j) = {
    to_planes, normalise, conv, relu, add, every_other, pad, mean, dense, rank};

void run_node(graph *g, const node *n, int images) {
  const tensor *y = &g->tensors[n->output];
  const tensor *in[3] = {NULL, NULL, NULL};
  for (int i = 0; i < n->n_inputs; i++) in[i] = &g->tensors[n->inputs[i]];
  const job j = {.node = n,
                 .x = in[0] ? in[0]->data : NULL,
                 .a = in[1] ? in[1]->data : NULL,
                 .b = in[2] ? in[2]->data : NULL,
                 .in = in[0] ? in[0]->dims : NULL,
                 .out = y->dims,
                 .y = y->data,
                 .n = images,
                 .elements = tensor_elements(y, images)};
  kernels[n->op](g, &j);
}
