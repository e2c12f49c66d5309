#ifndef IMPORT_ONNX_DECODER_H
#define IMPORT_ONNX_DECODER_H
/* A decoder is the graph of a language model: token ids, an attention mask, positions, and the keys
 * and values of earlier tokens ("past") become logits, and the keys and values of all tokens
 * ("present"). It is imported as forward(tokens, position), a method of one sequence, whose caches
 * are state (docs/reference/language_models.md):
 *
 *   input_ids (B, L)                        the input tokens: (1, L)
 *   attention_mask (B, T)                   ones: no token is padding
 *   position_ids (B, L)                     position + arange(L)
 *   past_key_values.0.key (B, n, past, D)   the first `position` rows of state (1, n, context, D)
 *   present.0.key (B, n, T, D)              its first position + L rows, the last L of them new
 *   past_conv.0 (B, D, 3), present_conv.0   state of a fixed size
 *   logits (B, L, V)                        the output */
#include "import/onnx/node.h"

/* A "past" input with its "present" output, which became state. */
typedef struct cache {
  const char *past, *present; /* names in the graph */
  clave_dtype type;
  int rank, axis;              /* axis of the rows; -1: state of a fixed size */
  number dims[CLAVE_MAX_RANK]; /* the state's; an open one is set when the graph shows it */
  bool is_open[CLAVE_MAX_RANK];
  value *state;  /* NULL until its sizes are known */
  value *before; /* the value of the past input */
  value *after;  /* the value of the present output; NULL: not yet computed */
} cache;

typedef struct decoder {
  number n_tokens;     /* L */
  number first, total; /* position of the first token, and of the end: first + L */
  number context;      /* rows of the caches */
  value *position;     /* I64, rank 0 */
  value *positions;    /* I64 (L): position + arange(L) */
  cache *caches;       /* in pool, (n_caches) */
  size_t n_caches;
  bool mixes_tokens; /* a node may compute a token's row from another's, other than by attention */
} decoder;

/* Declares the method's inputs and state, and binds the graph's inputs to them. max_context: limit
 * of tokens. */
void decoder_bind_inputs(onnx_import *onnx, const onnx_graph *graph, int64_t max_context);
/* Notes, after its conversion, whether a node may mix the rows of tokens. Several conversations
 * share the pages of a program, and so its runs, only if none does. */
void decoder_note_rows(node *node);
/* Makes the logits the output, and the present values the new state. */
void decoder_add_outputs(onnx_import *onnx, const onnx_graph *graph);

/* Returns the cache whose past rows are this value, unless it was written; NULL: none. */
cache *decoder_cache_of(const onnx_import *onnx, const value *past);
/* Returns the whole state (1, n, context, D), whose sizes the new rows (1, n, L, D) determine. */
value *decoder_state(importer *im, cache *cache, const value *rows);
/* Sets the cache's present value to its rows after a write: `written`, the new state. */
value *decoder_set_present(const decoder *decoder, importer *im, cache *cache, value *written);
/* Writes new rows after the past ones. Returns the present value. */
value *decoder_append(const decoder *decoder, importer *im, cache *cache, value *rows);
/* Concatenates past and rows along an axis: in the state if past is a cache's rows, else as a copy.
 */
value *decoder_cat(const onnx_import *onnx, value *past, value *rows, int axis);

#endif
