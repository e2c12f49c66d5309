#ifndef CLAVE_TOKENIZER_H
#define CLAVE_TOKENIZER_H
/* clave_tokenizer: converts text to ids and back, exactly as the library that the tokenizer's file
 * comes from.
 *
 *   clave_tokenizer *t; clave_ids ids;
 *   clave_tokenizer_load("tokenizer.json", NULL, &t);
 *   clave_tokenizer_encode(t, "Once upon a time", 16, NULL, &ids);
 *
 * The rules of clave.h hold: a status is NULL or an error to free, `out` comes last, and destroy
 * releases what create or load made. Text is UTF-8 with a size: no final NUL is needed, and NULs
 * may occur in it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read-only once made: threads may share a tokenizer. clave_tokenizer_of_program (clave_llm.h)
 * returns the one in a .clv. */
typedef struct clave_tokenizer clave_tokenizer;

typedef struct clave_tokenizer_options {
  size_t size;         /* sizeof(clave_tokenizer_options) */
  const char *pattern; /* splits text before the merges of a bare rank file: "gpt2", "cl100k" (if
                          NULL), "o200k" or "llama3"; other formats have their own */
} clave_tokenizer_options;

/* Loads a SentencePiece .model, a Hugging Face tokenizer.json or a tiktoken rank file, detected by
 * its content, or a Hugging Face folder. Errors name the file and the place in it. */
CLAVE_API clave_status clave_tokenizer_load(const char *path,
                                            const clave_tokenizer_options *options,
                                            clave_tokenizer **out) CLAVE_CHECK;
/* Makes a tokenizer from a file's bytes, which may be freed afterwards. */
CLAVE_API clave_status clave_tokenizer_create(const void *bytes, size_t size,
                                              const clave_tokenizer_options *options,
                                              clave_tokenizer **out) CLAVE_CHECK;
CLAVE_API void clave_tokenizer_destroy(clave_tokenizer *tokenizer);

enum { CLAVE_NO_TOKEN = -1 };

typedef struct clave_tokenizer_info {
  size_t size;        /* sizeof(clave_tokenizer_info) */
  const char *format; /* "SentencePiece BPE", "tokenizer.json Unigram", "tiktoken cl100k", ... */
  uint32_t n_ids;     /* largest id + 1 */
  int32_t bos, eos;   /* CLAVE_NO_TOKEN if the file names none */
} clave_tokenizer_info;
/* Describes a tokenizer. The texts are borrowed from it. */
CLAVE_API clave_status clave_tokenizer_get_info(const clave_tokenizer *tokenizer,
                                                clave_tokenizer_info *info) CLAVE_CHECK;
/* Returns the id of a token, spelled as in the file ("<|im_end|>"), or CLAVE_NO_TOKEN. */
CLAVE_API int32_t clave_tokenizer_find(const clave_tokenizer *tokenizer, const char *token);

/* An array of ids, owned by the caller that received it and freed with clave_ids_free. */
typedef struct clave_ids {
  uint32_t *items;
  size_t count;
} clave_ids;
CLAVE_API void clave_ids_free(clave_ids *ids); /* sets *ids to empty */

typedef enum clave_special {
  CLAVE_SPECIAL_DEFAULT, /* as the format's own library: MATCH for tokenizer.json, else TEXT */
  CLAVE_SPECIAL_MATCH,   /* special tokens in the text turn into their ids */
  CLAVE_SPECIAL_TEXT     /* special tokens are ordinary text (for user input, say) */
} clave_special;

typedef struct clave_encode_options {
  size_t size;   /* sizeof(clave_encode_options) */
  bool bos, eos; /* add the format's first and last token (tokenizer.json: by its post-processor) */
  clave_special special;
} clave_encode_options;

/* Encodes text to the ids that the format's own library returns. Ill-formed UTF-8 is replaced by
 * U+FFFD, as by Python's bytes.decode(errors="replace"). */
CLAVE_API clave_status clave_tokenizer_encode(const clave_tokenizer *tokenizer, const char *text,
                                              size_t size, const clave_encode_options *options,
                                              clave_ids *out) CLAVE_CHECK;
/* Decodes ids to valid UTF-8 (U+FFFD for other bytes), without special tokens if `skip_special`.
 * *text ends in NUL; free it with clave_text_free. CLAVE_INVALID names an id that the tokenizer
 * does not have. */
CLAVE_API clave_status clave_tokenizer_decode(const clave_tokenizer *tokenizer, const uint32_t *ids,
                                              size_t count, bool skip_special, char **text,
                                              size_t *size) CLAVE_CHECK;
CLAVE_API void clave_text_free(char *text); /* accepts NULL */

/* Decodes id by id, in whole characters. The pieces together are the text that
 * clave_tokenizer_decode returns for all ids. The tokenizer must outlive the stream. */
typedef struct clave_text_stream clave_text_stream;
CLAVE_API clave_status clave_text_stream_create(const clave_tokenizer *tokenizer, bool skip_special,
                                                clave_text_stream **out) CLAVE_CHECK;
/* Decodes the next id. *text (size bytes, may be 0) is valid until the next call. */
CLAVE_API clave_status clave_text_stream_next(clave_text_stream *stream, uint32_t id,
                                              const char **text, size_t *size) CLAVE_CHECK;
/* Returns the rest of the text and resets the stream. */
CLAVE_API clave_status clave_text_stream_finish(clave_text_stream *stream, const char **text,
                                                size_t *size) CLAVE_CHECK;
CLAVE_API void clave_text_stream_destroy(clave_text_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
