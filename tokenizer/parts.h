#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H
/* Texts of several origins, as one: chats. */
#include "base/memory.h"
#include "clave_tokenizer.h"
#include "tokenizer/ids.h"

/* A text made of words of a program, in which special tokens count, of what people wrote, in which
 * they are text like any other, and of tokens that are known by id. */
typedef enum text_kind { TEXT_WORDS, TEXT_WRITTEN, TEXT_ID } text_kind;
typedef struct text_part {
  size_t end; /* in the text; it begins where the last one ends. TEXT_ID: no text */
  text_kind kind;
  uint32_t id; /* TEXT_ID */
} text_part;
/* Appends the ids of `in`, valid UTF-8; first: it begins the text. As the format's library has it
 * for all of the text, if that holds no special tokens but those of words. */
clave_status tokenizer_encode_parts(const clave_tokenizer *tokenizer, span in,
                                    const text_part *parts, size_t n, bool first,
                                    id_list *out) STATUS_CHECK;

#endif
