#ifndef CLAVE_TOKENIZER_H
#define CLAVE_TOKENIZER_H
/* clave_tokenizer: text to ids and back, as the library does that a tokenizer's file comes from.
 *
 *   clave_tokenizer *t; clave_ids ids;
 *   clave_tokenizer_load("tokenizer.json", NULL, &t);
 *   clave_tokenizer_encode(t, "Once upon a time", 16, NULL, &ids);
 *
 * The rules of clave.h hold: a status is NULL or an error to free, `out` comes last, create and
 * load are paired with destroy. Text is UTF-8 with a size, need not end in NUL and may hold one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clave.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read-only once made: threads may share one. clave_llm.h has the one that a program carries. */
typedef struct clave_tokenizer clave_tokenizer;

typedef struct clave_tokenizer_options {
  size_t size;         /* sizeof(clave_tokenizer_options) */
  const char *pattern; /* what splits the text before a bare rank file's merges: "gpt2", "cl100k"
                          (if NULL), "o200k" or "llama3"; other formats carry their own */
} clave_tokenizer_options;

/* A SentencePiece .model, a Hugging Face tokenizer.json, or a tiktoken rank file, told apart by
 * looking into it; or a Hugging Face folder. Errors name the file, and the place in it. */
CLAVE_API clave_status clave_tokenizer_load(const char *path,
                                            const clave_tokenizer_options *options,
                                            clave_tokenizer **out) CLAVE_CHECK;
/* From a file's bytes, which may be freed afterwards. */
CLAVE_API clave_status clave_tokenizer_create(const void *bytes, size_t size,
                                              const clave_tokenizer_options *options,
                                              clave_tokenizer **out) CLAVE_CHECK;
CLAVE_API void clave_tokenizer_destroy(clave_tokenizer *tokenizer);

enum { CLAVE_NO_TOKEN = -1 };

typedef struct clave_tokenizer_info {
  size_t size;        /* sizeof(clave_tokenizer_info) */
  const char *format; /* "SentencePiece BPE", "tokenizer.json Unigram", "tiktoken cl100k", ... */
  uint32_t n_ids;     /* largest id + 1 */
  int32_t bos, eos;   /* CLAVE_NO_TOKEN: the file names none */
} clave_tokenizer_info;
/* Its texts are borrowed from the tokenizer. */
CLAVE_API clave_status clave_tokenizer_get_info(const clave_tokenizer *tokenizer,
                                                clave_tokenizer_info *info) CLAVE_CHECK;
/* The id of a token written as in the file ("<|im_end|>"), CLAVE_NO_TOKEN if there is none. */
CLAVE_API int32_t clave_tokenizer_find(const clave_tokenizer *tokenizer, const char *token);

/* Ids, owned by whom they were given to: clave_ids_free. */
typedef struct clave_ids {
  uint32_t *items;
  size_t count;
} clave_ids;
CLAVE_API void clave_ids_free(clave_ids *ids); /* leaves it empty */

typedef enum clave_special {
  CLAVE_SPECIAL_DEFAULT, /* as the format's own library: tokenizer.json yes, the others no */
  CLAVE_SPECIAL_MATCH,   /* special tokens written in the text become their ids */
  CLAVE_SPECIAL_TEXT     /* they are text like any other (what users typed, say) */
} clave_special;

typedef struct clave_encode_options {
  size_t size;   /* sizeof(clave_encode_options) */
  bool bos, eos; /* what the format puts around a text (tokenizer.json: its post-processor) */
  clave_special special;
} clave_encode_options;

/* The ids that the format's own library gives. Ill-formed UTF-8 becomes U+FFFD, as Python's
 * bytes.decode(errors="replace") does. */
CLAVE_API clave_status clave_tokenizer_encode(const clave_tokenizer *tokenizer, const char *text,
                                              size_t size, const clave_encode_options *options,
                                              clave_ids *out) CLAVE_CHECK;
/* The text of ids, valid UTF-8 (U+FFFD for bytes that are not), special tokens left out if
 * `skip_special`. *text is NUL-terminated and freed with clave_text_free. CLAVE_INVALID names an id
 * that the tokenizer does not have. */
CLAVE_API clave_status clave_tokenizer_decode(const clave_tokenizer *tokenizer, const uint32_t *ids,
                                              size_t count, bool skip_special, char **text,
                                              size_t *size) CLAVE_CHECK;
CLAVE_API void clave_text_free(char *text); /* takes NULL */

/* Decodes id by id: what is given joins to what clave_tokenizer_decode gives for all ids, in whole
 * characters. The tokenizer outlives it. */
typedef struct clave_text_stream clave_text_stream;
CLAVE_API clave_status clave_text_stream_create(const clave_tokenizer *tokenizer, bool skip_special,
                                                clave_text_stream **out) CLAVE_CHECK;
/* *text (size bytes, perhaps none) is valid until the next call. */
CLAVE_API clave_status clave_text_stream_next(clave_text_stream *stream, uint32_t id,
                                              const char **text, size_t *size) CLAVE_CHECK;
/* What is left at the end; the stream begins again. */
CLAVE_API clave_status clave_text_stream_finish(clave_text_stream *stream, const char **text,
                                                size_t *size) CLAVE_CHECK;
CLAVE_API void clave_text_stream_destroy(clave_text_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
