#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H
/* Pictures of how a method runs: beside its graph, the time of each node and the memory. */
#include "cli/graph.h"

/* Microseconds of each node in a profile that clave run --profile wrote. */
typedef struct node_times {
  double *us;          /* owned (n_nodes) */
  double total, moves; /* of all; of copies and transfers among them */
} node_times;
int read_times(const char *path, const graph *graph, node_times *out) CHECK;
/* A line in each node's box, and a colour that says how much of the whole it takes. */
int show_times(const node_times *times, graph *graph) CHECK;
void free_times(node_times *times);

/* The arena of the last run of model's session: a rectangle for each block, over the commands that
 * it is alive for, as high as it has bytes. */
int write_arena(const model *model, const graph *graph, page *out) CHECK;

/* A page with all of it. model has its device; times may be NULL; dims: "NAME=N", the open sizes of
 * the run whose memory is shown. */
int write_picture(model *model, graph *graph, const char *title, const node_times *times,
                  const text_list *dims, page *out) CHECK;

#endif
