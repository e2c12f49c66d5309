/* Attention, over a cache, and over caches in pages. */
#include "ops/attention.h"

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/gemm/pairs.h"
#include "cpu_ops.h"

static attention_sizes sizes_of(const attention_form *f) {
  return (attention_sizes){.n_batch = f->n_batch,
                           .n_kv = f->n_kv,
                           .share = f->share,
                           .n_queries = f->n_queries,
                           .n_keys = f->n_keys,
                           .head_dim = f->head_dim,
                           .v_dim = f->v_dim};
}

clave_status cpu_attention(cpu_recorder *r, const node *n) {
  attention_form f;
  describe_attention(n, &f);
  attention_args args = {.q = cpu_operand(r, f.q),
                         .k = cpu_operand(r, f.k),
                         .v = cpu_operand(r, f.v),
                         .out = cpu_operand(r, f.out),
                         .sizes = sizes_of(&f),
                         .causal = f.causal,
                         .empty_nan = f.empty_nan,
                         .scale = f.scale,
                         .masked = f.masked};
  if (f.mask) args.mask = cpu_view(r, f.mask, &f.mask_view);
  args.rounds = cpu_is_fast(r) && pairs_are_fast() && attention_rounds(&args);
  cpu_rounds(r, args.rounds ? ROUNDS_TO_BF16 : ROUNDS_NOTHING);
  return cpu_launch(r, attention, &args);
}

static attention_cached_args cached_args(cpu_recorder *r, const attention_cached_form *f) {
  return (attention_cached_args){.q = cpu_operand(r, f->attention.q),
                                 .new_k = cpu_operand(r, f->new_k),
                                 .new_v = cpu_operand(r, f->new_v),
                                 .position = cpu_operand(r, f->position),
                                 .k = cpu_operand(r, f->attention.k),
                                 .v = cpu_operand(r, f->attention.v),
                                 .k_scale = cpu_operand(r, f->k_scale),
                                 .v_scale = cpu_operand(r, f->v_scale),
                                 .out = cpu_operand(r, f->attention.out),
                                 .sizes = sizes_of(&f->attention),
                                 .window = f->window,
                                 .room = f->room,
                                 .scale = f->attention.scale,
                                 .softcap = f->softcap};
}

clave_status cpu_attention_cached(cpu_recorder *r, const node *n) {
  attention_cached_form f;
  describe_attention_cached(n, &f);
  const attention_cached_args args = cached_args(r, &f);
  return cpu_launch(r, attention_cached, &args);
}

clave_status cpu_attention_paged(cpu_recorder *r, const node *n) {
  attention_paged_form f;
  describe_attention_paged(n, &f);
  return cpu_launch(r, attention_paged,
                    &(attention_paged_args){.cached = cached_args(r, &f.cached),
                                            .sequence = cpu_operand(r, f.sequence),
                                            .page_table = cpu_operand(r, f.page_table),
                                            .n_sequences = f.n_sequences});
}
