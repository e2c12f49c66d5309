#ifndef HOST_APP_PLUGIN_H
#define HOST_APP_PLUGIN_H
/* clave as a plugin: opened at run time, asked what it takes of the graph, and given that. Whatever
 * goes wrong is said on stderr, and leaves the work to the application. */
#include <signal.h>

#include "clave_delegate.h"
#include "graph.h"

enum { MAX_ARGUMENTS = 8 };

/* Neighbouring nodes that clave runs: a program of its own. */
typedef struct part {
  int first, count;                                  /* of graph.nodes */
  int inputs[MAX_ARGUMENTS], outputs[MAX_ARGUMENTS]; /* of graph.tensors */
  int n_inputs, n_outputs;
  clave_delegate_handle program, instance;
} part;

typedef struct plugin {
  void *library;
  clave_delegate d;
  clave_delegate_handle device;
  part parts[MAX_NODES];
  int n_parts, part_of[MAX_NODES]; /* -1: the application runs the node */
  void *memory[MAX_TENSORS];       /* a cl_mem that holds the tensor; NULL: tensor.data does */
  int dma_buf[MAX_TENSORS];        /* the descriptor of that; 0: it is the application's alone */
} plugin;

/* path: of libclave_delegate.so. context, device, queue: the application's own OpenCL, or NULL:
 * clave opens what CLAVE_DEVICE says. */
bool plugin_open(plugin *plugin, const char *path, void *context, void *device, void *queue);
/* own: ops that the application keeps to itself. */
void plugin_divide(plugin *plugin, graph *graph, const bool *own);
/* Runs a part on n images. False: it did not, or was interrupted. */
bool plugin_run(plugin *plugin, graph *graph, const part *part, int n);
void plugin_close(plugin *plugin);

extern volatile sig_atomic_t interrupted; /* ends a run that is under way */

#endif
