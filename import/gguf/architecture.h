#ifndef IMPORT_GGUF_ARCHITECTURE_H
#define IMPORT_GGUF_ARCHITECTURE_H
/* The supported architectures, as differences from Llama. Keys and tensors are those of
 * gguf-py/gguf/constants.py in llama.cpp. */
#include "import/gguf/file.h"

typedef enum gguf_norm { NORM_RMS, NORM_LAYER } gguf_norm;
/* Places of the norms beside attention and feed-forward network. */
typedef enum gguf_norm_places { NORMS_BEFORE, NORMS_AROUND, NORMS_AFTER } gguf_norm_places;
/* Norms of q and k. */
typedef enum gguf_head_norms {
  HEAD_NORMS_NONE,
  HEAD_NORMS_EACH,     /* each head is normalized, with one weight (head size) for all heads */
  HEAD_NORMS_OPTIONAL, /* the same, if the file has it */
  HEAD_NORMS_ROTATED,  /* as HEAD_NORMS_EACH, after RoPE */
  HEAD_NORMS_TOGETHER, /* all heads of a token are normalized together */
  HEAD_NORMS_OWN       /* each head has its own weight (heads, head size), if the file has it */
} gguf_head_norms;
/* A parallel block adds attention and feed-forward network of the same input. */
typedef enum gguf_block {
  BLOCK_SEQUENTIAL,
  BLOCK_PARALLEL,
  BLOCK_BY_KEY, /* use_parallel_residual says which it is */
  BLOCK_BY_NORM /* parallel if the feed-forward network has no norm */
} gguf_block;
/* How a router's scores become probabilities; the numbers of key expert_gating_func. */
typedef enum gguf_gating {
  GATING_SOFTMAX = 1,
  GATING_SIGMOID = 2,
  GATING_CHOSEN = 3 /* softmax of the chosen experts' scores */
} gguf_gating;
/* The recurrence that layers can have in place of attention, or a scan also beside it. */
typedef enum gguf_recurrence {
  RECURRENCE_NONE,
  RECURRENCE_CONV, /* a short convolution */
  RECURRENCE_SCAN  /* Mamba-2 */
} gguf_recurrence;

typedef struct gguf_architecture {
  const char *name;
  bool interleaved; /* RoPE rotates the pairs (2i, 2i + 1), otherwise (i, i + half) */
  gguf_norm norm;
  gguf_norm_places norms;
  const char *ffn_norm;    /* name of the norm before the feed-forward network; NULL: ffn_norm */
  const char *output_norm; /* name of the last norm; NULL: output_norm */
  gguf_head_norms head_norms;
  gguf_block block;
  const char *activation; /* the feed-forward network's, a row of ops/elementwise.tsv or "relu2";
                             NULL: silu */
  bool clamped;           /* gpt-oss's gate: see decoder_gate */
  bool ungated;           /* the feed-forward network is down(activation(up(x))) */
  bool exact_yarn;        /* bounds of YaRN's ramp are not rounded to whole pairs */
  bool learned_positions; /* embeddings of positions in place of RoPE */
  int no_rope_step;       /* every n-th layer has no RoPE; 0: all have it */
  bool local_rope;        /* in a model with windows, only layers with one have RoPE */

  bool scaled_embeddings; /* embeddings are multiplied by the square root of their size */
  bool has_scales;        /* keys scale embeddings and residuals, and divide logits */
  bool scales_logits;     /* a key multiplies logits */
  double attention_cap;   /* soft caps if the file has none; 0: none */
  double logits_cap;
  int wide; /* models with so many layers scale scores by embedding size / heads */

  bool has_windows;  /* layers have a sliding window, of the size in the file or of `window` */
  int window;        /* 0: none unless the file has one */
  int pattern;       /* every n-th layer has no window; 0: all layers have one */
  bool plain_local;  /* RoPE is not scaled in layers with a window */
  double local_base; /* base of RoPE in layers with a window, if it differs; 0: it does not */

  gguf_recurrence recurrence; /* some layers have it in place of attention */
  bool single;                /* a layer is attention, a scan or a feed-forward network */
  bool has_experts;
  bool normalizes_shares; /* shares of experts sum to 1, unless a key says otherwise */
  bool gated_shared;      /* a gate scales the result of the shared expert */
  gguf_gating gating;     /* unless a key says otherwise; 0: softmax */
} gguf_architecture;

/* Returns the supported architecture of this name. NULL: none; *known then lists all names. */
const gguf_architecture *gguf_find_architecture(importer *im, span name, const char **known);

#endif
