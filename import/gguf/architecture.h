#ifndef IMPORT_GGUF_ARCHITECTURE_H
#define IMPORT_GGUF_ARCHITECTURE_H
/* The supported architectures, as differences from Llama, and the hyperparameters in a file. Keys
 * and tensors are those of gguf-py/gguf/constants.py in llama.cpp. */
#include "import/gguf/file.h"

/* A decoder of norms, attention and a gated feed-forward network. */
typedef struct gguf_architecture {
  const char *name;
  bool interleaved;       /* RoPE rotates the pairs (2i, 2i + 1), otherwise (i, i + half) */
  bool merged;            /* q, k and v are one tensor, and gate and up are one tensor */
  bool normed_heads;      /* q and k have norms */
  bool post_norms;        /* a norm follows attention and feed-forward */
  bool gelu;              /* GELU by tanh in place of SiLU */
  bool scaled_embeddings; /* embeddings are multiplied by the square root of their size */
  bool has_windows;       /* layers have a sliding window, of the size in the file or of `window` */
  int window;             /* 0: none unless the file has one */
  int pattern;            /* every n-th layer has no window; 0: all layers have one */
  double attention_cap;   /* soft caps if the file has none; 0: none */
  double logits_cap;
  double local_base; /* base of RoPE in layers with a window, if it differs; 0: it does not */
  int wide;          /* models with so many layers scale scores by embedding size / heads */
} gguf_architecture;

typedef enum rope_kind { ROPE_NONE, ROPE_LINEAR, ROPE_YARN, ROPE_LONG } rope_kind;
/* The angles per position are base^(-2 i / dims), then scaled. */
typedef struct gguf_rope {
  int64_t dims;
  double base;
  rope_kind kind;
  double factor;
  int64_t original; /* the context before scaling */
  double magnitude; /* factor of cos and sin, which multiplies YaRN's own; 0: by the formula */
  double beta_fast, beta_slow; /* parameters of YaRN, in turns */
} gguf_rope;

/* The hyperparameters of one model. */
typedef struct gguf_numbers {
  const gguf_architecture *architecture;
  int64_t n_layers, size, n_heads, n_kv, key_size, value_size, n_hidden, context;
  double eps;
  double scale;                     /* factor of q k^T */
  double attention_cap, logits_cap; /* 0: none */
  int64_t *windows;                 /* in pool, (n_layers), in tokens; 0: the layer sees all */
  gguf_rope rope, local;            /* RoPE of the layers without and with a window */
} gguf_numbers;

/* Reads the hyperparameters, and sets the file's architecture. Fails if one is missing or out of
 * range, if the architecture is not supported, or if the file has unknown keys of it. */
clave_status gguf_read_numbers(gguf_file *file, gguf_numbers *out) STATUS_CHECK;

#endif
