#ifndef IMPORT_GGUF_NUMBERS_H
#define IMPORT_GGUF_NUMBERS_H
/* The hyperparameters of a model. */
#include "import/gguf/architecture.h"

typedef enum rope_kind { ROPE_NONE, ROPE_LINEAR, ROPE_YARN, ROPE_LONG } rope_kind;
/* The angles per position are base^(-2 i / dims), then scaled. */
typedef struct gguf_rope {
  int64_t dims;
  double base;
  rope_kind kind;
  double factor;
  int64_t original; /* the context before scaling */
  double magnitude; /* factor of cos and sin. YaRN's own is multiplied by it. 0: none in the file,
                       which means 1, and for LongRoPE its formula */
  double beta_fast, beta_slow; /* parameters of YaRN, in turns */
  bool exact;                  /* bounds of YaRN's ramp are not rounded */
} gguf_rope;

/* Sizes of Mamba-2. inner: elements of all heads; state: N elements for each of them */
typedef struct gguf_scan {
  int64_t inner, state, heads, groups;
} gguf_scan;

typedef struct gguf_numbers {
  const gguf_architecture *architecture;
  int64_t n_predicting; /* further layers, which predict more than one token and are not used */
  int64_t n_layers, size, n_heads, n_kv, key_size, value_size, n_hidden, context;
  double eps;
  double scale;                                         /* factor of q k^T */
  double attention_cap, logits_cap;                     /* 0: none */
  double embedding_scale, residual_scale, logits_scale; /* factors; 1: none */
  bool is_parallel; /* attention and feed-forward network have the same input */
  int64_t *windows; /* in pool, (n_layers), in tokens; 0: the layer sees all */
  bool has_local;   /* a layer has a window */
  bool has_rope;
  gguf_rope rope, local; /* RoPE of the layers without and with a window */

  int64_t conv_taps; /* tokens that a convolution reads; 0: no layer has one */
  gguf_scan scan;

  int64_t n_experts, n_used; /* n_used: experts of a token; 0: the model has no experts */
  gguf_gating gating;
  bool normalizes_shares; /* the shares of a token's experts sum to shares_scale */
  double shares_scale;
} gguf_numbers;

/* Reads the hyperparameters, and sets the file's architecture. Fails if one is missing or out of
 * range, if the architecture is not supported, or if the file has unknown keys of it. */
clave_status gguf_read_numbers(gguf_file *file, gguf_numbers *out) STATUS_CHECK;

#endif
