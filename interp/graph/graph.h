#ifndef INTERP_GRAPH_GRAPH_H
#define INTERP_GRAPH_GRAPH_H
/* A method's instructions in memory: one list, in which a control op is followed by those of its
 * bodies, and what can be told of them before any size is known. Passes rewrite it until an
 * executable is made of it. */
#include "base/memory.h"
#include "ops/ops.h"
#include "serialize/program.h"

#define NO_INDEX UINT32_MAX

typedef struct range {
  uint32_t first, end; /* [first, end) */
} range;

typedef struct graph {
  const program *prog;     /* borrowed */
  const ir_method *method; /* borrowed */
  mem_pool *pool;          /* borrowed: what the graph and its passes make lies there */
  ir_instruction *instructions;
  uint32_t n;
  uint32_t *source; /* (n) number of each in the method, see program_find_node */
  uint32_t *joined; /* by number in the method: of the node that a pass joined it to, or its own */
  uint32_t *chain;  /* (n) where it stands */
  uint32_t *parent; /* (n) the control op whose body it is in; NO_INDEX */
  range (*bodies)[2]; /* (n) instructions of a control op's bodies; of others none, right behind */
  uint32_t *writer;   /* (n_slots) instruction; a body's args: its control op; NO_INDEX */
  uint32_t *last_use; /* (n_slots) last instruction that reads the slot; n: read after the last;
                         NO_INDEX: none */
} graph;

clave_status graph_create(const program *program, const ir_method *method, mem_pool *pool,
                          graph *out) STATUS_CHECK;
/* Leaves out the instructions whose op_type a pass has set to NONE. */
clave_status graph_compact(graph *graph) STATUS_CHECK;
/* Fills in writer and last_use; after the last change. */
void graph_find_uses(graph *graph);
/* Sets out[tid] (n_slots) for the constants that a product reads as its b, as they are or by views.
 */
clave_status graph_find_multiplied(const graph *graph, bool *out) STATUS_CHECK;
/* Its number in the method; i that is none: how many nodes the method has. */
uint32_t node_number(const graph *graph, uint32_t i);
/* For messages: "softmax", or the custom op's own name. */
const char *name_of_op(const ir_instruction *ins);
/* "node 3 (matmul, linear_1): ..."; as it is where i is no instruction. */
clave_status while_in_node(clave_status st, const graph *graph, uint32_t i) STATUS_CHECK;

/* Every slot of the instructions of a range and of their bodies' args, some more than once:
 *   for (slot_iter i = slots_of(g, r); next_slot(&i);) use(i.tid); */
typedef struct slot_iter {
  uint32_t tid;
  const graph *graph;
  range left;
  operand_iter operands; /* of the first instruction left */
  uint32_t body, arg;    /* what comes after them */
} slot_iter;
slot_iter slots_of(const graph *graph, range range);
bool next_slot(slot_iter *iter); /* false: there are no more */

static inline uint32_t slot_count(const program *program) { return program->ir.tensors.count; }
static inline bool is_slot(const program *program, uint32_t tid, slot_kind kind) {
  return program_slot_kind(&program->ir, tid) == kind;
}
/* The first state's slot. */
static inline uint32_t first_state(const program *program) {
  return program->ir.constants.count + program->ir.n_inputs + program->ir.n_outputs;
}

/* A tensor's bytes; an error where they overflow. */
clave_status known_bytes(const tensor *tensor, size_t *out) STATUS_CHECK;

#endif
