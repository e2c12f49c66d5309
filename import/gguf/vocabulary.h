#ifndef IMPORT_GGUF_VOCABULARY_H
#define IMPORT_GGUF_VOCABULARY_H
/* The vocabulary of a GGUF file, and the tokenizer file that a program carries: a SentencePiece
 * .model or a tokenizer.json. llama.cpp's "llama" vocabularies are SentencePiece's pieces, scores
 * and types; its "gpt2" vocabularies are byte-level BPE. */
#include "import/gguf/file.h"
#include "json/writer.h"

#define GGUF_TOKENIZER "tokenizer.ggml."
#define GGUF_ANOTHER "another tokenizer can be given in its place (tokenizer=, --tokenizer)"

/* Types of tokens, in GGUF and in SentencePiece. */
typedef enum token_type {
  TOKEN_NORMAL = 1,
  TOKEN_UNKNOWN = 2,
  TOKEN_CONTROL = 3,
  TOKEN_USER = 4,
  TOKEN_UNUSED = 5,
  TOKEN_BYTE = 6
} token_type;

typedef struct vocabulary {
  gguf_file *file;
  int64_t count;
  span *tokens;   /* in pool, (count), each followed by NUL */
  uint8_t *types; /* in pool, (count) */
  float *scores;  /* in pool, (count) */
  int32_t *index; /* in pool, (n_index): ids by the hash of the text; -1: free */
  size_t n_index; /* a power of two */
} vocabulary;

/* Reads the tokens, with a type and a score each. Fails if their numbers do not match or one is out
 * of range. n_vocab: rows of the embedding. */
clave_status vocabulary_read(gguf_file *file, int64_t n_vocab, vocabulary *out) STATUS_CHECK;
/* Returns the lowest id of the tokens with this text; -1 if no token has it. */
int32_t vocabulary_find(const vocabulary *vocabulary, span text);
/* Fails if two tokens have the same text. */
clave_status vocabulary_check_once(const vocabulary *vocabulary) STATUS_CHECK;

/* Sets *id to a token that a key names ("bos"); -1 without the key. */
clave_status vocabulary_read_id(gguf_file *file, const char *name, int64_t n_vocab,
                                int64_t *id) STATUS_CHECK;

/* ---- bpe.c ---- */

/* Sets *adds to true if prompts begin with BOS by default, according to the file's pre-tokenizer.
 * Fails if it is not known. */
clave_status bpe_adds_bos(gguf_file *file, bool *adds) STATUS_CHECK;
/* Appends a tokenizer.json. bos: the token with which a prompt begins; -1: none. */
clave_status bpe_write(const vocabulary *vocabulary, int64_t bos, text *out) STATUS_CHECK;

/* ---- pieces.c ---- */

/* Appends a ModelProto, or a tokenizer.json if special tokens strip the white space after them. */
clave_status pieces_write(const vocabulary *vocabulary, int64_t bos, text *out) STATUS_CHECK;

/* ---- tokenizer_json.c: parts of a tokenizer.json ---- */

/* strips: the token absorbs the white space after it. */
void tokenizer_json_added(json_writer *out, const vocabulary *vocabulary, int64_t id, bool strips);
/* Writes the post-processor that puts BOS before a text; `otherwise` for bos -1. */
void tokenizer_json_frame(json_writer *out, const vocabulary *vocabulary, int64_t bos,
                          void (*otherwise)(json_writer *out, const char *key));
void tokenizer_json_vocabulary(json_writer *out, const vocabulary *vocabulary);

#endif
