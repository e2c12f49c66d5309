#ifndef CLI_GRAPH_H
#define CLI_GRAPH_H
/* A method as a graph: its nodes in order and the slots between them. inspect lists and draws it.
 */
#include "cli/model.h"

typedef struct graph_node {
  char *op, *name, *detail; /* owned */
  char *where;              /* owned; as in clave_placement_info; NULL: not read */
  char *reason;             /* owned; NULL: runs on its first choice */
  uint32_t *slots;          /* owned; the slots read, then those written */
  uint32_t n_reads, n_writes;
  bool is_view;     /* set by read_placement and find_views */
  char *note;       /* owned; an additional line in a drawing, or NULL */
  const char *fill; /* its colour in a drawing; NULL: the colour of its op */
  uint32_t into;    /* the node that it is fused into, set by read_placement; its own index if it is
                       not fused */
} graph_node;

typedef struct graph {
  const char *method;                  /* borrowed from the program */
  graph_node *nodes;                   /* owned */
  clave_tensor_info *slots;            /* owned, indexed by slot; names belong to the program */
  bool *is_read, *is_used;             /* owned, by slot: read, or used at all, in this method */
  clave_tensor_info *inputs, *outputs; /* owned */
  uint32_t n_nodes, n_slots, n_inputs, n_outputs;
} graph;

/* Call free_graph even if one of these fails. */
int read_graph(const model *model, graph *graph) CHECK;
/* Sets `where`, `reason` and `is_view` for model->device. */
int read_placement(const model *model, graph *graph) CHECK;
/* Sets `is_view` only. On failure no node is marked as a view. */
void find_views(const model *model, graph *graph);
void free_graph(graph *graph);

const uint32_t *node_writes(const graph_node *node);
bool is_constant(const graph *graph, uint32_t slot);

/* Returns the name of the first size without an upper bound, or the name of its node if the size
 * has none. Returns NULL if all sizes are bounded. */
const char *find_unbounded_size(const graph *graph);
/* Computes the largest number of bytes of temporaries and outputs alive at the same time; a view
 * shares its operand's bytes. UINT64_MAX: a size is unbounded. Returns false if out of memory. */
bool measure_live_peak(const graph *graph, uint64_t *bytes);

/* write_dot writes the graph in Graphviz's language, write_svg as an SVG drawing in which one box
 * stands for the repeats of each fold. folds may be NULL. */
void write_dot(const graph *graph, page *out);
struct graph_folds;
int write_svg(const graph *graph, const struct graph_folds *folds, page *out) CHECK;
/* Returns the border colour of an op's box; write_colours writes the legend of colours as HTML. */
const char *colour_of_op(const char *op);
void write_colours(const graph *graph, page *out);

#endif
