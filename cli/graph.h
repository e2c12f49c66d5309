#ifndef CLI_GRAPH_H
#define CLI_GRAPH_H
/* A method as a graph: its nodes in order and the slots between them. What inspect lists and draws.
 */
#include "cli/model.h"

typedef struct graph_node {
  char *op, *name, *detail; /* owned */
  char *where;              /* owned; as in clave_placement_info; NULL: not asked */
  char *reason;             /* owned; NULL: first choice */
  uint32_t *slots;          /* owned: reads, then writes */
  uint32_t n_reads, n_writes;
  bool is_view;     /* known after read_placement or find_views */
  char *note;       /* owned; a further line of a drawing; NULL: none */
  const char *fill; /* its colour in a drawing; NULL: that of its op */
  uint32_t into;    /* the node that runs it, known after read_placement; itself */
} graph_node;

typedef struct graph {
  const char *method;                  /* borrowed from the program */
  graph_node *nodes;                   /* owned */
  clave_tensor_info *slots;            /* owned, by slot number; names are the program's */
  bool *is_read, *is_used;             /* owned, by slot number: by a node of this method */
  clave_tensor_info *inputs, *outputs; /* owned */
  uint32_t n_nodes, n_slots, n_inputs, n_outputs;
} graph;

/* On failure of these, too, free_graph is to be called. */
int read_graph(const model *model, graph *graph) CHECK;
/* Fills `where`, `reason` and `is_view`, for model->device. */
int read_placement(const model *model, graph *graph) CHECK;
/* Fills `is_view` alone. If that cannot be, nothing is known to be a view. */
void find_views(const model *model, graph *graph);
void free_graph(graph *graph);

const uint32_t *node_writes(const graph_node *node);
bool is_constant(const graph *graph, uint32_t slot);

/* The name of the first size without an upper bound, or if it has none that of its node; NULL: all
 * have a bound. */
const char *find_unbounded_size(const graph *graph);
/* The most bytes of temporaries and outputs that are alive at once; a view shares its operand's.
 * UINT64_MAX: a size has no bound. False: out of memory. */
bool measure_live_peak(const graph *graph, uint64_t *bytes);

/* The graph as text for graphviz, and as a drawing, in which one box stands for the repeats of each
 * fold; folds may be NULL. */
void write_dot(const graph *graph, page *out);
struct graph_folds;
int write_svg(const graph *graph, const struct graph_folds *folds, page *out) CHECK;
/* The border colour of an op's box, and which kinds of ops have which, as HTML. */
const char *colour_of_op(const char *op);
void write_colours(const graph *graph, page *out);

#endif
