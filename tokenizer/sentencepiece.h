#ifndef TOKENIZER_SENTENCEPIECE_H
#define TOKENIZER_SENTENCEPIECE_H
/* The parts of a SentencePiece model: sentencepiece.c reads the file, spm_normalizer.c and
 * spm_decoder.c implement its rules for text before and after the model. */
#include "tokenizer/charsmap.h"
#include "tokenizer/tokenizer.h"

typedef enum spm_type { /* a piece's type, as in the file */
                        SPM_NORMAL = 1,
                        SPM_UNKNOWN = 2,
                        SPM_CONTROL = 3,
                        SPM_USER_DEFINED = 4,
                        SPM_UNUSED = 5,
                        SPM_BYTE = 6
} spm_type;

typedef struct spm_spec { /* a normalizer or denormalizer */
  span charsmap;          /* points into the file; empty: no replacements */
  bool dummy_prefix, remove_extra_spaces, escape_spaces;
} spm_spec;

/* suffix: the dummy space is appended, not prepended. user (may be NULL): piece_kind by id;
 * PIECE_USER pieces are not normalized. */
clave_status spm_normalizer_create(const spm_spec *spec, bool suffix, const vocab *vocab,
                                   const uint8_t *user, normalizer **out) STATUS_CHECK;

typedef struct spm_decoder_options {
  const vocab *vocab;           /* must outlive the decoder */
  const uint8_t *types;         /* spm_type by id, must outlive the decoder */
  span unknown_surface;         /* text of the unknown piece, must outlive the decoder */
  bool strip_one, strip_all;    /* leading spaces to strip: the dummy one; all of them */
  const spm_spec *denormalizer; /* may be NULL */
} spm_decoder_options;
int spm_byte_of(span piece); /* 0x41 for the byte piece "<0x41>"; -1 if it is not a byte piece */
clave_status spm_decoder_create(const spm_decoder_options *options,
                                token_decoder **out) STATUS_CHECK;

#define SPM_SPACE "\xE2\x96\x81" /* U+2581 */

#endif
