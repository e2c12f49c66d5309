#ifndef INTERP_PASSES_FUSION_H
#define INTERP_PASSES_FUSION_H
/* Helpers of the passes that compute an elementwise node inside another node. */
#include "interp/passes/passes.h"

typedef struct fusion {
  graph *graph;
  uint32_t *producer; /* (n_slots) instruction visited so far that writes the slot; else NO_INDEX */
  uint32_t *readers;  /* (n_slots) reads; outputs, updates and results of bodies count as two */
} fusion;
clave_status fusion_begin(graph *graph, fusion *out) STATUS_CHECK;
void fusion_add_results(fusion *fusion, uint32_t index);

/* True if instruction `index`, which writes `out`, is the only reader of tid, and both slots have
 * the same shape and chain. (In a body, a loop would recompute tid in every iteration.) */
bool fusion_is_inner(const fusion *fusion, uint32_t tid, uint32_t index, uint32_t out);

/* Host values are passed as kernel arguments, whose number is limited. */
enum { MAX_FUSED_VALUES = 16 };
uint32_t fusion_count_values(const ir_steps *steps);

/* Maps the operands of steps to those of another list. Input i maps to input map[i], except input
 * `inlined`, which is replaced by (source, index). Step i maps to step base + i. */
typedef struct step_map {
  const uint32_t *inputs;
  uint32_t base, inlined;
  ir_operand_source source;
  uint32_t index;
} step_map;
/* Copies from->count steps with their operands mapped. */
clave_status fusion_copy_steps(mem_pool *pool, const ir_steps *from, const step_map *map,
                               ir_step *to) STATUS_CHECK;

#endif
