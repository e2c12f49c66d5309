/* The tables of passes. */
#include "interp/passes/passes.h"

/* Layer norms come before RMS norms, because a layer norm without its mean looks like an RMS norm.
 * Casts move into products before constants are computed. */
const program_pass program_passes[] = {
    {"dead_code", "all results", NULL, remove_dead_code, false},
    {"cast", "all bits: removes casts to wider types and back", NULL, cancel_casts, false},
    {"view", "all bits", NULL, fold_views, false},
    {"narrow_b", "all but the order of a sum", find_narrow_b, NULL, false},
    {"constant", "the results of the CPU backend", NULL, fold_constants, false},
    {"number", "all bits", NULL, fold_numbers, false},
    {"gelu", "all but the last places of f32 and f64", find_gelu, NULL, false},
    {"silu", "all but the last places of f32 and f64", find_silu, NULL, false},
    {"rope", "all but the last places: each sum of two products is rounded once", find_rope, NULL,
     false},
    {"layer_norm", "all but the order of a sum, in f32 and f64", find_layer_norm, NULL, false},
    {"rms_norm", "all but the order of a sum, in f32 and f64", find_rms_norm, NULL, false},
    {"norm_in_16_bits", "all but the order of a sum", find_norm_in_16_bits, NULL, false},
    {"attention", "all but 16-bit roundings of scores and probabilities", find_attention, NULL,
     false},
    {"grouped_attention", "all bits: repeated heads are read in place", find_repeated_heads, NULL,
     false},
    {"attention_mask", "all bits: a mask that hides nothing or only later keys", find_simple_mask,
     NULL, false},
    {"padding", "all but the order of a sum", find_padding, NULL, false},
    {"batch_norm", "all but the last places of f32 and f64: weights are rounded once more",
     find_batch_norm, NULL, false},
    {"integer_move", "all bits: codes have the order of numbers", find_integer_move, NULL, false},
    {"requantize", "all bits: codes decoded and quantised with equal scales", find_requantized,
     NULL, false},
    {"integer_conv", "all but the order of a sum, which is then exact", find_integer_conv, NULL,
     false},
    {"integer_matmul", "all but the order of a sum, which is then exact", find_integer_matmul, NULL,
     false},
    {"bias", "all but the order of a sum", find_bias, NULL, false},
    {"early_slice", "all but the order of a sum", find_early_slice, NULL, false},
    {"join_matmul", "all but the order of a sum", NULL, join_matmuls, false},
    {"equal", "all bits: equal results are computed once", NULL, join_equal, false},
    {"join_rope", "all bits: one rotation of adjacent heads", NULL, join_ropes, false},
    {"open_cache", "all bits: sessions choose the length of caches", NULL, open_caches, false},
    {"page_cache", "all but the order of sums: a run has tokens of many sequences", NULL,
     page_caches, true},
};
const size_t n_program_passes = sizeof program_passes / sizeof program_passes[0];

uint32_t run_program_pass(const program_pass *pass, draft *draft, const pass_env *env) {
  return pass->find ? apply_pattern(draft, pass->find) : pass->run(draft, env);
}

static const struct {
  const char *name;
  clave_status (*run)(graph *graph);
} graph_passes[] = {
    {"fuse elementwise", fuse_elementwise},
    {"fuse epilogues", fuse_epilogues},
};

clave_status run_passes(graph *graph, bool fuse) {
  for (size_t i = 0; fuse && i < sizeof graph_passes / sizeof graph_passes[0]; i++) {
    TRY(status_while(graph_passes[i].run(graph), "pass '%s'", graph_passes[i].name));
    TRY(graph_compact(graph));
  }
  graph_find_uses(graph);
  return NULL;
}
