#ifndef IMPORT_GGUF_ROPE_H
#define IMPORT_GGUF_ROPE_H
/* The frequency of each pair of a head, and the factor of cos and sin. */
#include "import/gguf/numbers.h"

/* Writes the angles of position 1, (dims / 2). factors: (dims / 2), the file's divisors of the
 * frequencies, or NULL. */
void gguf_frequencies(const gguf_rope *rope, const float *factors, float *out);
/* Returns the factor of cos and sin. context: the context for which the model was made. */
double gguf_magnitude(const gguf_rope *rope, int64_t context);

#endif
