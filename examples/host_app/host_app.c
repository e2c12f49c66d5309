/* Names the shapes on small pictures, by a graph of its own of which clave runs what it can.
 *
 *   host_app [--plugin PATH] [--opencl | --dma-buf] [--own OP]... WEIGHTS IMAGES
 *
 * --plugin: libclave_delegate.so, by default as the loader finds it. --opencl: in the application's
 * own OpenCL context. --dma-buf: the images' planes lie in memory that devices share. --own: an op
 * that the application keeps to itself. WEIGHTS, IMAGES: what weights.py writes. Exit 0: all images
 * are named, by whoever; 1: they are not; 2: wrong usage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "graph.h"
#include "opencl.h"
#include "plugin.h"

static const char *const labels[CLASSES] = {"disc",  "ring",  "square", "triangle", "star",
                                            "cross", "heart", "moon",   "arrow",    "frame"};

volatile sig_atomic_t interrupted;

static void interrupt(int signal) {
  (void)signal;
  interrupted = 1;
}

typedef struct app {
  const char *library, *weights, *images;
  bool with_opencl, with_dma_buf, own[N_OPS];
  graph g;
  plugin p;
  own_opencl cl;
  frame planes;
  uint8_t *bytes; /* owned; of the images */
  size_t n_images;
} app;

/* ---------------------------------------------------------------- tensors in OpenCL buffers */

static bool share(app *a, int tensor) {
  const size_t bytes = (size_t)tensor_elements(&a->g.tensors[tensor], BATCH) * sizeof(float);
  a->p.memory[tensor] = own_opencl_buffer(&a->cl, bytes);
  return a->p.memory[tensor] != NULL;
}

/* The planes, where the first part alone reads them, and what the last part gives. */
static bool share_buffers(app *a) {
  const part *first = &a->p.parts[0], *last = &a->p.parts[a->p.n_parts - 1];
  if (a->p.n_parts == 0) return true;
  const bool planes = first->n_inputs == 1 && first->inputs[0] == a->g.nodes[0].output;
  return (!planes || share(a, first->inputs[0])) && share(a, last->outputs[last->n_outputs - 1]);
}

/* The planes, as a camera would hand them over. */
static bool share_frame(app *a) {
  const int planes = a->g.nodes[0].output;
  if (!frame_open(&a->planes, &a->g.tensors[planes])) return false;
  a->p.dma_buf[planes] = a->planes.fd;
  return true;
}

/* ---------------------------------------------------------------- runs */

static void run_alone(app *a, int n) {
  for (int i = 0; i < a->g.n_nodes; i++) run_node(&a->g, &a->g.nodes[i], n);
}

/* A node that is the application's own: by its OpenCL where a part reads the result from there. */
static bool run_own(app *a, const node *node, int n) {
  cl_mem memory = a->p.memory[node->output];
  if (node->op == OP_TO_PLANES && memory)
    return own_opencl_to_planes(&a->cl, a->g.images, n, memory);
  run_node(&a->g, node, n);
  return true;
}

static bool run_part(app *a, const part *q, int n) {
  if (!plugin_run(&a->p, &a->g, q, n)) return false;
  for (int i = 0; i < q->n_outputs; i++) {
    const tensor *t = &a->g.tensors[q->outputs[i]];
    cl_mem memory = a->p.memory[q->outputs[i]];
    const size_t bytes = (size_t)tensor_elements(t, n) * sizeof(float);
    if (memory && !own_opencl_read(&a->cl, memory, t->data, bytes)) return false;
  }
  return true;
}

static bool run_together(app *a, int n) {
  for (int i = 0; i < a->g.n_nodes; i++) {
    const int part = a->p.part_of[i];
    if (part < 0 && !run_own(a, &a->g.nodes[i], n)) return false;
    if (part >= 0 && a->p.parts[part].first == i && !run_part(a, &a->p.parts[part], n))
      return false;
  }
  return true;
}

/* Instances first, then the buffers that are bound to them. */
static void close_plugin(app *a) {
  plugin_close(&a->p);
  own_opencl_close(&a->cl);
}

/* Together with clave while that goes well. */
static bool run_batch(app *a, int n) {
  if (a->p.library && run_together(a, n)) return true;
  if (interrupted) return false;
  if (a->p.library) {
    fprintf(stderr, "host_app: note: going on without clave\n");
    close_plugin(a);
  }
  run_alone(a, n);
  return true;
}

static bool name_images(app *a) {
  const node *rank = &a->g.nodes[a->g.n_nodes - 1];
  for (size_t at = 0; at < a->n_images; at += BATCH) {
    const int n = (int)(a->n_images - at < BATCH ? a->n_images - at : BATCH);
    a->g.images = a->bytes + at * IMAGE_BYTES;
    if (interrupted || !run_batch(a, n)) {
      fprintf(stderr, "host_app: interrupted\n");
      return false;
    }
    const float *p = a->g.tensors[rank->output].data;
    for (int i = 0; i < n; i++)
      printf("%zu %s %.3f\n", at + (size_t)i, labels[a->g.best[i]],
             (double)p[i * CLASSES + a->g.best[i]]);
  }
  return true;
}

/* ---------------------------------------------------------------- start */

static void divide(app *a) {
  clave_device_info info = {.size = sizeof info};
  int taken = 0;
  plugin_divide(&a->p, &a->g, a->own);
  for (int i = 0; i < a->g.n_nodes; i++) taken += a->p.part_of[i] >= 0;
  clave_status st = a->p.d.device_info(a->p.device, &info);
  fprintf(stderr, "host_app: clave %s runs %d of %d nodes in %d part%s on %s\n", a->p.d.library,
          taken, a->g.n_nodes, a->p.n_parts, a->p.n_parts == 1 ? "" : "s", st ? "?" : info.name);
  a->p.d.status_free(st);
}

static void open_plugin(app *a) {
  const own_opencl *cl = &a->cl;
  if (a->with_opencl && !own_opencl_open(&a->cl)) return;
  if (!plugin_open(&a->p, a->library, cl->context, cl->device, cl->queue)) return;
  divide(a);
  if (a->with_opencl && !share_buffers(a)) close_plugin(a);
  if (a->with_dma_buf && !share_frame(a)) close_plugin(a);
}

static bool read_images(app *a) {
  enum { MOST = 1000 };
  FILE *f = fopen(a->images, "rb");
  a->bytes = malloc((size_t)MOST * IMAGE_BYTES);
  if (f && a->bytes) a->n_images = fread(a->bytes, IMAGE_BYTES, MOST, f);
  if (f) (void)fclose(f);
  if (a->n_images) return true;
  fprintf(stderr, "host_app: %s: no images of %d bytes each\n", a->images, (int)IMAGE_BYTES);
  return false;
}

static bool read_own(app *a, const char *name) {
  for (int i = 0; i < N_OPS; i++)
    if (name && strcmp(op_names[i], name) == 0) return a->own[i] = true;
  fprintf(stderr, "host_app: --own '%s' is no op:", name ? name : "");
  for (int i = 0; i < N_OPS; i++) fprintf(stderr, " %s", op_names[i]);
  fprintf(stderr, "\n");
  return false;
}

static bool read_arguments(app *a, char **argv) {
  for (argv++; *argv; argv++) {
    if (strcmp(*argv, "--opencl") == 0) {
      a->with_opencl = true;
    } else if (strcmp(*argv, "--dma-buf") == 0) {
      a->with_dma_buf = true;
    } else if (strcmp(*argv, "--plugin") == 0 && argv[1]) {
      a->library = *++argv;
    } else if (strcmp(*argv, "--own") == 0) {
      if (!read_own(a, argv[1])) return false;
      argv++;
    } else {
      const char **file = !a->weights ? &a->weights : &a->images;
      if (**argv == '-' || *file) return false;
      *file = *argv;
    }
  }
  return a->images && !(a->with_opencl && a->with_dma_buf);
}

int main(int argc, char **argv) {
  static app a = {.library = "libclave_delegate.so"};
  (void)argc;
  if (!read_arguments(&a, argv)) {
    fprintf(
        stderr,
        "usage: host_app [--plugin PATH] [--opencl | --dma-buf] [--own OP]... WEIGHTS IMAGES\n");
    return 2;
  }
  (void)signal(SIGINT, interrupt);
  bool good = graph_create(a.weights, &a.g) && read_images(&a);
  if (good) {
    open_plugin(&a);
    good = name_images(&a);
    close_plugin(&a);
  }
  frame_close(&a.planes);
  graph_destroy(&a.g);
  free(a.bytes);
  return good ? 0 : 1;
}
