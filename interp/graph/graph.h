#ifndef INTERP_GRAPH_GRAPH_H
#define INTERP_GRAPH_GRAPH_H
/* A method's instructions in memory, and everything about them that does not depend on sizes. The
 * instructions form one list, in which a control op is followed by the instructions of its bodies.
 * Passes rewrite the list before an executable uses it. */
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
  mem_pool *pool;          /* borrowed; holds what the graph and its passes allocate */
  ir_instruction *instructions;
  uint32_t n;
  uint32_t *source;   /* (n) node number of each instruction in the method, see program_find_node */
  uint32_t *joined;   /* by node number: the node that a pass merged it into; else itself */
  uint32_t *chain;    /* (n) chain that contains the instruction */
  uint32_t *parent;   /* (n) the control op whose body contains the instruction; else NO_INDEX */
  range (*bodies)[2]; /* (n) instructions of a control op's bodies; else empty */
  uint32_t *writer;   /* (n_slots) instruction that writes the slot; the control op for args of its
                         bodies; NO_INDEX if none */
  uint32_t *last_use; /* (n_slots) last instruction that reads the slot; n: read after the last;
                         NO_INDEX: never */
} graph;

clave_status graph_create(const program *program, const ir_method *method, mem_pool *pool,
                          graph *out) STATUS_CHECK;
/* Removes the instructions whose op_type a pass has set to NONE. */
clave_status graph_compact(graph *graph) STATUS_CHECK;
/* Computes writer and last_use. Call after the last change. */
void graph_find_uses(graph *graph);
/* Sets out[tid] (n_slots) for constants that a product reads as b, directly or through views. */
clave_status graph_find_multiplied(const graph *graph, bool *out) STATUS_CHECK;
/* Returns the node number of instruction i; the method's node count if i is not an instruction. */
uint32_t node_number(const graph *graph, uint32_t i);
/* Returns "softmax", or the name of a custom op, for messages. */
const char *name_of_op(const ir_instruction *ins);
/* Adds "node 3 (matmul, linear_1)" to the message, unless i is not an instruction. */
clave_status while_in_node(clave_status st, const graph *graph, uint32_t i) STATUS_CHECK;

/* Iterates over the slots in a range of instructions and in the args of their bodies, some of which
 * occur more than once:
 *
 *   for (slot_iter i = slots_of(g, r); next_slot(&i);) use(i.tid); */
typedef struct slot_iter {
  uint32_t tid;
  const graph *graph;
  range left;
  operand_iter operands; /* operands of the first instruction in `left` */
  uint32_t body, arg;    /* position in the args, which come after the operands */
} slot_iter;
slot_iter slots_of(const graph *graph, range range);
bool next_slot(slot_iter *iter); /* false at the end */

static inline uint32_t slot_count(const program *program) { return program->ir.tensors.count; }
static inline bool is_slot(const program *program, uint32_t tid, slot_kind kind) {
  return program_slot_kind(&program->ir, tid) == kind;
}
/* Returns the slot of the first state. */
static inline uint32_t first_state(const program *program) {
  return program->ir.constants.count + program->ir.n_inputs + program->ir.n_outputs;
}

/* Computes a tensor's size in bytes; an error if it overflows. */
clave_status known_bytes(const tensor *tensor, size_t *out) STATUS_CHECK;

#endif
