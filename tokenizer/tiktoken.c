/* tiktoken rank files: a line per token, with base64 and rank. The file contains neither the
 * splitting pattern nor the special tokens; they are selected by a scheme's name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "tokenizer/byte_decoder.h"
#include "tokenizer/format.h"
#include "tokenizer/split.h"

typedef struct special_token {
  const char *text;
  uint32_t id; /* relative to the scheme's first id */
} special_token;

typedef struct scheme {
  const char *name, *format;
  const char *pattern;
  const special_token *special;
  size_t n_special;
  bool after_ranks;        /* special ids start at the end of the ranks */
  uint32_t first_reserved; /* ids from here to 256 are reserved_special_tokens; 0: none */
  const char *bos, *eos;   /* may be NULL */
} scheme;

static const special_token gpt2_special[] = {{"<|endoftext|>", 50256}};
static const special_token cl100k_special[] = {{"<|endoftext|>", 100257},
                                               {"<|fim_prefix|>", 100258},
                                               {"<|fim_middle|>", 100259},
                                               {"<|fim_suffix|>", 100260},
                                               {"<|endofprompt|>", 100276}};
static const special_token o200k_special[] = {{"<|endoftext|>", 199999},
                                              {"<|endofprompt|>", 200018}};
/* Llama 3.1 and later. 3.0 had reserved tokens instead of pad, step, eom and python_tag. */
static const special_token llama3_special[] = {{"<|begin_of_text|>", 0},
                                               {"<|end_of_text|>", 1},
                                               {"<|reserved_special_token_0|>", 2},
                                               {"<|reserved_special_token_1|>", 3},
                                               {"<|finetune_right_pad_id|>", 4},
                                               {"<|step_id|>", 5},
                                               {"<|start_header_id|>", 6},
                                               {"<|end_header_id|>", 7},
                                               {"<|eom_id|>", 8},
                                               {"<|eot_id|>", 9},
                                               {"<|python_tag|>", 10}};
enum { LLAMA3_SPECIAL = 256, LLAMA3_FIRST_RESERVED = 2 }; /* next: reserved_special_token_2 */

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const scheme schemes[] = {
    {.name = "cl100k",
     .format = "tiktoken cl100k",
     .pattern = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}"
                "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++\\z|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     .special = cl100k_special,
     .n_special = LENGTH(cl100k_special),
     .eos = "<|endoftext|>"},
    {.name = "gpt2",
     .format = "tiktoken gpt2",
     .pattern = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++\\z"
                "|\\s+(?!\\S)|\\s",
     .special = gpt2_special,
     .n_special = LENGTH(gpt2_special),
     .eos = "<|endoftext|>"},
    {.name = "o200k",
     .format = "tiktoken o200k",
     .pattern = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
                "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
                "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
                "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
                "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     .special = o200k_special,
     .n_special = LENGTH(o200k_special),
     .eos = "<|endoftext|>"},
    {.name = "llama3",
     .format = "tiktoken llama3",
     .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     .special = llama3_special,
     .n_special = LENGTH(llama3_special),
     .after_ranks = true,
     .first_reserved = LENGTH(llama3_special),
     .bos = "<|begin_of_text|>",
     .eos = "<|end_of_text|>"}};

static clave_status find_scheme(const char *name, const scheme **out) {
  if (!name) name = schemes[0].name;
  for (size_t i = 0; i < LENGTH(schemes); i++) {
    *out = &schemes[i];
    if (strcmp(schemes[i].name, name) == 0) return NULL;
  }
  return INVALID("pattern: expected cl100k, gpt2, o200k or llama3, got \"%.40s\"", name);
}

/* ---------------------------------------------------------------- lines */

enum { MAX_LINE_TOKEN = 4096 }; /* bytes of a token */

/* Parses "base64 rank" and advances `rest` past the line. Returns false if the line is
 * malformed. */
static bool tiktoken_read_line(span *rest, text *token, uint32_t *rank) {
  const char *newline = memchr(rest->data, '\n', rest->size);
  span line = {rest->data, newline ? (size_t)(newline - rest->data) : rest->size};
  size_t used = line.size + (newline != NULL);
  if (line.size > 0 && line.data[line.size - 1] == '\r') line.size--;
  const char *space = memchr(line.data, ' ', line.size);
  if (!space || space - line.data > MAX_LINE_TOKEN / 3 * 4) return false;
  token->size = 0;
  if (!base64_decode(line.data, (size_t)(space - line.data), token)) return false;
  if (token->failed) return true; /* the caller checks */
  const char *end = line.data + line.size, *digit = space + 1;
  if (token->size == 0 || digit == end || end - digit > 9) return false;
  for (*rank = 0; digit < end; digit++) {
    if (*digit < '0' || *digit > '9') return false;
    *rank = *rank * 10 + (uint32_t)(*digit - '0');
  }
  *rest = (span){rest->data + used, rest->size - used};
  return true;
}

static bool recognises_ranks(span file) {
  text token = {0};
  uint32_t rank;
  bool good = tiktoken_read_line(&file, &token, &rank);
  text_free(&token);
  return good;
}

static clave_status tiktoken_read_lines(vocab *vocab, span rest, text *token) {
  for (size_t line = 1; rest.size > 0; line++) {
    uint32_t rank;
    bool is_new = true;
    if (rest.data[0] == '\n') { /* an empty line */
      rest = (span){rest.data + 1, rest.size - 1};
      continue;
    }
    if (!tiktoken_read_line(&rest, token, &rank)) {
      return INVALID("line %zu: expected a token in base64, a space and its rank", line);
    }
    TRY(text_status(token));
    span bytes = {token->data, token->size};
    TRY(status_while(vocab_add(vocab, rank, bytes, &is_new), "line %zu", line));
    if (!is_new) return INVALID("line %zu: this token appears on an earlier line, too", line);
  }
  return NULL;
}

static clave_status read_ranks(vocab *vocab, span file) {
  text token = {0};
  clave_status st = tiktoken_read_lines(vocab, file, &token);
  text_free(&token);
  for (unsigned b = 0; b < 256 && !st; b++) {
    char byte = (char)b;
    if (vocab_find(vocab, (span){&byte, 1}) == VOCAB_NONE) {
      st = INVALID("the byte 0x%02x has no rank: expected a rank for each byte", b);
    }
  }
  return st;
}

/* ---------------------------------------------------------------- special tokens */

/* Adds a special token, unless the ranks contain its id. */
static clave_status tiktoken_add_special(clave_tokenizer *tokenizer, added_token *list,
                                         const char *name, uint32_t id) {
  if (vocab_has(tokenizer->vocab, id)) return NULL;
  char *copy = mem_pool_strdup(tokenizer->pool, name, strlen(name));
  if (!copy) return status_no_memory();
  span span = {copy, strlen(name)};
  TRY(vocab_add(tokenizer->vocab, id, span, NULL));
  list[tokenizer->n_added++] = (added_token){.id = id, .text = span, .special = true};
  return NULL;
}

static clave_status add_all_special(clave_tokenizer *tokenizer, const scheme *scheme) {
  uint32_t base = scheme->after_ranks ? vocab_size(tokenizer->vocab) : 0;
  added_token *list = mem_pool_alloc(tokenizer->pool, LLAMA3_SPECIAL, sizeof *list);
  if (!list) return status_no_memory();
  tokenizer->added = list;
  for (size_t i = 0; i < scheme->n_special; i++) {
    TRY(tiktoken_add_special(tokenizer, list, scheme->special[i].text,
                             base + scheme->special[i].id));
  }
  for (uint32_t i = scheme->first_reserved; i > 0 && i < LLAMA3_SPECIAL; i++) {
    char name[48];
    (void)snprintf(name, sizeof name, "<|reserved_special_token_%" PRIu32 "|>",
                   i - scheme->first_reserved + LLAMA3_FIRST_RESERVED);
    TRY(tiktoken_add_special(tokenizer, list, name, base + i));
  }
  return NULL;
}

/* Sets the id of `name` and a frame with that one id, in pool, if the token exists. */
static clave_status frame(clave_tokenizer *tokenizer, const char *name, int32_t *id,
                          const uint32_t **ids, size_t *count) {
  *id = name ? clave_tokenizer_find(tokenizer, name) : CLAVE_NO_TOKEN;
  if (*id == CLAVE_NO_TOKEN) return NULL;
  uint32_t *list = mem_pool_alloc(tokenizer->pool, 1, sizeof *list);
  if (!list) return status_no_memory();
  list[0] = (uint32_t)*id;
  *ids = list;
  *count = 1;
  return NULL;
}

static clave_status tiktoken_mark_special(clave_tokenizer *tokenizer, uint8_t **kinds) {
  uint32_t n = vocab_size(tokenizer->vocab);
  bool *special = mem_pool_alloc(tokenizer->pool, n, sizeof *special);
  *kinds = mem_pool_alloc(tokenizer->pool, n, 1);
  if (!special || !*kinds) return status_no_memory();
  for (size_t i = 0; i < tokenizer->n_added; i++) {
    special[tokenizer->added[i].id] = true;
    (*kinds)[tokenizer->added[i].id] = PIECE_ADDED;
  }
  tokenizer->special = special;
  return NULL;
}

static clave_status read_tiktoken(clave_tokenizer *tokenizer, span file,
                                  const clave_tokenizer_options *options) {
  const scheme *scheme;
  uint8_t *kinds;
  TRY(find_scheme(options->pattern, &scheme));
  tokenizer->format = scheme->format;
  TRY(vocab_create((uint32_t)(file.size / 16 < VOCAB_MAX ? file.size / 16 : VOCAB_MAX),
                   &tokenizer->vocab));
  TRY(read_ranks(tokenizer->vocab, file));
  TRY(add_all_special(tokenizer, scheme));
  TRY(frame(tokenizer, scheme->bos, &tokenizer->bos, &tokenizer->prefix, &tokenizer->n_prefix));
  TRY(frame(tokenizer, scheme->eos, &tokenizer->eos, &tokenizer->suffix, &tokenizer->n_suffix));
  TRY(tiktoken_mark_special(tokenizer, &kinds));
  bpe_options bpe_options = {
      .kinds = kinds, .symbols = BPE_BYTES, .whole_first = true, .unknown = {.id = VOCAB_NONE}};
  TRY(bpe_create(tokenizer->vocab, &bpe_options, &tokenizer->model));
  TRY(pattern_pre_tokenizer_create((span){scheme->pattern, strlen(scheme->pattern)}, SPLIT_REMOVED,
                                   true, &tokenizer->split));
  return byte_decoder_create(tokenizer->vocab, &tokenizer->decode);
}

const tokenizer_format tiktoken_format = {"tiktoken", recognises_ranks, read_tiktoken};
