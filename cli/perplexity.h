#ifndef CLI_PERPLEXITY_H
#define CLI_PERPLEXITY_H
/* How well a language model foretells a text. */
#include "cli/speech.h"

/* Sums over the tokens that were scored. */
typedef struct perplexity {
  double nats; /* -log P */
  size_t n_tokens, n_windows;
  size_t n_bytes; /* of the text */
} perplexity;

/* The text goes in windows of `window` tokens, each begun with the model's BOS if it has one, every
 * `stride` tokens; of each the tokens count that no earlier one had. 0: the model's context, and
 * the window. */
int measure_perplexity(speech *speech, const char *path, int64_t window, int64_t stride,
                       int32_t bos, perplexity *out) CHECK;
/* exp(nats / n_tokens) and what it is made of, a line on standard output. */
int print_perplexity(const perplexity *perplexity) CHECK;
/* The same, JSON. */
int write_perplexity(const speech *speech, const perplexity *perplexity, const char *path) CHECK;

#endif
