/* Writes SentencePiece's pieces as a ModelProto, or as a tokenizer.json if special tokens strip the
 * white space after them: neither a GGUF file nor a .model can say so. llama.cpp decides by the
 * model's name ("phi-3", "phi3"); the architecture counts here, too, because converters write names
 * in many ways. */
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "import/gguf/vocabulary.h"

/* ---------------------------------------------------------------- ModelProto */

/* Fields of sentencepiece_model.proto. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_MODEL_TYPE = 3, TRAINER_BYTE_FALLBACK = 35, TRAINER_BOS = 46, TRAINER_EOS = 47 };
enum { NORMALIZER_NAME = 1, NORMALIZER_ADD_PREFIX = 3, NORMALIZER_REMOVE_SPACES = 4 };
enum { TYPE_BPE = 2 };

static void pieces_put_varint(text *out, uint64_t n) {
  char byte;
  for (; n > 127; n >>= 7) {
    byte = (char)((n & 127) | 128);
    text_append(out, &byte, 1);
  }
  byte = (char)n;
  text_append(out, &byte, 1);
}

static void pieces_put_number(text *out, unsigned field, uint64_t n) {
  pieces_put_varint(out, field << 3);
  pieces_put_varint(out, n);
}

static void pieces_put_bytes(text *out, unsigned field, const char *bytes, size_t n) {
  pieces_put_varint(out, field << 3 | 2);
  pieces_put_varint(out, n);
  if (n) text_append(out, bytes, n);
}

static void pieces_put_piece(text *out, const vocabulary *vocabulary, int64_t id, text *piece) {
  const span token = vocabulary->tokens[id];
  text_clear(piece);
  pieces_put_bytes(piece, PIECE_TEXT, token.data, token.size);
  pieces_put_varint(piece, PIECE_SCORE << 3 | 5);
  text_append(piece, (const char *)&vocabulary->scores[id], sizeof(float));
  if (vocabulary->types[id] != TOKEN_NORMAL)
    pieces_put_number(piece, PIECE_TYPE, vocabulary->types[id]);
  pieces_put_bytes(out, MODEL_PIECE, piece->data, piece->size);
}

static bool has_type(const vocabulary *vocabulary, token_type type) {
  return memchr(vocabulary->types, (int)type, (size_t)vocabulary->count) != NULL;
}

static clave_status put_trainer(text *out, const vocabulary *vocabulary) {
  static const struct {
    unsigned field;
    const char *name;
  } ends[] = {{TRAINER_BOS, "bos"}, {TRAINER_EOS, "eos"}};
  pieces_put_number(out, TRAINER_MODEL_TYPE, TYPE_BPE);
  pieces_put_number(out, TRAINER_BYTE_FALLBACK, has_type(vocabulary, TOKEN_BYTE));
  for (int i = 0; i < 2; i++) {
    int64_t id;
    TRY(vocabulary_read_id(vocabulary->file, ends[i].name, vocabulary->count, &id));
    if (id < 0) continue;
    pieces_put_bytes(out, ends[i].field, vocabulary->tokens[id].data, vocabulary->tokens[id].size);
  }
  return NULL;
}

static clave_status put_normalizer(text *out, gguf_file *file) {
  bool prefix = true, removes = false;
  TRY(gguf_read_flag(file, GGUF_TOKENIZER "add_space_prefix", &prefix));
  TRY(gguf_read_flag(file, GGUF_TOKENIZER "remove_extra_whitespaces", &removes));
  pieces_put_bytes(out, NORMALIZER_NAME, "identity", 8);
  pieces_put_number(out, NORMALIZER_ADD_PREFIX, prefix);
  pieces_put_number(out, NORMALIZER_REMOVE_SPACES, removes);
  return NULL;
}

static clave_status write_proto(const vocabulary *vocabulary, text *out) {
  text part = {0};
  for (int64_t i = 0; i < vocabulary->count; i++) pieces_put_piece(out, vocabulary, i, &part);
  text_clear(&part);
  clave_status st = put_trainer(&part, vocabulary);
  pieces_put_bytes(out, MODEL_TRAINER, part.data, part.size);
  text_clear(&part);
  if (!st) st = put_normalizer(&part, vocabulary->file);
  pieces_put_bytes(out, MODEL_NORMALIZER, part.data, part.size);
  if (!st) st = text_status(&part);
  text_free(&part);
  return st ? st : text_status(out);
}

/* ---------------------------------------------------------------- special tokens that strip */

static bool pieces_contains(span text, const char *part) {
  const size_t n = strlen(part);
  for (size_t i = 0; i + n <= text.size; i++) {
    size_t k = 0;
    while (k < n && ascii_lower(text.data[i + k]) == part[k]) k++;
    if (k == n) return true;
  }
  return false;
}

static clave_status read_strips(gguf_file *file, bool *strips) {
  bool removes = false;
  span name = {"", 0};
  TRY(gguf_read_flag(file, GGUF_TOKENIZER "remove_extra_whitespaces", &removes));
  TRY(gguf_read_text(file, "general.name", &name));
  *strips = !removes && (strcmp(file->architecture, "phi3") == 0 || pieces_contains(name, "phi3") ||
                         pieces_contains(name, "phi-3"));
  return NULL;
}

/* True for special tokens of Phi-3 that keep the white space after them. */
static bool keeps_space(span token) {
  return span_is(token, "<unk>") || span_is(token, "<s>") || span_is(token, "<|endoftext|>");
}

/* ---------------------------------------------------------------- merges */

enum { MAX_PIECE = 1024 }; /* bytes of a piece that is split into all its pairs */

/* A pair of pieces that form a piece. */
typedef struct merge {
  span left, right;
  float score;   /* the score of the piece */
  size_t n_left; /* code points */
  size_t order;  /* in which it was found */
} merge;
typedef struct merge_list {
  merge *items; /* owned */
  size_t count, capacity;
} merge_list;

static int compare_merges(const void *left, const void *right) {
  const merge *a = left, *b = right;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  if (a->n_left != b->n_left) return a->n_left > b->n_left ? -1 : 1;
  return (a->order > b->order) - (a->order < b->order);
}

static bool pieces_is_plain(const vocabulary *vocabulary, span piece) {
  const int32_t id = vocabulary_find(vocabulary, piece);
  return id >= 0 && vocabulary->types[id] == TOKEN_NORMAL;
}

static clave_status add_merges(const vocabulary *vocabulary, int64_t id, merge_list *list) {
  const span piece = vocabulary->tokens[id];
  size_t n_left = 0;
  if (piece.size > MAX_PIECE)
    return UNSUPPORTED("token %lld has %zu bytes, expected at most %d", (long long)id, piece.size,
                       MAX_PIECE);
  for (size_t i = 1; i < piece.size; i++) {
    const span left = {piece.data, i}, right = {piece.data + i, piece.size - i};
    if ((*right.data & 0xC0) == 0x80) continue;
    n_left++;
    if (!pieces_is_plain(vocabulary, left) || !pieces_is_plain(vocabulary, right)) continue;
    if (!array_reserve(&list->items, &list->capacity, list->count + 1, sizeof *list->items))
      return status_no_memory();
    list->items[list->count] = (merge){left, right, vocabulary->scores[id], n_left, list->count};
    list->count++;
  }
  return NULL;
}

static clave_status put_piece_merges(json_writer *out, const vocabulary *vocabulary) {
  merge_list list = {0};
  clave_status st = NULL;
  for (int64_t i = 0; i < vocabulary->count && !st; i++)
    if (vocabulary->types[i] == TOKEN_NORMAL) st = add_merges(vocabulary, i, &list);
  if (list.count) qsort(list.items, list.count, sizeof *list.items, compare_merges);
  emit_array(out, "merges");
  for (size_t i = 0; i < list.count && !st; i++) {
    const merge *merge = &list.items[i];
    emit_array(out, NULL);
    emit_text(out, NULL, merge->left.data, merge->left.size);
    emit_text(out, NULL, merge->right.data, merge->right.size);
    emit_end_array(out);
  }
  emit_end_array(out);
  free(list.items);
  return st;
}

/* ---------------------------------------------------------------- tokenizer.json */

#define SPACE "\342\226\201" /* SentencePiece's sign for a space */

static void put_replace(json_writer *out, const char *from, const char *to) {
  emit_object(out, NULL);
  emit_string(out, "type", "Replace");
  emit_object(out, "pattern");
  emit_string(out, "String", from);
  emit_end_object(out);
  emit_string(out, "content", to);
  emit_end_object(out);
}

static void put_normalizers(json_writer *out, bool prefix) {
  emit_object(out, "normalizer");
  emit_string(out, "type", "Sequence");
  emit_array(out, "normalizers");
  if (prefix) {
    emit_object(out, NULL);
    emit_string(out, "type", "Prepend");
    emit_string(out, "prepend", SPACE);
    emit_end_object(out);
  }
  put_replace(out, " ", SPACE);
  emit_end_array(out);
  emit_end_object(out);
}

static void put_type(json_writer *out, const char *type) {
  emit_object(out, NULL);
  emit_string(out, "type", type);
  emit_end_object(out);
}

static void put_decoders(json_writer *out, bool prefix) {
  emit_object(out, "decoder");
  emit_string(out, "type", "Sequence");
  emit_array(out, "decoders");
  put_replace(out, SPACE, " ");
  put_type(out, "ByteFallback");
  put_type(out, "Fuse");
  if (prefix) {
    emit_object(out, NULL);
    emit_string(out, "type", "Strip");
    emit_string(out, "content", " ");
    emit_integer(out, "start", 1);
    emit_integer(out, "stop", 0);
    emit_end_object(out);
  }
  emit_end_array(out);
  emit_end_object(out);
}

static void put_null(json_writer *out, const char *key) { emit_string(out, key, NULL); }

static clave_status put_pieces(json_writer *out, const vocabulary *vocabulary) {
  const uint8_t *unknown = memchr(vocabulary->types, TOKEN_UNKNOWN, (size_t)vocabulary->count);
  emit_object(out, "model");
  emit_string(out, "type", "BPE");
  emit_string(out, "unk_token",
              unknown ? vocabulary->tokens[unknown - vocabulary->types].data : NULL);
  emit_bool(out, "fuse_unk", true);
  emit_bool(out, "byte_fallback", has_type(vocabulary, TOKEN_BYTE));
  tokenizer_json_vocabulary(out, vocabulary);
  TRY(put_piece_merges(out, vocabulary));
  emit_end_object(out);
  return NULL;
}

static clave_status write_json(const vocabulary *vocabulary, int64_t bos, text *out) {
  bool prefix = true;
  json_writer json = {.out = out, .compact = true};
  TRY(vocabulary_check_once(vocabulary));
  TRY(gguf_read_flag(vocabulary->file, GGUF_TOKENIZER "add_space_prefix", &prefix));
  emit_object(&json, NULL);
  emit_string(&json, "version", "1.0");
  emit_array(&json, "added_tokens");
  for (int64_t i = 0; i < vocabulary->count; i++)
    if (vocabulary->types[i] >= TOKEN_UNKNOWN && vocabulary->types[i] <= TOKEN_USER)
      tokenizer_json_added(&json, vocabulary, i, !keeps_space(vocabulary->tokens[i]));
  emit_end_array(&json);
  put_normalizers(&json, prefix);
  put_null(&json, "pre_tokenizer");
  tokenizer_json_frame(&json, vocabulary, bos, put_null);
  put_decoders(&json, prefix);
  TRY(put_pieces(&json, vocabulary));
  emit_end_object(&json);
  return text_status(out);
}

clave_status pieces_write(const vocabulary *vocabulary, int64_t bos, text *out) {
  bool strips;
  TRY(read_strips(vocabulary->file, &strips));
  return strips ? write_json(vocabulary, bos, out) : write_proto(vocabulary, out);
}
