/* Records attention, attention over a cache, and attention over a paged cache. */
#include "ops/attention.h"

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "cpu_ops.h"

static attention_sizes sizes_of(const attention_desc *desc) {
  return (attention_sizes){.n_batch = desc->n_batch,
                           .n_kv = desc->n_kv,
                           .share = desc->share,
                           .n_queries = desc->n_queries,
                           .n_keys = desc->n_keys,
                           .head_dim = desc->head_dim,
                           .v_dim = desc->v_dim};
}

clave_status cpu_attention(cpu_recorder *recorder, const node *node) {
  attention_desc desc;
  describe_attention(node, &desc);
  attention_args args = {.q = cpu_operand(recorder, desc.q),
                         .k = cpu_operand(recorder, desc.k),
                         .v = cpu_operand(recorder, desc.v),
                         .out = cpu_operand(recorder, desc.out),
                         .sizes = sizes_of(&desc),
                         .causal = desc.causal,
                         .empty_nan = desc.empty_nan,
                         .scale = desc.scale,
                         .masked = desc.masked};
  if (desc.mask) args.mask = cpu_view(recorder, desc.mask, &desc.mask_view);
  args.rounds = cpu_is_fast(recorder) && pairs_are_fast() && attention_rounds(&args);
  cpu_rounds(recorder, args.rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  return cpu_launch(recorder, attention, &args);
}

static attention_cached_args cached_args(cpu_recorder *recorder,
                                         const attention_cached_desc *desc) {
  return (attention_cached_args){.q = cpu_operand(recorder, desc->attention.q),
                                 .new_k = cpu_operand(recorder, desc->new_k),
                                 .new_v = cpu_operand(recorder, desc->new_v),
                                 .position = cpu_operand(recorder, desc->position),
                                 .k = cpu_operand(recorder, desc->attention.k),
                                 .v = cpu_operand(recorder, desc->attention.v),
                                 .k_scale = cpu_operand(recorder, desc->k_scale),
                                 .v_scale = cpu_operand(recorder, desc->v_scale),
                                 .sinks = cpu_operand(recorder, desc->attention.sinks),
                                 .out = cpu_operand(recorder, desc->attention.out),
                                 .sizes = sizes_of(&desc->attention),
                                 .window = desc->window,
                                 .max_new_rows = desc->max_new_rows,
                                 .scale = desc->attention.scale,
                                 .softcap = desc->softcap};
}

clave_status cpu_attention_cached(cpu_recorder *recorder, const node *node) {
  attention_cached_desc desc;
  describe_attention_cached(node, &desc);
  const attention_cached_args args = cached_args(recorder, &desc);
  return cpu_launch(recorder, attention_cached, &args);
}

clave_status cpu_attention_paged(cpu_recorder *recorder, const node *node) {
  attention_paged_desc desc;
  describe_attention_paged(node, &desc);
  return cpu_launch(recorder, attention_paged,
                    &(attention_paged_args){.cached = cached_args(recorder, &desc.cached),
                                            .sequence = cpu_operand(recorder, desc.sequence),
                                            .page_table = cpu_operand(recorder, desc.page_table),
                                            .n_sequences = desc.n_sequences});
}
