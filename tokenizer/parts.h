#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H
/* Encoding of texts composed of several sources, such as chats. */
#include "base/memory.h"
#include "clave_tokenizer.h"
#include "tokenizer/ids.h"

/* A part of a text. Special tokens are matched in TEXT_TRUSTED, which comes from a program, but not
 * in TEXT_UNTRUSTED, which comes from users. TEXT_ID is a token given by its id. */
typedef enum text_kind { TEXT_TRUSTED, TEXT_UNTRUSTED, TEXT_ID } text_kind;
typedef struct text_part {
  size_t end; /* in the text; a part begins where the last one ends. TEXT_ID: empty */
  text_kind kind;
  uint32_t id; /* TEXT_ID only */
} text_part;
/* Appends the ids of `in`, which is valid UTF-8. first: `in` begins the text. The result equals
 * that of the format's library for the whole text if TEXT_UNTRUSTED parts contain no special
 * tokens.
 */
clave_status tokenizer_encode_parts(const clave_tokenizer *tokenizer, span in,
                                    const text_part *parts, size_t n, bool first,
                                    id_list *out) STATUS_CHECK;

#endif
