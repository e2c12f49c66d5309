#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H
/* Drawings of how a method runs: the time of each node in its graph, and the memory plan. */
#include "cli/graph.h"

/* Microseconds of each node, from a profile that clave run --profile wrote. */
typedef struct node_times {
  double *us;          /* owned (n_nodes) */
  double total, moves; /* times of all nodes, and of their copies and transfers */
} node_times;
int read_times(const char *path, const graph *graph, node_times *out) CHECK;
/* Adds a line to each node's box and colours it by its share of the total. */
int show_times(const node_times *times, graph *graph) CHECK;
void free_times(node_times *times);

/* Draws the arena of the last run of the model's session: one rectangle per block, as wide as the
 * commands for which it is alive and as high as its bytes. */
int write_arena(const model *model, const graph *graph, page *out) CHECK;

/* Writes a page with all drawings. The model's device is open. times may be NULL. dims: "NAME=N",
 * the open sizes of the memory plan. */
int write_picture(model *model, graph *graph, const char *title, const node_times *times,
                  const text_list *dims, page *out) CHECK;

#endif
