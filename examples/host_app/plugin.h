#ifndef HOST_APP_PLUGIN_H
#define HOST_APP_PLUGIN_H
/* clave as a plugin: the application opens it at run time, queries which nodes it supports, and
 * passes it those nodes. Errors are written to stderr and leave the work to the application. */
#include <signal.h>

#include "clave_delegate.h"
#include "graph.h"

enum { MAX_ARGUMENTS = 8 };

/* Neighbouring nodes that clave runs as one program. */
typedef struct partition {
  int first, count;                                  /* range of graph.nodes */
  int inputs[MAX_ARGUMENTS], outputs[MAX_ARGUMENTS]; /* indices of graph.tensors */
  int n_inputs, n_outputs;
  clave_delegate_handle program, instance;
} partition;

typedef struct plugin {
  void *library;
  clave_delegate d;
  clave_delegate_handle device;
  partition partitions[MAX_NODES];
  int n_partitions, partition_of[MAX_NODES]; /* -1: the application runs the node */
  void *memory[MAX_TENSORS]; /* a cl_mem that holds the tensor; NULL: it is in tensor.data */
  int dma_buf[MAX_TENSORS];  /* descriptor of tensor.data; 0: the memory is not shared */
} plugin;

/* Opens the plugin. path: of libclave_delegate.so. context, device, queue: the application's
 * OpenCL; or NULL, for the device of CLAVE_DEVICE. */
bool plugin_open(plugin *plugin, const char *path, void *context, void *device, void *queue);
/* Divides the graph into partitions. own: (N_OPS) ops that the application always runs itself. */
void plugin_divide(plugin *plugin, graph *graph, const bool *own);
/* Runs a partition on n images. False if it failed or was interrupted. */
bool plugin_run(plugin *plugin, graph *graph, const partition *partition, int n);
void plugin_close(plugin *plugin);

extern volatile sig_atomic_t interrupted; /* ends the current run */

#endif
