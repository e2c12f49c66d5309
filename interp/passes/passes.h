#ifndef INTERP_PASSES_PASSES_H
#define INTERP_PASSES_PASSES_H
/* Passes rewrite programs. Those that no device matters to work on a draft of the whole program,
 * when it is exported or optimised; the others on a method's graph, before it is placed on devices.
 * To add one: its function here, and a row in passes.c. */
#include "interp/graph/draft.h"
#include "interp/graph/graph.h"

/* ---------------------------------------------------------------- of a program */

/* Runs a program without inputs and takes it: outputs[i] has room for its output i. */
typedef clave_status (*evaluate_fn)(void *ctx, program *p, void *const *outputs);
typedef struct pass_env {
  evaluate_fn evaluate; /* NULL: nothing is computed */
  void *ctx;
} pass_env;

typedef struct program_pass {
  const char *name;
  const char *keeps;                              /* what a result may differ by, in a line */
  uint32_t (*run)(draft *d, const pass_env *env); /* how often it applied */
} program_pass;
extern const program_pass program_passes[];
extern const size_t n_program_passes;

/* ---- cleanup.c ---- */
uint32_t remove_dead_code(draft *d, const pass_env *env);
uint32_t cancel_casts(draft *d, const pass_env *env);
/* ---- equal.c ---- */
uint32_t join_equal(draft *d, const pass_env *env);
/* ---- views.c ---- */
uint32_t fold_views(draft *d, const pass_env *env);
/* ---- constants.c ---- */
uint32_t fold_constants(draft *d, const pass_env *env);
uint32_t fold_numbers(draft *d, const pass_env *env);
/* ---- activation.c ---- */
uint32_t find_gelus(draft *d, const pass_env *env);
uint32_t find_silus(draft *d, const pass_env *env);
/* ---- rope.c ---- */
uint32_t find_ropes(draft *d, const pass_env *env);

/* ---- norm.c ---- */
uint32_t find_layer_norms(draft *d, const pass_env *env);
uint32_t find_rms_norms(draft *d, const pass_env *env);
uint32_t find_norms_in_16_bits(draft *d, const pass_env *env);
/* ---- attention.c, attention_mask.c ---- */
uint32_t find_attention(draft *d, const pass_env *env);
uint32_t group_heads(draft *d, const pass_env *env);
uint32_t simplify_masks(draft *d, const pass_env *env);

/* ---------------------------------------------------------------- of a method's graph */

/* Runs all of them, in the table's order, and finds the uses of what is left. `fuse` false: none
 * is run. */
clave_status run_passes(graph *g, bool fuse) STATUS_CHECK;

/* ---- fuse.c ---- Elementwise chains become one node. */
clave_status fuse_elementwise(graph *g) STATUS_CHECK;

#endif
