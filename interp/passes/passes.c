/* The tables of passes. */
#include "interp/passes/passes.h"

/* Layer norms before RMS norms: what is left of one without its mean is the other. */
const program_pass program_passes[] = {
    {"dead_code", "all results", remove_dead_code},
    {"cast", "all bits: only what holds every value is cast to and back", cancel_casts},
    {"view", "all bits", fold_views},
    {"constant", "what the CPU backend computes", fold_constants},
    {"number", "all bits", fold_numbers},
    {"gelu", "all but the last places of f32 and f64", find_gelus},
    {"silu", "all but the last places of f32 and f64", find_silus},
    {"rope", "all but the last places: each sum of two products is rounded once", find_ropes},
    {"layer_norm", "all but the order of a sum, in f32 and f64", find_layer_norms},
    {"rms_norm", "all but the order of a sum, in f32 and f64", find_rms_norms},
    {"norm_in_16_bits", "all but the order of a sum", find_norms_in_16_bits},
    {"attention", "all but 16-bit roundings of scores and probabilities", find_attention},
    {"grouped_attention", "all bits: repeated heads are read where they are", group_heads},
    {"attention_mask", "all bits: a mask that hides nothing, or later keys alone", simplify_masks},
    {"equal", "all bits: what is computed twice is computed once", join_equal},
};
const size_t n_program_passes = sizeof program_passes / sizeof program_passes[0];

static const struct {
  const char *name;
  clave_status (*run)(graph *g);
} graph_passes[] = {
    {"fuse elementwise", fuse_elementwise},
};

clave_status run_passes(graph *g, bool fuse) {
  for (size_t i = 0; fuse && i < sizeof graph_passes / sizeof graph_passes[0]; i++) {
    TRY(status_while(graph_passes[i].run(g), "pass '%s'", graph_passes[i].name));
    TRY(graph_compact(g));
  }
  graph_find_uses(g);
  return NULL;
}
