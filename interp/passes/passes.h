#ifndef INTERP_PASSES_PASSES_H
#define INTERP_PASSES_PASSES_H
/* Passes rewrite programs. Device-independent passes edit a draft of the whole program when it is
 * exported or optimised. Graph passes edit a method's graph before its instructions are placed on
 * devices. To add one, add its function here and a row in passes.c. */
#include "interp/graph/graph.h"
#include "interp/passes/match.h"

/* ---------------------------------------------------------------- on a program */

/* Runs a program without inputs and takes ownership of it. outputs[i] has space for output i. */
typedef clave_status (*evaluate_fn)(void *ctx, program *program, void *const *outputs);
typedef struct pass_env {
  evaluate_fn evaluate; /* NULL: constants are not computed */
  void *ctx;
} pass_env;

typedef struct program_pass {
  const char *name;
  const char *keeps; /* how results may differ, in one line */
  pattern find;      /* tried at every node; NULL if `run` is the pass */
  uint32_t (*run)(draft *draft, const pass_env *env); /* returns how often it applied */
  bool on_request; /* changes the program's interface, and runs only if named explicitly */
} program_pass;
extern const program_pass program_passes[];
extern const size_t n_program_passes;
/* Returns how often the pass applied. */
uint32_t run_program_pass(const program_pass *pass, draft *draft, const pass_env *env);

/* ---- cleanup.c ---- */
uint32_t remove_dead_code(draft *draft, const pass_env *env);
uint32_t cancel_casts(draft *draft, const pass_env *env);
/* ---- equal.c ---- */
uint32_t join_equal(draft *draft, const pass_env *env);
/* ---- join_matmul.c ---- */
uint32_t join_matmuls(draft *draft, const pass_env *env);
/* ---- join_rope.c ---- */
uint32_t join_ropes(draft *draft, const pass_env *env);
/* ---- open_cache.c ---- */
uint32_t open_caches(draft *draft, const pass_env *env);
/* True if a state tensor is zero initially, only AttentionCached ops without a window read it, and
 * it is updated with their results. */
bool is_cache(const draft *draft, uint32_t tid);
/* ---- page_cache.c ---- */
uint32_t page_caches(draft *draft, const pass_env *env);
/* ---- views.c ---- */
uint32_t fold_views(draft *draft, const pass_env *env);
/* ---- constants.c ---- */
uint32_t fold_constants(draft *draft, const pass_env *env);
uint32_t fold_numbers(draft *draft, const pass_env *env);
/* ---- activation.c ---- */
bool find_gelu(match *match, uint32_t *out);
bool find_silu(match *match, uint32_t *out);
/* ---- rope.c ---- */
bool find_rope(match *match, uint32_t *out);
/* ---- norm.c ---- */
bool find_layer_norm(match *match, uint32_t *out);
bool find_rms_norm(match *match, uint32_t *out);
bool find_norm_in_16_bits(match *match, uint32_t *out);
/* ---- batch_norm.c ---- */
bool find_batch_norm(match *match, uint32_t *out);
/* ---- integer.c ---- */
bool find_integer_conv(match *match, uint32_t *out);
bool find_integer_matmul(match *match, uint32_t *out);
bool find_integer_move(match *match, uint32_t *out);
bool find_requantized(match *match, uint32_t *out);
/* ---- narrow_b.c ---- */
bool find_narrow_b(match *match, uint32_t *out);
/* ---- bias.c ---- */
bool find_bias(match *match, uint32_t *out);
/* ---- early_slice.c ---- */
bool find_early_slice(match *match, uint32_t *out);
/* ---- pad.c ---- */
bool find_padding(match *match, uint32_t *out);
/* ---- attention.c, attention_write.c ---- */
bool find_attention(match *match, uint32_t *out);
bool find_repeated_heads(match *match, uint32_t *out);
bool find_simple_mask(match *match, uint32_t *out);

/* ---------------------------------------------------------------- on a method's graph */

/* Runs all graph passes in order, unless `fuse` is false. Then finds the uses of slots. */
clave_status run_passes(graph *graph, bool fuse) STATUS_CHECK;

/* ---- fuse.c ---- Merges chains of elementwise nodes. */
clave_status fuse_elementwise(graph *graph) STATUS_CHECK;
/* ---- epilogue.c ---- Makes elementwise nodes epilogues of the ops before them. */
clave_status fuse_epilogues(graph *graph) STATUS_CHECK;

#endif
