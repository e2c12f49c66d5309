#ifndef CLI_FOLDS_H
#define CLI_FOLDS_H
/* Finds blocks of nodes that repeat, such as the layers of a transformer, so that a drawing shows
 * the first of them and one box for the others. */
#include "cli/graph.h"

/* `count` equal consecutive blocks of `period` nodes; the first begins at node `first`. */
typedef struct graph_fold {
  uint32_t first, period, count;
  char *note; /* owned; an additional line in the box that stands for the repeats, or NULL */
} graph_fold;

typedef struct graph_folds {
  graph_fold *items; /* owned, ascending and disjoint */
  uint32_t n;
  size_t capacity;
} graph_folds;

/* Finds equal blocks: nodes are equal if op, attributes, result dtypes and result shapes are. Only
 * repeats that hide at least eight nodes are folded. The quadratic search is bounded, so not all
 * repeats are found in graphs of more than 20,000 nodes. Call free_folds even on failure. */
int find_folds(const graph *graph, graph_folds *folds) CHECK;
void free_folds(graph_folds *folds);

/* Returns the fold whose repeats (all blocks except its first) contain the node, or NULL. */
graph_fold *fold_of_node(const graph_folds *folds, uint32_t node);

#endif
