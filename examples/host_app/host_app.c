/* Names the shapes on small pictures. The graph is the application's own; clave runs part of it.
 *
 *   host_app [--plugin PATH] [--opencl | --dma-buf] [--own OP]... WEIGHTS IMAGES
 *
 * --plugin: libclave_delegate.so; by default the loader finds it. --opencl: use the application's
 * OpenCL context. --dma-buf: keep the images' planes in memory that devices share. --own: an op
 * that the application always runs itself. WEIGHTS, IMAGES: files of weights.py. Exit status 0: all
 * images are named correctly, by clave or the application; 1: they are not; 2: wrong usage. */
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
  uint8_t *bytes; /* owned; the images */
  size_t n_images;
} app;

/* ---------------------------------------------------------------- tensors in OpenCL buffers */

static bool share(app *app, int tensor) {
  const size_t bytes = (size_t)tensor_elements(&app->g.tensors[tensor], BATCH) * sizeof(float);
  app->p.memory[tensor] = own_opencl_buffer(&app->cl, bytes);
  return app->p.memory[tensor] != NULL;
}

/* Shares the planes, if only the first partition reads them, and the outputs of the last partition.
 */
static bool share_buffers(app *app) {
  const partition *first = &app->p.partitions[0],
                  *last = &app->p.partitions[app->p.n_partitions - 1];
  if (app->p.n_partitions == 0) return true;
  const bool planes = first->n_inputs == 1 && first->inputs[0] == app->g.nodes[0].output;
  return (!planes || share(app, first->inputs[0])) &&
         share(app, last->outputs[last->n_outputs - 1]);
}

/* Shares the planes, as a camera would pass them. */
static bool share_frame(app *app) {
  const int planes = app->g.nodes[0].output;
  if (!frame_open(&app->planes, &app->g.tensors[planes])) return false;
  app->p.dma_buf[planes] = app->planes.fd;
  return true;
}

/* ---------------------------------------------------------------- runs */

static void run_alone(app *app, int n) {
  for (int i = 0; i < app->g.n_nodes; i++) run_node(&app->g, &app->g.nodes[i], n);
}

/* Runs a node of the application: with its OpenCL if a partition reads the result from there. */
static bool run_own(app *app, const node *node, int n) {
  cl_mem memory = app->p.memory[node->output];
  if (node->op == OP_TO_PLANES && memory)
    return own_opencl_to_planes(&app->cl, app->g.images, n, memory);
  run_node(&app->g, node, n);
  return true;
}

static bool run_partition(app *app, const partition *partition, int n) {
  if (!plugin_run(&app->p, &app->g, partition, n)) return false;
  for (int i = 0; i < partition->n_outputs; i++) {
    const tensor *tensor = &app->g.tensors[partition->outputs[i]];
    cl_mem memory = app->p.memory[partition->outputs[i]];
    const size_t bytes = (size_t)tensor_elements(tensor, n) * sizeof(float);
    if (memory && !own_opencl_read(&app->cl, memory, tensor->data, bytes)) return false;
  }
  return true;
}

static bool run_together(app *app, int n) {
  for (int i = 0; i < app->g.n_nodes; i++) {
    const int partition = app->p.partition_of[i];
    if (partition < 0 && !run_own(app, &app->g.nodes[i], n)) return false;
    if (partition >= 0 && app->p.partitions[partition].first == i &&
        !run_partition(app, &app->p.partitions[partition], n))
      return false;
  }
  return true;
}

/* Destroys the instances before the buffers that are bound to them. */
static void close_plugin(app *app) {
  plugin_close(&app->p);
  own_opencl_close(&app->cl);
}

/* Runs a batch together with clave, or alone once that has failed. */
static bool run_batch(app *app, int n) {
  if (app->p.library && run_together(app, n)) return true;
  if (interrupted) return false;
  if (app->p.library) {
    fprintf(stderr, "host_app: note: going on without clave\n");
    close_plugin(app);
  }
  run_alone(app, n);
  return true;
}

static bool name_images(app *app) {
  const node *rank = &app->g.nodes[app->g.n_nodes - 1];
  for (size_t at = 0; at < app->n_images; at += BATCH) {
    const int n = (int)(app->n_images - at < BATCH ? app->n_images - at : BATCH);
    app->g.images = app->bytes + at * IMAGE_BYTES;
    if (interrupted || !run_batch(app, n)) {
      fprintf(stderr, "host_app: interrupted\n");
      return false;
    }
    const float *values = app->g.tensors[rank->output].data;
    for (int i = 0; i < n; i++)
      printf("%zu %s %.3f\n", at + (size_t)i, labels[app->g.best[i]],
             (double)values[i * CLASSES + app->g.best[i]]);
  }
  return true;
}

/* ---------------------------------------------------------------- start */

static void divide(app *app) {
  clave_device_info info = {.size = sizeof info};
  int taken = 0;
  plugin_divide(&app->p, &app->g, app->own);
  for (int i = 0; i < app->g.n_nodes; i++) taken += app->p.partition_of[i] >= 0;
  clave_status st = app->p.d.device_info(app->p.device, &info);
  fprintf(stderr, "host_app: clave %s runs %d of %d nodes in %d part%s on %s\n", app->p.d.library,
          taken, app->g.n_nodes, app->p.n_partitions, app->p.n_partitions == 1 ? "" : "s",
          st ? "?" : info.name);
  app->p.d.status_free(st);
}

static void open_plugin(app *app) {
  const own_opencl *cl = &app->cl;
  if (app->with_opencl && !own_opencl_open(&app->cl)) return;
  if (!plugin_open(&app->p, app->library, cl->context, cl->device, cl->queue)) return;
  divide(app);
  if (app->with_opencl && !share_buffers(app)) close_plugin(app);
  if (app->with_dma_buf && !share_frame(app)) close_plugin(app);
}

static bool read_images(app *app) {
  enum { MOST = 1000 };
  FILE *file = fopen(app->images, "rb");
  app->bytes = malloc((size_t)MOST * IMAGE_BYTES);
  if (file && app->bytes) app->n_images = fread(app->bytes, IMAGE_BYTES, MOST, file);
  if (file) (void)fclose(file);
  if (app->n_images) return true;
  fprintf(stderr, "host_app: %s: no images of %d bytes each\n", app->images, (int)IMAGE_BYTES);
  return false;
}

static bool read_own(app *app, const char *name) {
  for (int i = 0; i < N_OPS; i++)
    if (name && strcmp(op_names[i], name) == 0) return app->own[i] = true;
  fprintf(stderr, "host_app: --own '%s' is no op:", name ? name : "");
  for (int i = 0; i < N_OPS; i++) fprintf(stderr, " %s", op_names[i]);
  fprintf(stderr, "\n");
  return false;
}

static bool read_arguments(app *app, char **argv) {
  for (argv++; *argv; argv++) {
    if (strcmp(*argv, "--opencl") == 0) {
      app->with_opencl = true;
    } else if (strcmp(*argv, "--dma-buf") == 0) {
      app->with_dma_buf = true;
    } else if (strcmp(*argv, "--plugin") == 0 && argv[1]) {
      app->library = *++argv;
    } else if (strcmp(*argv, "--own") == 0) {
      if (!read_own(app, argv[1])) return false;
      argv++;
    } else {
      const char **file = !app->weights ? &app->weights : &app->images;
      if (**argv == '-' || *file) return false;
      *file = *argv;
    }
  }
  return app->images && !(app->with_opencl && app->with_dma_buf);
}

int main(int argc, char **argv) {
  static app app = {.library = "libclave_delegate.so"};
  (void)argc;
  if (!read_arguments(&app, argv)) {
    fprintf(
        stderr,
        "usage: host_app [--plugin PATH] [--opencl | --dma-buf] [--own OP]... WEIGHTS IMAGES\n");
    return 2;
  }
  (void)signal(SIGINT, interrupt);
  bool good = graph_create(app.weights, &app.g) && read_images(&app);
  if (good) {
    open_plugin(&app);
    good = name_images(&app);
    close_plugin(&app);
  }
  frame_close(&app.planes);
  graph_destroy(&app.g);
  free(app.bytes);
  return good ? 0 : 1;
}
