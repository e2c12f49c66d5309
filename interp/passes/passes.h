#ifndef INTERP_PASSES_PASSES_H
#define INTERP_PASSES_PASSES_H
/* Passes rewrite a graph before it is placed on devices. To add one: its function here, and a row
 * in passes.c. */
#include "interp/graph/graph.h"

/* Runs all of them, in the table's order, and finds the uses of what is left. `fuse` false: none
 * is run. */
clave_status run_passes(graph *g, bool fuse) STATUS_CHECK;

/* ---- fuse.c ---- Elementwise chains become one node. */
clave_status fuse_elementwise(graph *g) STATUS_CHECK;

#endif
