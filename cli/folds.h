#ifndef CLI_FOLDS_H
#define CLI_FOLDS_H
/* Finds blocks of nodes that repeat, such as the layers of a transformer, so that a drawing shows
 * the first of them and one box for the others. */
#include "cli/graph.h"

/* `count` equal blocks of `period` nodes each; the first block begins at node `first`. */
typedef struct graph_fold {
  uint32_t first, period, count;
  char *note; /* owned; a further line of the box that stands for the repeats; NULL: none */
} graph_fold;

typedef struct graph_folds {
  graph_fold *items; /* owned, ascending and disjoint */
  uint32_t n;
  size_t capacity;
} graph_folds;

/* Nodes are equal if op, attributes, result dtypes and result shapes are. Only repeats that hide at
 * least eight nodes are folded. The search is quadratic and bounded: of graphs with more than
 * 20,000 nodes not all repeats are found. On failure, too, free_folds is to be called. */
int find_folds(const graph *graph, graph_folds *folds) CHECK;
void free_folds(graph_folds *folds);

/* The fold whose repeats (all blocks but its first) contain the node, or NULL. */
graph_fold *fold_of_node(const graph_folds *folds, uint32_t node);

#endif
