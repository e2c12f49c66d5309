#ifndef INTERP_GRAPH_DRAFT_H
#define INTERP_GRAPH_DRAFT_H
/* A program that is being rewritten: instructions in lists, and of each slot who writes and who
 * reads it. A draft is made of a program, edited, and made into a program again, which the verifier
 * checks. Slots keep their numbers meanwhile, those that are added come behind them; an output is a
 * temporary here that a method names.
 *
 * An error of memory is kept and returned by draft_finish; calls after it do nothing. */
#include "base/memory.h"
#include "interp/graph/sizes.h"
#include "ops/ops.h"
#include "serialize/program.h"

typedef struct draft_node {
  ir_instruction ins; /* op: the draft's own */
  struct draft_node *prev, *next;
  uint32_t chain, order; /* order: for passes */
  bool erased;
} draft_node;

typedef struct draft_slot {
  ir_tensor tensor;
  slot_kind kind;
  draft_node *writer;   /* NULL: none, or it is a body's arg */
  draft_node **readers; /* one for each operand that is this slot; in no order */
  uint32_t n_readers, capacity;
  uint32_t kept;    /* how many outputs, updates, results and args name it */
  const void *data; /* a constant's bytes; NULL if empty */
} draft_slot;

typedef struct draft_chain {
  draft_node *first, *last;
} draft_chain;

typedef struct draft {
  const program *from; /* borrowed: constants' bytes are its */
  mem_pool *pool;      /* owned */
  mem_pool *data;      /* borrowed: bytes of the constants that are added */
  ir_program ir;       /* a copy; its chains' instructions are in `chains` */
  draft_chain *chains; /* by number */
  draft_slot *slots;
  uint32_t n_slots;
  size_t slot_capacity;
  size_table *sizes;
  uint32_t *value_alias; /* by Vid: the value that stands for it; itself */
  bool no_memory;
  uint64_t scratch[64]; /* an op for callers when memory is out */
} draft;

/* data: where constants that are added keep their bytes; it outlives what draft_finish makes. */
clave_status draft_create(const program *program, mem_pool *data, draft **out) STATUS_CHECK;
void draft_destroy(draft *draft); /* takes NULL */
/* The program, verified, but with consts_hash 0; its constants' bytes are those of the draft's
 * program and data. */
clave_status draft_finish(draft *draft, program **out) STATUS_CHECK;

/* A program of one method without inputs, whose outputs are these slots: of the instructions that
 * compute them of constants. */
clave_status draft_extract(draft *draft, const uint32_t *tids, uint32_t n,
                           program **out) STATUS_CHECK;

/* ---------------------------------------------------------------- reading */

/* Every node of the program, each chain's in order:
 *   for (draft_node *n = draft_first(d, 0); n; n = draft_next(d, n)) */
draft_node *draft_first(const draft *draft, uint32_t chain); /* of this chain or a later one */
draft_node *draft_next(const draft *draft, const draft_node *node);
/* The op of the slot's writer if it is of this type, else NULL. */
const void *draft_op(const draft *draft, uint32_t tid, ir_op type);
/* The encoded constant that a slot is, or is decoded from; else IR_NONE. */
uint32_t draft_codes(const draft *draft, uint32_t tid);
/* Does anything read or keep it? */
bool draft_is_read(const draft *draft, uint32_t tid);
static inline dtype draft_type(const draft *draft, uint32_t tid) {
  return draft->slots[tid].tensor.dtype;
}
static inline int draft_rank(const draft *draft, uint32_t tid) {
  return (int)draft->slots[tid].tensor.shape.count;
}
/* A dimension, counted from the end if negative. */
static inline const ir_int_or_vid *draft_dim(const draft *draft, uint32_t tid, int axis) {
  const ir_int_or_vids *values = &draft->slots[tid].tensor.shape;
  return &values->items[axis < 0 ? axis + (int)values->count : axis];
}
extent draft_size(const draft *draft, uint32_t tid, int axis);
/* Elements, as a product of sizes; of all dimensions but the last `but`. */
extent draft_numel(const draft *draft, uint32_t tid, int but);
/* Is it the same shape for every input? */
bool draft_same_shape(const draft *draft, uint32_t a, uint32_t b);
/* The shape as numbers, if it has no others; and the elements' count. */
bool draft_fixed(const draft *draft, uint32_t tid, tensor *out);

/* ---------------------------------------------------------------- editing */

/* A temporary of this shape, which is copied. IR_NONE: no memory. */
uint32_t draft_slot_new(draft *draft, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name);
/* An integer between bounds that stands in shapes, set by no instruction. */
uint32_t draft_value(draft *draft, const char *name, int64_t min, int64_t max);
/* The dimension becomes a value. */
void draft_set_size(draft *draft, uint32_t tid, int axis, uint32_t value);
/* All of them become these. */
void draft_set_shape(draft *draft, uint32_t tid, const ir_int_or_vid *shape, int rank);
/* A tensor that the method takes behind its other inputs. */
uint32_t draft_input(draft *draft, ir_method *method, dtype type, const ir_int_or_vid *shape,
                     int rank, const char *name);
/* A temporary of another's dtype and shape. */
uint32_t draft_slot_like(draft *draft, uint32_t like, const char *name);
/* A constant with these bytes, which are copied. */
uint32_t draft_constant(draft *draft, dtype type, const ir_int_or_vid *shape, int rank,
                        const char *name, const void *bytes);
/* A constant of tensor's dtype, shape, encoding and, behind a prefix, name; over bytes that outlive
 * the draft's program, or with room that the caller fills. */
uint32_t draft_constant_over(draft *draft, const ir_tensor *tensor, const void *bytes);
uint32_t draft_constant_room(draft *draft, const ir_tensor *tensor, size_t bytes, void **room);
/* Adds an instruction before another, named as that: all fields as when absent, to be filled in and
 * then noted. Returns its op; a scratch one when memory is out. */
void *draft_add(draft *draft, draft_node *before, ir_op type);
/* Notes what the instruction that was added last reads and writes. */
void draft_note(draft *draft, draft_node *before);
/* Can `to` be read in the place of `from` everywhere? What a method or a body gives must be written
 * in its own chain. */
bool draft_can_stand_for(const draft *draft, uint32_t to, uint32_t from);
/* Everything reads `to` in the place of `from`, whose writer goes if nothing needs it. */
void draft_replace(draft *draft, uint32_t from, uint32_t to);
/* Removes an instruction whose results nothing reads, then those that only it read. Host and
 * control ops stay. */
void draft_erase(draft *draft, draft_node *node);

/* ---- instructions that passes add often: the new slot; IR_NONE when memory is out ---- */
uint32_t draft_reshape(draft *draft, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                       int rank);
uint32_t draft_expand(draft *draft, draft_node *before, uint32_t x, const ir_int_or_vid *shape,
                      int rank);
/* A step over n tensors of one dtype, whose shapes broadcast. */
uint32_t draft_step(draft *draft, draft_node *before, ir_step_kind kind, const uint32_t *xs,
                    uint32_t n);
/* x and a number. */
uint32_t draft_step_number(draft *draft, draft_node *before, ir_step_kind kind, uint32_t x,
                           double number);
uint32_t draft_cast(draft *draft, draft_node *before, uint32_t x, dtype type);
uint32_t draft_permute(draft *draft, draft_node *before, uint32_t x, const int *dims);

/* ---------------------------------------------------------------- within the draft */

void *draft_alloc(draft *draft, size_t count, size_t item); /* zeroed; NULL: no_memory is set */
/* As draft_add, with the chain's end for `before` NULL. */
void *draft_insert(draft *draft, uint32_t chain, draft_node *before, const char *name, ir_op type);
void draft_note_last(draft *draft, uint32_t chain);
void draft_link(draft *draft, draft_node *node, draft_node *before);
void draft_unlink(draft *draft, draft_node *node);
static inline ir_int_or_vid literal_size(int64_t n) {
  return (ir_int_or_vid){.literal = n, .vid = IR_NONE, .present = true};
}
static inline ir_int_or_vid value_size(uint32_t vid) {
  return (ir_int_or_vid){.vid = vid, .present = true};
}

#endif
