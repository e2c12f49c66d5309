#ifndef CLI_PERPLEXITY_H
#define CLI_PERPLEXITY_H
/* Measures the perplexity of a text under a language model. */
#include "cli/speech.h"

/* Sums over the scored tokens. */
typedef struct perplexity {
  double nats; /* sum of -log P */
  size_t n_tokens, n_windows;
  size_t n_bytes; /* bytes of the text */
} perplexity;

/* Splits the text into windows of `window` tokens, each beginning with the model's BOS if it has
 * one, every `stride` tokens. Each token is scored once, in the first window that contains it. A
 * window of 0 is the model's context, a stride of 0 the window. */
int measure_perplexity(speech *speech, const char *path, int64_t window, int64_t stride,
                       int32_t bos, perplexity *out) CHECK;
/* Prints exp(nats / n_tokens) and the sums on one line of standard output. */
int print_perplexity(const perplexity *perplexity) CHECK;
/* Writes the same as JSON. */
int write_perplexity(const speech *speech, const perplexity *perplexity, const char *path) CHECK;

#endif
