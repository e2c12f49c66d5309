#ifndef INTERP_GRAPH_DRAFT_H
#define INTERP_GRAPH_DRAFT_H
/* A program that is being rewritten: lists of instructions, and for each slot its writer and
 * readers. A draft is created from a program, edited, and made into a program again, which the
 * verifier checks. Slots keep their numbers during editing; new slots come last. While a program is
 * a draft, outputs are temporaries that a method names.
 *
 * If memory runs out, later calls do nothing and draft_finish returns the error. */
#include "base/memory.h"
#include "interp/graph/sizes.h"
#include "ops/ops.h"
#include "serialize/program.h"

typedef struct draft_node {
  ir_instruction ins; /* op: owned by the draft */
  struct draft_node *prev, *next;
  uint32_t chain, order; /* order: for use by passes */
  bool erased;
} draft_node;

typedef struct draft_slot {
  ir_tensor tensor;
  slot_kind kind;
  draft_node *writer;   /* NULL for constants, inputs and args of bodies */
  draft_node **readers; /* (n_readers) one entry per operand that reads this slot; unordered */
  uint32_t n_readers, capacity;
  uint32_t kept; /* number of outputs, updates, results, args and state initialisers that name it */
  const void *data; /* a constant's bytes; NULL if empty */
} draft_slot;

typedef struct draft_chain {
  draft_node *first, *last;
} draft_chain;

typedef struct draft {
  const program *from; /* borrowed; the draft uses its bytes of constants */
  mem_pool *pool;      /* owned */
  mem_pool *data;      /* borrowed; holds the bytes of added constants */
  ir_program ir;       /* a copy of the program; the instructions are in `chains` */
  draft_chain *chains; /* by chain number */
  draft_slot *slots;
  uint32_t n_slots;
  size_t slot_capacity;
  size_table *sizes;
  uint32_t *value_alias; /* by Vid: the value that replaces it, or itself */
  bool no_memory;
  uint64_t scratch[64]; /* dummy op for callers when memory has run out */
} draft;

/* data: holds the bytes of added constants; must outlive the programs that draft_finish makes. */
clave_status draft_create(const program *program, mem_pool *data, draft **out) STATUS_CHECK;
void draft_destroy(draft *draft); /* accepts NULL */
/* Makes a verified program with consts_hash 0. The bytes of its constants belong to the draft's
 * program and to `data`. */
clave_status draft_finish(draft *draft, program **out) STATUS_CHECK;

/* Makes a program with one method that has no inputs and whose outputs are these slots. It contains
 * the instructions that compute them from constants. */
clave_status draft_extract(draft *draft, const uint32_t *tids, uint32_t n,
                           program **out) STATUS_CHECK;

/* ---------------------------------------------------------------- reading */

/* Iterates over all nodes of the program, each chain in order:
 *
 *   for (draft_node *n = draft_first(d, 0); n; n = draft_next(d, n)) */
draft_node *draft_first(const draft *draft, uint32_t chain); /* in this chain or a later one */
draft_node *draft_next(const draft *draft, const draft_node *node);
/* Returns the op of the slot's writer if it has this type; else NULL. */
const void *draft_op(const draft *draft, uint32_t tid, ir_op type);
/* Returns the encoded constant that is this slot or that is decoded to it; else IR_NONE. */
uint32_t draft_codes(const draft *draft, uint32_t tid);
/* True if an instruction reads the slot, or an output, update, result or arg names it. */
bool draft_is_read(const draft *draft, uint32_t tid);
static inline dtype draft_type(const draft *draft, uint32_t tid) {
  return draft->slots[tid].tensor.dtype;
}
static inline int draft_rank(const draft *draft, uint32_t tid) {
  return (int)draft->slots[tid].tensor.shape.count;
}
/* Returns a dimension, counted from the end if negative. */
static inline const ir_int_or_vid *draft_dim(const draft *draft, uint32_t tid, int axis) {
  const ir_int_or_vids *values = &draft->slots[tid].tensor.shape;
  return &values->items[axis < 0 ? axis + (int)values->count : axis];
}
extent draft_size(const draft *draft, uint32_t tid, int axis);
/* Returns the product of all dimensions except the last `but`. */
extent draft_numel(const draft *draft, uint32_t tid, int but);
/* True if both shapes are the same for all inputs. */
bool draft_same_shape(const draft *draft, uint32_t a, uint32_t b);
/* Sets *out to the slot's type. Returns false if a size is not a number. */
bool draft_fixed(const draft *draft, uint32_t tid, tensor *out);

/* ---------------------------------------------------------------- editing */

/* Adds a temporary; the shape is copied. Returns IR_NONE if memory runs out. */
uint32_t draft_slot_new(draft *draft, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name);
/* Adds an integer value with bounds, for shapes; no instruction sets it. */
uint32_t draft_value(draft *draft, const char *name, int64_t min, int64_t max);
/* Replaces the dimension by a value. */
void draft_set_size(draft *draft, uint32_t tid, int axis, uint32_t value);
/* Replaces the shape. */
void draft_set_shape(draft *draft, uint32_t tid, const ir_int_or_vid *shape, int rank);
/* Adds an input tensor to the method, after its other inputs. */
uint32_t draft_input(draft *draft, ir_method *method, dtype type, const ir_int_or_vid *shape,
                     int rank, const char *name);
/* Adds a temporary with the dtype and shape of another slot. */
uint32_t draft_slot_like(draft *draft, uint32_t like, const char *name);
/* Adds a constant and copies its bytes, or returns an added constant with the same contents. */
uint32_t draft_constant(draft *draft, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name, const void *bytes);
/* Add a constant with the dtype, shape and encoding of `tensor`, and a name derived from its name.
 * draft_constant_over uses bytes that must outlive the draft's program; draft_constant_reserve
 * allocates bytes that the caller fills in. */
uint32_t draft_constant_over(draft *draft, const ir_tensor *tensor, const void *bytes);
uint32_t draft_constant_reserve(draft *draft, const ir_tensor *tensor, size_t bytes, void **memory);
/* Adds an instruction before another, with the same name. Returns its op with all fields at their
 * defaults; the caller fills it in and calls draft_note. Returns a dummy op if memory runs out. */
void *draft_add(draft *draft, draft_node *before, ir_op type);
/* Registers the operands of the instruction added last. */
void draft_note(draft *draft, draft_node *before);
/* True if `to` can replace `from`. If a method or body returns `from`, one chain must write
 * both. */
bool draft_can_replace(const draft *draft, uint32_t to, uint32_t from);
/* Replaces `from` by `to` in all uses. Erases the writer of `from` if nothing else needs it. */
void draft_replace(draft *draft, uint32_t from, uint32_t to);
/* Erases an instruction whose results nothing reads, then the writers that only it needed. Host and
 * control ops stay. */
void draft_erase(draft *draft, draft_node *node);

/* ---- common instructions: return the new slot; IR_NONE if memory runs out ---- */
uint32_t draft_reshape(draft *draft, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                       int rank);
uint32_t draft_expand(draft *draft, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                      int rank);
/* Adds a step over n tensors of the same dtype, whose shapes broadcast. */
uint32_t draft_step(draft *draft, draft_node *before, ir_step_kind kind, const uint32_t *xs,
                    uint32_t n);
/* Adds a step with operands x and a number. */
uint32_t draft_step_number(draft *draft, draft_node *before, ir_step_kind kind, uint32_t x,
                           double number);
uint32_t draft_cast(draft *draft, draft_node *before, uint32_t x, dtype type);
uint32_t draft_permute(draft *draft, draft_node *before, uint32_t x, const int *dims);

/* ---------------------------------------------------------------- used within graph/ */

void *draft_alloc(draft *draft, size_t count, size_t item); /* zeroed; else sets no_memory */
/* Like draft_add; inserts at the end of the chain if `before` is NULL. */
void *draft_insert(draft *draft, uint32_t chain, draft_node *before, const char *name, ir_op type);
void draft_note_last(draft *draft, uint32_t chain);
void draft_link(draft *draft, draft_node *node, draft_node *before);
void draft_unlink(draft *draft, draft_node *node);
/* Removes a node of which nothing reads a result. */
void draft_remove(draft *draft, draft_node *node);
static inline ir_int_or_vid literal_size(int64_t n) {
  return (ir_int_or_vid){.literal = n, .vid = IR_NONE, .present = true};
}
static inline ir_int_or_vid value_size(uint32_t vid) {
  return (ir_int_or_vid){.vid = vid, .present = true};
}

#endif
