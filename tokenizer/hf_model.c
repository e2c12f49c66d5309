/* tokenizer.json's models: BPE, Unigram, WordPiece, WordLevel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/byte_level.h"
#include "tokenizer/find.h"
#include "tokenizer/hf.h"

/* ---------------------------------------------------------------- vocabulary */

clave_status hf_add_piece(clave_tokenizer *tokenizer, uint32_t id, span spelling) {
  if (!tokenizer->byte_level) return vocab_add(tokenizer->vocab, id, spelling, NULL);
  text bytes = {0};
  bool in_alphabet = byte_level_decode(spelling, &bytes);
  span piece = in_alphabet ? (span){bytes.data ? bytes.data : "", bytes.size} : spelling;
  clave_status st = text_status(&bytes);
  if (!st) st = vocab_add(tokenizer->vocab, id, piece, NULL);
  if (!st && !in_alphabet) st = vocab_add(tokenizer->other_pieces, id, spelling, NULL);
  text_free(&bytes);
  return st;
}

static bool is_in_alphabet(const char *spelling) {
  return byte_level_covers((span){spelling, strlen(spelling)});
}

static clave_status hf_model_add_entry(clave_tokenizer *tokenizer, const json *json) {
  uint32_t id;
  TRY(status_while(json_index(json, VOCAB_MAX, &id), "\"%.60s\"", json_key(json)));
  return status_while(hf_add_piece(tokenizer, id, (span){json_key(json), strlen(json_key(json))}),
                      "\"%.60s\"", json_key(json));
}

/* Reads {"piece": id, ...}. With byte_level, pieces in the alphabet are added first: of two pieces
 * with the same bytes, only the first can be found. */
static clave_status read_map(const json *map, clave_tokenizer *tokenizer) {
  for (const json *v = json_first(map); v; v = json_next(v)) {
    if (!tokenizer->byte_level || is_in_alphabet(json_key(v)))
      TRY(hf_model_add_entry(tokenizer, v));
  }
  for (const json *v = tokenizer->byte_level ? json_first(map) : NULL; v; v = json_next(v)) {
    if (!is_in_alphabet(json_key(v))) TRY(hf_model_add_entry(tokenizer, v));
  }
  return NULL;
}

/* Reads [["piece", score], ...] from the end, because the last of equal pieces takes precedence. */
static clave_status hf_model_read_entries(const json **entries, uint32_t n,
                                          clave_tokenizer *tokenizer) {
  while (n-- > 0) {
    const json *piece = json_kind_of(entries[n]) == JSON_ARRAY ? json_first(entries[n]) : NULL;
    if (!piece || json_kind_of(piece) != JSON_STRING) {
      return INVALID("entry %u: expected a piece and its score", n);
    }
    TRY(status_while(hf_add_piece(tokenizer, n, json_text(piece)), "entry %u", n));
  }
  return NULL;
}

static clave_status hf_model_read_list(const json *list, clave_tokenizer *tokenizer) {
  uint32_t n = 0;
  const json **entries = calloc((size_t)json_count(list) + 1, sizeof *entries);
  if (!entries) return status_no_memory();
  for (const json *v = json_first(list); v; v = json_next(v)) entries[n++] = v;
  clave_status st = hf_model_read_entries(entries, n, tokenizer);
  free(entries);
  return st;
}

clave_status hf_read_vocab(const json *model, clave_tokenizer *tokenizer) {
  const json *json = field_or_null(model, "vocab");
  if (!json) return INVALID("\"vocab\" is missing");
  json_kind kind = json_kind_of(json);
  if (kind != JSON_OBJECT && kind != JSON_ARRAY) {
    return INVALID("\"vocab\": expected an object or an array, got %s", json_kind_name(kind));
  }
  uint32_t n = json_count(json);
  TRY(vocab_create(n < VOCAB_MAX ? n : VOCAB_MAX, &tokenizer->vocab));
  if (tokenizer->byte_level) TRY(vocab_create(0, &tokenizer->other_pieces));
  return status_while(
      kind == JSON_OBJECT ? read_map(json, tokenizer) : hf_model_read_list(json, tokenizer),
      "\"vocab\"");
}

/* ---------------------------------------------------------------- shared by models */

/* Finds a token's id in the model; added tokens are not part of it. */
static clave_status hf_model_find_own(const clave_tokenizer *tokenizer, const uint8_t *kinds,
                                      span spelling, uint32_t *id) {
  TRY(tokenizer_find(tokenizer, spelling, id));
  if (*id != VOCAB_NONE && kinds[*id] == PIECE_ADDED) *id = VOCAB_NONE;
  return NULL;
}

static clave_status read_unknown(const json *value, const clave_tokenizer *tokenizer,
                                 const uint8_t *kinds, uint32_t *id) {
  const json *token = field_or_null(value, "unk_token");
  *id = VOCAB_NONE;
  if (!token) return NULL;
  TRY(status_while(json_expect(token, JSON_STRING), "\"unk_token\""));
  return hf_model_find_own(tokenizer, kinds, json_text(token), id);
}

/* Sets ids[b] to the id of the piece of byte b, such as "<0x0B>". Sets *has if the model has a byte
 * fallback. */
static clave_status read_byte_ids(const json *json, const clave_tokenizer *tokenizer,
                                  const uint8_t *kinds, uint32_t *ids /* [256] */, bool *has) {
  TRY(field_bool(json, "byte_fallback", false, has));
  for (unsigned b = 0; b < 256; b++) {
    char name[8];
    (void)snprintf(name, sizeof name, "<0x%02X>", b);
    TRY(hf_model_find_own(tokenizer, kinds, (span){name, 6}, &ids[b]));
  }
  return NULL;
}

/* ---------------------------------------------------------------- BPE */

typedef struct merge_reader {
  const clave_tokenizer *tokenizer;
  const uint8_t *kinds;
  size_t prefix; /* bytes of the continuing prefix, which is removed from the right part */
  text joined;
} merge_reader;

static clave_status hf_model_find_token(const merge_reader *reader, span token, uint32_t *id) {
  TRY(hf_model_find_own(reader->tokenizer, reader->kinds, token, id));
  return *id != VOCAB_NONE ? NULL
                           : INVALID("\"%.*s\" is not in the vocabulary",
                                     (int)(token.size < 60 ? token.size : 60), token.data);
}

static clave_status hf_model_read_parts(merge_reader *reader, span left, span right,
                                        bpe_merge *out) {
  size_t skip = reader->prefix < right.size ? reader->prefix : right.size;
  TRY(hf_model_find_token(reader, left, &out->left));
  TRY(hf_model_find_token(reader, right, &out->right));
  reader->joined.size = 0;
  text_append(&reader->joined, left.data, left.size);
  text_append(&reader->joined, right.data + skip, right.size - skip);
  TRY(text_status(&reader->joined));
  return hf_model_find_token(reader, (span){reader->joined.data, reader->joined.size},
                             &out->result);
}

/* Reads "left right" or ["left", "right"]. */
static clave_status read_merge(merge_reader *reader, const json *value, bpe_merge *out) {
  if (json_kind_of(value) == JSON_ARRAY) {
    const json *left = json_first(value), *right = left ? json_next(left) : NULL;
    if (!right || json_next(right) || json_kind_of(left) != JSON_STRING ||
        json_kind_of(right) != JSON_STRING) {
      return INVALID("expected two strings");
    }
    return hf_model_read_parts(reader, json_text(left), json_text(right), out);
  }
  TRY(json_expect(value, JSON_STRING));
  const char *both = json_string(value), *blank = strchr(both, ' ');
  if (!blank || strchr(blank + 1, ' ')) {
    return INVALID("\"%.60s\": expected two tokens with a space between them", both);
  }
  return hf_model_read_parts(reader, (span){both, (size_t)(blank - both)},
                             (span){blank + 1, strlen(blank + 1)}, out);
}

static clave_status read_merges(const json *list, merge_reader *reader, bpe_merge *merges,
                                size_t *count) {
  size_t line = 0;
  for (const json *v = json_first(list); v; v = json_next(v), line++) {
    bool is_version = json_kind_of(v) == JSON_STRING && strncmp(json_string(v), "#version", 8) == 0;
    if (is_version) continue;
    TRY(status_while(read_merge(reader, v, &merges[*count]), "\"merges\" %zu", line));
    ++*count;
  }
  return NULL;
}

static clave_status check_dropout(const json *value) {
  const json *dropout = field_or_null(value, "dropout");
  if (!dropout || (json_kind_of(dropout) == JSON_NUMBER && json_number(dropout) == 0)) return NULL;
  return UNSUPPORTED("\"dropout\", which is random, is not supported");
}

static clave_status read_bpe_options(const json *json, clave_tokenizer *tokenizer,
                                     const uint8_t *kinds, uint32_t *byte_ids,
                                     bpe_options *options) {
  bool has_bytes;
  TRY(check_dropout(json));
  TRY(field_text(json, "continuing_subword_prefix", "", &options->continuing_prefix));
  TRY(field_text(json, "end_of_word_suffix", "", &options->word_suffix));
  TRY(field_bool(json, "ignore_merges", false, &options->whole_first));
  TRY(field_bool(json, "fuse_unk", false, &options->unknown.fuse));
  TRY(read_unknown(json, tokenizer, kinds, &options->unknown.id));
  TRY(read_byte_ids(json, tokenizer, kinds, byte_ids, &has_bytes));
  options->unknown.byte_ids = has_bytes ? byte_ids : NULL;
  options->symbols = tokenizer->byte_level ? BPE_BYTES : BPE_CHARACTERS;
  options->kinds = kinds;
  return NULL;
}

static clave_status hf_model_read_bpe(const json *value, uint8_t *kinds,
                                      clave_tokenizer *tokenizer) {
  const json *list;
  uint32_t byte_ids[256];
  bpe_options options = {.merges = NULL};
  TRY(read_bpe_options(value, tokenizer, kinds, byte_ids, &options));
  TRY(field(value, "merges", JSON_ARRAY, &list));
  bpe_merge *merges = calloc((size_t)json_count(list) + 1, sizeof *merges);
  if (!merges) return status_no_memory();
  merge_reader reader = {
      .tokenizer = tokenizer, .kinds = kinds, .prefix = options.continuing_prefix.size};
  options.merges = merges;
  clave_status st = read_merges(list, &reader, merges, &options.n_merges);
  if (!st) st = bpe_create(tokenizer->vocab, &options, &tokenizer->model);
  text_free(&reader.joined);
  free(merges);
  return st;
}

/* ---------------------------------------------------------------- the other models */

static clave_status hf_model_read_scores(const json *value, const clave_tokenizer *tokenizer,
                                         double **out) {
  const json *list;
  TRY(field(value, "vocab", JSON_ARRAY, &list));
  double *scores = calloc((size_t)vocab_size(tokenizer->vocab) + 1, sizeof *scores);
  if (!scores) return status_no_memory();
  *out = scores;
  uint32_t id = 0;
  for (const json *e = json_first(list); e; e = json_next(e), id++) {
    const json *score = json_next(json_first(e));
    if (!score || json_kind_of(score) != JSON_NUMBER || !json_f64(score, &scores[id])) {
      return INVALID("\"vocab\" entry %u: expected a piece and its score", id);
    }
  }
  return NULL;
}

static clave_status read_unigram(const json *json, uint8_t *kinds, clave_tokenizer *tokenizer) {
  uint32_t byte_ids[256];
  bool has_bytes;
  double *scores = NULL;
  unigram_options options = {.kinds = kinds};
  TRY(field_index(json, "unk_id", VOCAB_MAX, VOCAB_NONE, &options.unknown.id));
  if (options.unknown.id != VOCAB_NONE && !vocab_has(tokenizer->vocab, options.unknown.id)) {
    return INVALID("\"unk_id\": id %u is not in the vocabulary", options.unknown.id);
  }
  TRY(read_byte_ids(json, tokenizer, kinds, byte_ids, &has_bytes));
  options.unknown.byte_ids = has_bytes ? byte_ids : NULL;
  for (uint32_t id = 0; id < vocab_size(tokenizer->vocab); id++) {
    bool is_own = vocab_has(tokenizer->vocab, id) && kinds[id] == PIECE_NORMAL;
    if (is_own && vocab_find(tokenizer->vocab, vocab_piece(tokenizer->vocab, id)) != id) {
      kinds[id] = PIECE_ADDED; /* a later id has the same piece and takes precedence */
    }
  }
  clave_status st = hf_model_read_scores(json, tokenizer, &scores);
  options.scores = scores;
  if (!st) st = unigram_create(tokenizer->vocab, &options, &tokenizer->model);
  free(scores);
  return st;
}

static clave_status hf_model_read_wordpiece(const json *json, uint8_t *kinds,
                                            clave_tokenizer *tokenizer) {
  uint32_t most;
  wordpiece_options options = {.kinds = kinds};
  TRY(field_text(json, "continuing_subword_prefix", "##", &options.continuing_prefix));
  TRY(field_index(json, "max_input_chars_per_word", VOCAB_MAX, 100, &most));
  TRY(read_unknown(json, tokenizer, kinds, &options.unknown_id));
  options.max_characters = most;
  return wordpiece_create(tokenizer->vocab, &options, &tokenizer->model);
}

static clave_status read_wordlevel(const json *json, uint8_t *kinds, clave_tokenizer *tokenizer) {
  word_options options = {.kinds = kinds};
  TRY(read_unknown(json, tokenizer, kinds, &options.unknown.id));
  return word_create(tokenizer->vocab, &options, &tokenizer->model);
}

typedef struct model_type {
  const char *name, *format;
  clave_status (*read)(const json *json, uint8_t *kinds, clave_tokenizer *tokenizer);
  /* A field that identifies the model in files from 2020, which have no "type". */
  const char *identifying_key;
} model_type;
static const model_type model_types[] = {
    {"BPE", "tokenizer.json BPE", hf_model_read_bpe, "merges"},
    {"WordPiece", "tokenizer.json WordPiece", hf_model_read_wordpiece, "max_input_chars_per_word"},
    {"Unigram", "tokenizer.json Unigram", read_unigram, "unk_id"},
    {"WordLevel", "tokenizer.json WordLevel", read_wordlevel, "vocab"}};
enum { N_MODEL_TYPES = sizeof model_types / sizeof *model_types };

clave_status hf_read_model(const json *model, uint8_t *kinds, clave_tokenizer *tokenizer) {
  size_t i = 0;
  if (field_or_null(model, "type")) {
    TRY(hf_find(model, model_types, sizeof *model_types, N_MODEL_TYPES, &i));
  } else {
    while (i + 1 < N_MODEL_TYPES && !json_member(model, model_types[i].identifying_key)) i++;
  }
  tokenizer->format = model_types[i].format;
  return status_while(model_types[i].read(model, kinds, tokenizer), "%s", model_types[i].name);
}
