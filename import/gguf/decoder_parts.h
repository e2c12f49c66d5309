#ifndef IMPORT_GGUF_DECODER_PARTS_H
#define IMPORT_GGUF_DECODER_PARTS_H
/* The parts of a decoder's block. The state of L tokens is (1, L, size) F32. */
#include "import/emit_decoder.h"
#include "import/gguf/numbers.h"
#include "import/gguf/weights.h"

/* The caches of the program. */
typedef struct gguf_caches {
  clave_dtype type;
  int64_t max_context;  /* limit of tokens */
  int64_t prompt_piece; /* tokens of a prompt that a layer with a window processes at once: its
                           cache has so many rows more than the window, less one */
} gguf_caches;
/* Returns the rows of the caches of a layer with a window (0: none). */
int64_t gguf_cache_rows(const gguf_caches *caches, int64_t window);

/* cos and sin of the tokens' angles: (L, dims / 2) F32. */
typedef struct angles {
  value *cos, *sin;
} angles;

typedef struct decoder {
  gguf_file *file;
  importer *im;
  const gguf_numbers *n;
  gguf_caches caches;
  number n_tokens; /* L */
  number context;  /* rows of caches without a window; type of a constant until one is declared */
  bool has_context;
  value *position;      /* I64, rank 0 */
  value *positions;     /* I64, (L) */
  angles angles, local; /* for layers without and with a window */
} decoder;

/* ---- decoder_parts.c ---- */
/* Returns the name of a tensor of a layer. */
const char *layer_name(decoder *decoder, int64_t layer, const char *part);
bool layer_has(decoder *decoder, int64_t layer, const char *part); /* the weight of this part */
/* input: (*, columns). Returns (*, rows). rows: -1 for any number. */
value *decoder_linear(decoder *decoder, value *input, const char *name, int64_t rows,
                      int64_t columns);
value *decoder_bias(decoder *decoder, const char *name, int64_t size); /* NULL: none in the file */
/* Normalizes the last axis, of this size. */
value *decoder_norm(decoder *decoder, value *input, const char *name, int64_t size);

/* ---- attention.c, recurrent.c, experts.c, feed_forward.c ----
 * input: the normalized state. Return a change of the state. */
value *decoder_attention(decoder *decoder, value *input, int64_t layer);
value *decoder_short_conv(decoder *decoder, value *input, int64_t layer);
value *decoder_mamba2(decoder *decoder, value *input, int64_t layer);
value *decoder_experts(decoder *decoder, value *input, int64_t layer);
/* A network whose tensors end with this suffix. hidden: its inner size; -1: that of the tensors. */
value *decoder_network(decoder *decoder, value *input, int64_t layer, const char *suffix,
                       int64_t hidden);
value *decoder_activate(decoder *decoder, value *input);
/* Returns the inner state of a gated network: up * activation(gate) or, as in gpt-oss, (up + 1) *
 * gate * sigmoid(1.702 gate) with gate up to 7 and up within -7 and 7. */
value *decoder_gate(decoder *decoder, value *gate, value *up);

#endif
