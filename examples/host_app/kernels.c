/* The application's own kernels: plain, portable, slow loops. */
#include <math.h>
#include <string.h>

#include "graph.h"

typedef struct job {
  const node *node;
  const float *x, *a, *b;  /* inputs */
  const int64_t *in, *out; /* dims of x and y */
  float *y;
  int n;
  int64_t elements; /* elements of y */
} job;

static void to_planes(graph *graph, const job *job) {
  for (int64_t i = 0; i < job->n; i++)
    for (int64_t c = 0; c < CHANNELS; c++)
      for (int64_t p = 0; p < SIDE * SIDE; p++)
        job->y[(i * CHANNELS + c) * SIDE * SIDE + p] =
            graph->images[(i * SIDE * SIDE + p) * CHANNELS + c];
}

static void normalise(graph *graph, const job *job) {
  (void)graph;
  for (int64_t i = 0; i < job->elements; i++) {
    const int64_t c = i / (SIDE * SIDE) % CHANNELS;
    job->y[i] = (job->x[i] * (1.0f / 255) - job->a[c]) / job->b[c];
  }
}

/* Adds weight * values, moved by (down, right) and taken in steps of the stride, to a plane of
 * results. */
static void add_tap(const job *job, const float *values, float *results, float weight, int64_t down,
                    int64_t right) {
  const int64_t stride = job->node->stride, width = job->in[3];
  for (int64_t row = 0; row < job->out[2]; row++) {
    const int64_t r = row * stride + down;
    if (r < 0 || r >= job->in[2]) continue;
    const int64_t begin = right < 0, end = (width - right + stride - 1) / stride;
    for (int64_t q = begin; q < end && q < job->out[3]; q++)
      results[row * job->out[3] + q] += weight * values[r * width + q * stride + right];
  }
}

static void conv(graph *graph, const job *job) {
  const int64_t from = job->in[2] * job->in[3], to = job->out[2] * job->out[3];
  (void)graph;
  for (int64_t i = 0; i < job->n * job->out[1]; i++) {
    const int64_t image = i / job->out[1], c = i % job->out[1];
    float *results = job->y + i * to;
    for (int64_t p = 0; p < to; p++) results[p] = job->b[c];
    for (int64_t k = 0; k < 9 * job->in[1]; k++)
      add_tap(job, job->x + (image * job->in[1] + k / 9) * from, results,
              job->a[c * 9 * job->in[1] + k], k % 9 / 3 - 1, k % 3 - 1);
  }
}

static void relu(graph *graph, const job *job) {
  (void)graph;
  for (int64_t i = 0; i < job->elements; i++) job->y[i] = job->x[i] > 0 ? job->x[i] : 0;
}

static void add(graph *graph, const job *job) {
  (void)graph;
  for (int64_t i = 0; i < job->elements; i++) job->y[i] = job->x[i] + job->a[i];
}

static void every_other(graph *graph, const job *job) {
  const int64_t height = job->out[2], width = job->out[3];
  (void)graph;
  for (int64_t i = 0; i < job->elements; i++) {
    const int64_t column = i % width, row = i / width % height, plane = i / (width * height);
    job->y[i] = job->x[(plane * job->in[2] + 2 * row) * job->in[3] + 2 * column];
  }
}

static void pad(graph *graph, const job *job) {
  const int64_t plane = job->in[2] * job->in[3], inner = job->in[1] * plane,
                outer = job->out[1] * plane;
  (void)graph;
  memset(job->y, 0, (size_t)job->elements * sizeof *job->y);
  for (int64_t i = 0; i < job->n; i++)
    memcpy(job->y + i * outer + job->node->pad * plane, job->x + i * inner,
           (size_t)inner * sizeof *job->y);
}

static void mean(graph *graph, const job *job) {
  const int64_t plane = job->in[2] * job->in[3];
  (void)graph;
  for (int64_t i = 0; i < job->elements; i++) {
    float sum = 0;
    for (int64_t p = 0; p < plane; p++) sum += job->x[i * plane + p];
    job->y[i] = sum / (float)plane;
  }
}

static void dense(graph *graph, const job *job) {
  const int64_t in = job->in[1], out = job->out[1];
  (void)graph;
  for (int64_t i = 0; i < job->elements; i++) {
    float sum = job->b[i % out];
    for (int64_t k = 0; k < in; k++) sum += job->x[i / out * in + k] * job->a[k * out + i % out];
    job->y[i] = sum;
  }
}

static void rank(graph *graph, const job *job) {
  for (int i = 0; i < job->n; i++) {
    const float *values = job->x + i * CLASSES;
    float sum = 0;
    int best = 0;
    for (int c = 1; c < CLASSES; c++) best = values[c] > values[best] ? c : best;
    for (int c = 0; c < CLASSES; c++) sum += expf(values[c] - values[best]);
    for (int c = 0; c < CLASSES; c++)
      job->y[i * CLASSES + c] = expf(values[c] - values[best]) / sum;
    graph->best[i] = best;
  }
}

static void (*const kernels[N_OPS])(graph *graph, const job *job) = {
    to_planes, normalise, conv, relu, add, every_other, pad, mean, dense, rank};

void run_node(graph *graph, const node *node, int images) {
  const tensor *value = &graph->tensors[node->output];
  const tensor *in[3] = {NULL, NULL, NULL};
  for (int i = 0; i < node->n_inputs; i++) in[i] = &graph->tensors[node->inputs[i]];
  const job job = {.node = node,
                   .x = in[0] ? in[0]->data : NULL,
                   .a = in[1] ? in[1]->data : NULL,
                   .b = in[2] ? in[2]->data : NULL,
                   .in = in[0] ? in[0]->dims : NULL,
                   .out = value->dims,
                   .y = value->data,
                   .n = images,
                   .elements = tensor_elements(value, images)};
  kernels[node->op](graph, &job);
}
