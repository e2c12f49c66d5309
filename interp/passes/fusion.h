#ifndef INTERP_PASSES_FUSION_H
#define INTERP_PASSES_FUSION_H
/* What the passes share that compute an elementwise node within another. */
#include "interp/passes/passes.h"

typedef struct fusion {
  graph *graph;
  uint32_t *producer; /* (n_slots) instruction, or NO_INDEX: of those seen so far */
  uint32_t *readers;  /* (n_slots) instructions that read it; outputs and state updates count */
} fusion;
clave_status fusion_begin(graph *graph, fusion *out) STATUS_CHECK;
void fusion_add_results(fusion *fusion, uint32_t index);

/* Whether instruction `index`, which writes `out`, is the one reader of tid, of the same shape, in
 * the chain that it is made in: a loop would compute it in every step. */
bool fusion_is_inner(const fusion *fusion, uint32_t tid, uint32_t index, uint32_t out);

/* Host values become kernel arguments, of which devices take few. */
enum { MAX_FUSED_VALUES = 16 };
uint32_t fusion_count_values(const ir_steps *steps);

/* Where the operands of steps stand in another list: input i is input map[i], but `inlined`, which
 * is what (source, index) says; step i is step base + i. */
typedef struct step_map {
  const uint32_t *inputs;
  uint32_t base, inlined;
  ir_operand_source source;
  uint32_t index;
} step_map;
/* Writes from->count steps. */
clave_status fusion_copy_steps(mem_pool *pool, const ir_steps *from, const step_map *map,
                               ir_step *to) STATUS_CHECK;

#endif
