/* tokenizer.json's models: BPE, Unigram, WordPiece, WordLevel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/byte_level.h"
#include "tokenizer/find.h"
#include "tokenizer/hf.h"

/* ---------------------------------------------------------------- vocabulary */

clave_status hf_add_piece(clave_tokenizer *t, uint32_t id, span written) {
  if (!t->byte_level) return vocab_add(t->vocab, id, written, NULL);
  text bytes = {0};
  bool in_alphabet = byte_level_decode(written, &bytes);
  span piece = in_alphabet ? (span){bytes.data ? bytes.data : "", bytes.size} : written;
  clave_status st = text_status(&bytes);
  if (!st) st = vocab_add(t->vocab, id, piece, NULL);
  if (!st && !in_alphabet) st = vocab_add(t->written, id, written, NULL);
  text_free(&bytes);
  return st;
}

static bool is_in_alphabet(const char *written) {
  return byte_level_covers((span){written, strlen(written)});
}

static clave_status add_entry(clave_tokenizer *t, const json *v) {
  uint32_t id;
  TRY(status_while(json_index(v, VOCAB_MAX, &id), "\"%.60s\"", json_key(v)));
  return status_while(hf_add_piece(t, id, (span){json_key(v), strlen(json_key(v))}), "\"%.60s\"",
                      json_key(v));
}

/* {"piece": id, ...}. With byte_level those in the alphabet come first: of two that are the same
 * bytes, they are what text can become. */
static clave_status read_map(const json *map, clave_tokenizer *t) {
  for (const json *v = json_first(map); v; v = json_next(v)) {
    if (!t->byte_level || is_in_alphabet(json_key(v))) TRY(add_entry(t, v));
  }
  for (const json *v = t->byte_level ? json_first(map) : NULL; v; v = json_next(v)) {
    if (!is_in_alphabet(json_key(v))) TRY(add_entry(t, v));
  }
  return NULL;
}

/* [["piece", score], ...]. From the end: of equal pieces the last one counts. */
static clave_status read_entries(const json **entries, uint32_t n, clave_tokenizer *t) {
  while (n-- > 0) {
    const json *piece = json_kind_of(entries[n]) == JSON_ARRAY ? json_first(entries[n]) : NULL;
    if (!piece || json_kind_of(piece) != JSON_STRING) {
      return INVALID("entry %u: expected a piece and its score", n);
    }
    TRY(status_while(hf_add_piece(t, n, json_text(piece)), "entry %u", n));
  }
  return NULL;
}

static clave_status read_list(const json *list, clave_tokenizer *t) {
  uint32_t n = 0;
  const json **entries = calloc((size_t)json_count(list) + 1, sizeof *entries);
  if (!entries) return status_no_memory();
  for (const json *v = json_first(list); v; v = json_next(v)) entries[n++] = v;
  clave_status st = read_entries(entries, n, t);
  free(entries);
  return st;
}

clave_status hf_read_vocab(const json *model, clave_tokenizer *t) {
  const json *v = field_or_null(model, "vocab");
  if (!v) return INVALID("no \"vocab\"");
  json_kind kind = json_kind_of(v);
  if (kind != JSON_OBJECT && kind != JSON_ARRAY) {
    return INVALID("\"vocab\": expected an object or an array, got %s", json_kind_name(kind));
  }
  uint32_t n = json_count(v);
  TRY(vocab_create(n < VOCAB_MAX ? n : VOCAB_MAX, &t->vocab));
  if (t->byte_level) TRY(vocab_create(0, &t->written));
  return status_while(kind == JSON_OBJECT ? read_map(v, t) : read_list(v, t), "\"vocab\"");
}

/* ---------------------------------------------------------------- what models share */

/* The model's own id of a token; added tokens are not the model's. */
static clave_status find_own(const clave_tokenizer *t, const uint8_t *kinds, span written,
                             uint32_t *id) {
  TRY(tokenizer_find(t, written, id));
  if (*id != VOCAB_NONE && kinds[*id] == PIECE_ADDED) *id = VOCAB_NONE;
  return NULL;
}

static clave_status read_unknown(const json *v, const clave_tokenizer *t, const uint8_t *kinds,
                                 uint32_t *id) {
  const json *token = field_or_null(v, "unk_token");
  *id = VOCAB_NONE;
  if (!token) return NULL;
  TRY(status_while(json_expect(token, JSON_STRING), "\"unk_token\""));
  return find_own(t, kinds, json_text(token), id);
}

/* ids[b]: of "<0x0B>"; false if the model has no byte fallback. */
static clave_status read_byte_ids(const json *v, const clave_tokenizer *t, const uint8_t *kinds,
                                  uint32_t *ids /* [256] */, bool *has) {
  TRY(field_bool(v, "byte_fallback", false, has));
  for (unsigned b = 0; b < 256; b++) {
    char name[8];
    (void)snprintf(name, sizeof name, "<0x%02X>", b);
    TRY(find_own(t, kinds, (span){name, 6}, &ids[b]));
  }
  return NULL;
}

/* ---------------------------------------------------------------- BPE */

typedef struct merge_reader {
  const clave_tokenizer *tokenizer;
  const uint8_t *kinds;
  size_t prefix; /* bytes of the continuing prefix, which the right part loses */
  text joined;
} merge_reader;

static clave_status find_part(const merge_reader *r, span part, uint32_t *id) {
  TRY(find_own(r->tokenizer, r->kinds, part, id));
  return *id != VOCAB_NONE ? NULL
                           : INVALID("\"%.*s\" is not in the vocabulary",
                                     (int)(part.size < 60 ? part.size : 60), part.data);
}

static clave_status read_parts(merge_reader *r, span left, span right, bpe_merge *out) {
  size_t skip = r->prefix < right.size ? r->prefix : right.size;
  TRY(find_part(r, left, &out->left));
  TRY(find_part(r, right, &out->right));
  r->joined.size = 0;
  text_append(&r->joined, left.data, left.size);
  text_append(&r->joined, right.data + skip, right.size - skip);
  TRY(text_status(&r->joined));
  return find_part(r, (span){r->joined.data, r->joined.size}, &out->result);
}

/* "left right", or ["left", "right"] */
static clave_status read_merge(merge_reader *r, const json *v, bpe_merge *out) {
  if (json_kind_of(v) == JSON_ARRAY) {
    const json *left = json_first(v), *right = left ? json_next(left) : NULL;
    if (!right || json_next(right) || json_kind_of(left) != JSON_STRING ||
        json_kind_of(right) != JSON_STRING) {
      return INVALID("expected two strings");
    }
    return read_parts(r, json_text(left), json_text(right), out);
  }
  TRY(json_expect(v, JSON_STRING));
  const char *both = json_string(v), *blank = strchr(both, ' ');
  if (!blank || strchr(blank + 1, ' ')) {
    return INVALID("\"%.60s\": expected two tokens with a blank between", both);
  }
  return read_parts(r, (span){both, (size_t)(blank - both)}, (span){blank + 1, strlen(blank + 1)},
                    out);
}

static clave_status read_merges(const json *list, merge_reader *r, bpe_merge *merges,
                                size_t *count) {
  size_t line = 0;
  for (const json *v = json_first(list); v; v = json_next(v), line++) {
    bool is_version = json_kind_of(v) == JSON_STRING && strncmp(json_string(v), "#version", 8) == 0;
    if (is_version) continue;
    TRY(status_while(read_merge(r, v, &merges[*count]), "\"merges\" %zu", line));
    ++*count;
  }
  return NULL;
}

static clave_status check_dropout(const json *v) {
  const json *dropout = field_or_null(v, "dropout");
  if (!dropout || (json_kind_of(dropout) == JSON_NUMBER && json_number(dropout) == 0)) return NULL;
  return UNSUPPORTED("\"dropout\", which is random, is not supported");
}

static clave_status read_bpe_options(const json *v, clave_tokenizer *t, const uint8_t *kinds,
                                     uint32_t *byte_ids, bpe_options *o) {
  bool has_bytes;
  TRY(check_dropout(v));
  TRY(field_text(v, "continuing_subword_prefix", "", &o->continuing_prefix));
  TRY(field_text(v, "end_of_word_suffix", "", &o->word_suffix));
  TRY(field_bool(v, "ignore_merges", false, &o->whole_first));
  TRY(field_bool(v, "fuse_unk", false, &o->unknown.fuse));
  TRY(read_unknown(v, t, kinds, &o->unknown.id));
  TRY(read_byte_ids(v, t, kinds, byte_ids, &has_bytes));
  o->unknown.byte_ids = has_bytes ? byte_ids : NULL;
  o->symbols = t->byte_level ? BPE_BYTES : BPE_CHARACTERS;
  o->kinds = kinds;
  return NULL;
}

static clave_status read_bpe(const json *v, uint8_t *kinds, clave_tokenizer *t) {
  const json *list;
  uint32_t byte_ids[256];
  bpe_options o = {.merges = NULL};
  TRY(read_bpe_options(v, t, kinds, byte_ids, &o));
  TRY(field(v, "merges", JSON_ARRAY, &list));
  bpe_merge *merges = calloc((size_t)json_count(list) + 1, sizeof *merges);
  if (!merges) return status_no_memory();
  merge_reader r = {.tokenizer = t, .kinds = kinds, .prefix = o.continuing_prefix.size};
  o.merges = merges;
  clave_status st = read_merges(list, &r, merges, &o.n_merges);
  if (!st) st = bpe_create(t->vocab, &o, &t->model);
  text_free(&r.joined);
  free(merges);
  return st;
}

/* ---------------------------------------------------------------- the other models */

static clave_status read_scores(const json *v, const clave_tokenizer *t, double **out) {
  const json *list;
  TRY(field(v, "vocab", JSON_ARRAY, &list));
  double *scores = calloc((size_t)vocab_size(t->vocab) + 1, sizeof *scores);
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

static clave_status read_unigram(const json *v, uint8_t *kinds, clave_tokenizer *t) {
  uint32_t byte_ids[256];
  bool has_bytes;
  double *scores = NULL;
  unigram_options o = {.kinds = kinds};
  TRY(field_index(v, "unk_id", VOCAB_MAX, VOCAB_NONE, &o.unknown.id));
  if (o.unknown.id != VOCAB_NONE && !vocab_has(t->vocab, o.unknown.id)) {
    return INVALID("\"unk_id\" is %u, which is not in the vocabulary", o.unknown.id);
  }
  TRY(read_byte_ids(v, t, kinds, byte_ids, &has_bytes));
  o.unknown.byte_ids = has_bytes ? byte_ids : NULL;
  for (uint32_t id = 0; id < vocab_size(t->vocab); id++) {
    bool is_own = vocab_has(t->vocab, id) && kinds[id] == PIECE_NORMAL;
    if (is_own && vocab_find(t->vocab, vocab_piece(t->vocab, id)) != id) {
      kinds[id] = PIECE_ADDED; /* a later one is the same, and counts */
    }
  }
  clave_status st = read_scores(v, t, &scores);
  o.scores = scores;
  if (!st) st = unigram_create(t->vocab, &o, &t->model);
  free(scores);
  return st;
}

static clave_status read_wordpiece(const json *v, uint8_t *kinds, clave_tokenizer *t) {
  uint32_t most;
  wordpiece_options o = {.kinds = kinds};
  TRY(field_text(v, "continuing_subword_prefix", "##", &o.continuing_prefix));
  TRY(field_index(v, "max_input_chars_per_word", VOCAB_MAX, 100, &most));
  TRY(read_unknown(v, t, kinds, &o.unknown_id));
  o.max_characters = most;
  return wordpiece_create(t->vocab, &o, &t->model);
}

static clave_status read_wordlevel(const json *v, uint8_t *kinds, clave_tokenizer *t) {
  word_options o = {.kinds = kinds};
  TRY(read_unknown(v, t, kinds, &o.unknown.id));
  return word_create(t->vocab, &o, &t->model);
}

typedef struct part {
  const char *name, *format;
  clave_status (*read)(const json *v, uint8_t *kinds, clave_tokenizer *t);
  const char *sign; /* what tells it where "type" is missing, as in files of 2020 */
} part;
static const part parts[] = {
    {"BPE", "tokenizer.json BPE", read_bpe, "merges"},
    {"WordPiece", "tokenizer.json WordPiece", read_wordpiece, "max_input_chars_per_word"},
    {"Unigram", "tokenizer.json Unigram", read_unigram, "unk_id"},
    {"WordLevel", "tokenizer.json WordLevel", read_wordlevel, "vocab"}};
enum { N_PARTS = sizeof parts / sizeof *parts };

clave_status hf_read_model(const json *model, uint8_t *kinds, clave_tokenizer *t) {
  size_t i = 0;
  if (field_or_null(model, "type")) {
    TRY(hf_find(model, parts, sizeof *parts, N_PARTS, &i));
  } else {
    while (i + 1 < N_PARTS && !json_member(model, parts[i].sign)) i++;
  }
  t->format = parts[i].format;
  return status_while(parts[i].read(model, kinds, t), "%s", parts[i].name);
}
