#ifndef INTERP_GRAPH_DRAFT_PARTS_H
#define INTERP_GRAPH_DRAFT_PARTS_H
/* What draft.c and draft_finish.c share. */
#include "interp/graph/draft.h"

/* As draft_add, with the chain's end for `before` NULL. */
void *draft_insert(draft *d, uint32_t chain, draft_node *before, const char *name, ir_op type);
void draft_note_last(draft *d, uint32_t chain);
void draft_link(draft *d, draft_node *n, draft_node *before);
void draft_unlink(draft *d, draft_node *n);

#endif
