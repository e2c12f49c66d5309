#ifndef TOKENIZER_SENTENCEPIECE_H
#define TOKENIZER_SENTENCEPIECE_H
/* A SentencePiece model's parts: sentencepiece.c reads the file, the other spm_*.c are what
 * it says about text on its way in and out. */
#include "tokenizer/charsmap.h"
#include "tokenizer/tokenizer.h"

typedef enum spm_type { /* of a piece, as in the file */
                        SPM_NORMAL = 1,
                        SPM_UNKNOWN = 2,
                        SPM_CONTROL = 3,
                        SPM_USER_DEFINED = 4,
                        SPM_UNUSED = 5,
                        SPM_BYTE = 6
} spm_type;

typedef struct spm_spec { /* the normalizer's, and the denormalizer's */
  span charsmap;          /* in the file; empty: nothing is replaced */
  bool dummy_prefix, remove_extra_spaces, escape_spaces;
} spm_spec;

/* suffix: the dummy space comes last. user: NULL, or piece_kind by id, whose PIECE_USER are left as
 * they stand. */
clave_status spm_normalizer_create(const spm_spec *spec, bool suffix, const vocab *vocab,
                                   const uint8_t *user, normalizer **out) STATUS_CHECK;

typedef struct spm_decoder_options {
  const vocab *vocab;           /* outlives it */
  const uint8_t *types;         /* spm_type by id, outlives it */
  span unknown_surface;         /* what stands for the unknown, outlives it */
  bool strip_one, strip_all;    /* leading spaces: the dummy one; all */
  const spm_spec *denormalizer; /* NULL: none */
} spm_decoder_options;
int spm_byte_of(span piece); /* 0x41 of a byte's piece "<0x41>"; -1: it is not one */
clave_status spm_decoder_create(const spm_decoder_options *options,
                                token_decoder **out) STATUS_CHECK;

#define SPM_SPACE "\xE2\x96\x81" /* U+2581 */

#endif
