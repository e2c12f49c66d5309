/* SentencePiece's .model: a ModelProto with the pieces, the training options and the
 * normalization. */
#include "tokenizer/sentencepiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/protobuf.h"
#include "base/utf8.h"
#include "tokenizer/format.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { LONGEST_PIECE = 8000 }; /* bytes; the library's own limit */

typedef enum spm_algorithm {
  SPM_UNIGRAM = 1,
  SPM_BPE = 2,
  SPM_WORD = 3,
  SPM_CHAR = 4
} spm_algorithm;

typedef struct spm_trainer {
  int32_t algorithm;
  bool suffix, byte_fallback;
  span unknown_surface, bos, eos;
} spm_trainer;

static const proto_row trainer_rows[] = {
    {3, PROTO_INT32, offsetof(spm_trainer, algorithm)},
    {24, PROTO_BOOL, offsetof(spm_trainer, suffix)},
    {35, PROTO_BOOL, offsetof(spm_trainer, byte_fallback)},
    {44, PROTO_SPAN, offsetof(spm_trainer, unknown_surface)},
    {46, PROTO_SPAN, offsetof(spm_trainer, bos)},
    {47, PROTO_SPAN, offsetof(spm_trainer, eos)},
};

static const proto_row spec_rows[] = {
    {2, PROTO_SPAN, offsetof(spm_spec, charsmap)},
    {3, PROTO_BOOL, offsetof(spm_spec, dummy_prefix)},
    {4, PROTO_BOOL, offsetof(spm_spec, remove_extra_spaces)},
    {5, PROTO_BOOL, offsetof(spm_spec, escape_spaces)},
};

typedef struct spm_piece {
  span text;
  float score;
  int32_t type;
} spm_piece;

static const proto_row piece_rows[] = {
    {1, PROTO_SPAN, offsetof(spm_piece, text)},
    {2, PROTO_FLOAT, offsetof(spm_piece, score)},
    {3, PROTO_INT32, offsetof(spm_piece, type)},
};

typedef struct spm_file { /* spans point into the file */
  spm_trainer trainer;
  spm_spec normalizer, denormalizer;
  uint32_t n_pieces, unknown_id;
  uint8_t *types, *kinds; /* by id, in the tokenizer's pool */
  float *scores;
  double *wide_scores; /* same as scores, as doubles */
  uint32_t byte_ids[256];
} spm_file;

/* ---------------------------------------------------------------- pieces */

static const uint8_t kind_of_type[] = {
    [SPM_NORMAL] = PIECE_NORMAL,     [SPM_UNKNOWN] = PIECE_ADDED, [SPM_CONTROL] = PIECE_ADDED,
    [SPM_USER_DEFINED] = PIECE_USER, [SPM_UNUSED] = PIECE_UNUSED, [SPM_BYTE] = PIECE_ADDED,
};

static clave_status check_piece(const spm_piece *piece) {
  if (piece->text.size == 0) return INVALID("the piece is empty");
  if (piece->text.size >= LONGEST_PIECE)
    return INVALID("the piece has %zu bytes: expected fewer than %d", piece->text.size,
                   LONGEST_PIECE);
  if (memchr(piece->text.data, 0, piece->text.size)) return INVALID("the piece contains a NUL");
  if (!utf8_valid(piece->text.data, piece->text.size))
    return INVALID("the piece is not valid UTF-8");
  if (isnan(piece->score)) return INVALID("the score of the piece is not a number");
  return NULL;
}

static clave_status note_type(spm_file *file, uint32_t id, const spm_piece *piece) {
  if (piece->type == SPM_UNKNOWN) {
    if (file->unknown_id != VOCAB_NONE)
      return INVALID("piece %u is also an unknown piece: expected only one", file->unknown_id);
    file->unknown_id = id;
  }
  if (piece->type == SPM_BYTE) {
    int byte = spm_byte_of(piece->text);
    if (byte < 0) return INVALID("a byte piece must be written as <0x41>");
    if (!file->trainer.byte_fallback)
      return INVALID("a byte piece, but the model has no byte fallback");
    file->byte_ids[byte] = id;
  }
  return NULL;
}

static clave_status sentencepiece_add_piece(clave_tokenizer *tokenizer, spm_file *file,
                                            span message, uint32_t id) {
  spm_piece piece = {.type = SPM_NORMAL};
  bool is_new;
  TRY(proto_read(message, piece_rows, LENGTH(piece_rows), &piece));
  if (piece.type < SPM_NORMAL || piece.type > SPM_BYTE) piece.type = SPM_NORMAL;
  TRY(check_piece(&piece));
  TRY(note_type(file, id, &piece));
  TRY(vocab_add(tokenizer->vocab, id, piece.text, &is_new));
  if (!is_new)
    return INVALID("\"%.*s\" is also piece %u", (int)piece.text.size, piece.text.data,
                   vocab_find(tokenizer->vocab, piece.text));
  file->types[id] = (uint8_t)piece.type;
  file->kinds[id] = kind_of_type[piece.type];
  file->scores[id] = piece.score;
  file->wide_scores[id] = (double)piece.score;
  return NULL;
}

static clave_status read_pieces(clave_tokenizer *tokenizer, spm_file *spm_file, span file) {
  proto_reader reader = {file, 0};
  proto_field field;
  uint32_t id = 0;
  for (bool more = true; more;) {
    TRY(proto_next(&reader, &field, &more));
    if (field.number != 1 || field.wire != PROTO_BYTES) continue;
    TRY(status_while(sentencepiece_add_piece(tokenizer, spm_file, field.bytes, id), "piece %u",
                     id));
    id++;
  }
  if (spm_file->unknown_id == VOCAB_NONE) return INVALID("the model has no unknown piece");
  for (int b = 0; spm_file->trainer.byte_fallback && b < 256; b++) {
    if (spm_file->byte_ids[b] == VOCAB_NONE)
      return INVALID("the model has byte fallback but no piece <0x%02X>", (unsigned)b);
  }
  return NULL;
}

/* ---------------------------------------------------------------- the message */

/* Reads everything except the pieces, which it counts. */
static clave_status read_specs(spm_file *spm_file, span file) {
  proto_reader reader = {file, 0};
  proto_field field;
  for (bool more = true; more;) {
    TRY(proto_next(&reader, &field, &more));
    if (!more || field.wire != PROTO_BYTES) continue;
    if (field.number == 1 && spm_file->n_pieces++ == VOCAB_MAX)
      return INVALID("the model has more than %u pieces", (unsigned)VOCAB_MAX);
    if (field.number == 2)
      TRY(status_while(
          proto_read(field.bytes, trainer_rows, LENGTH(trainer_rows), &spm_file->trainer),
          "trainer_spec"));
    if (field.number == 3)
      TRY(status_while(proto_read(field.bytes, spec_rows, LENGTH(spec_rows), &spm_file->normalizer),
                       "normalizer_spec"));
    if (field.number == 5)
      TRY(status_while(
          proto_read(field.bytes, spec_rows, LENGTH(spec_rows), &spm_file->denormalizer),
          "denormalizer_spec"));
  }
  return spm_file->n_pieces > 0 ? NULL : INVALID("the model has no pieces");
}

static span text_or(span range, const char *other) {
  return range.size > 0 ? range : (span){other, strlen(other)};
}

static void set_defaults(spm_file *file) {
  static const spm_spec spec = {
      .dummy_prefix = true, .remove_extra_spaces = true, .escape_spaces = true};
  *file = (spm_file){.normalizer = spec, .denormalizer = spec, .unknown_id = VOCAB_NONE};
  file->trainer.algorithm = SPM_UNIGRAM;
  file->trainer.unknown_surface = text_or((span){0}, " \xE2\x81\x87 "); /* U+2047 */
  memset(file->byte_ids, 0xFF, sizeof file->byte_ids);
}

static clave_status sentencepiece_read_message(clave_tokenizer *tokenizer, spm_file *spm_file,
                                               span file) {
  set_defaults(spm_file);
  TRY(read_specs(spm_file, file));
  spm_file->types = mem_pool_alloc(tokenizer->pool, spm_file->n_pieces, sizeof *spm_file->types);
  spm_file->kinds = mem_pool_alloc(tokenizer->pool, spm_file->n_pieces, sizeof *spm_file->kinds);
  spm_file->scores = mem_pool_alloc(tokenizer->pool, spm_file->n_pieces, sizeof *spm_file->scores);
  spm_file->wide_scores =
      mem_pool_alloc(tokenizer->pool, spm_file->n_pieces, sizeof *spm_file->wide_scores);
  if (!spm_file->types || !spm_file->kinds || !spm_file->scores || !spm_file->wide_scores)
    return status_no_memory();
  TRY(vocab_create(spm_file->n_pieces, &tokenizer->vocab));
  return read_pieces(tokenizer, spm_file, file);
}

/* ---------------------------------------------------------------- the tokenizer */

static clave_status sentencepiece_make_model(clave_tokenizer *tokenizer, const spm_file *file) {
  static const bpe_merge none; /* an empty list: nothing is merged */
  const vocab *vocab = tokenizer->vocab;
  unknown_rule unknown = {file->unknown_id, true,
                          file->trainer.byte_fallback ? file->byte_ids : NULL};
  bpe_options bpe = {.scores = file->scores, .kinds = file->kinds, .unknown = unknown};
  bpe_options characters = {.merges = &none, .kinds = file->kinds, .unknown = unknown};
  unigram_options unigram = {file->wide_scores, file->kinds, true, unknown};
  word_options word = {true, file->kinds, unknown};
  switch (file->trainer.algorithm) {
    case SPM_UNIGRAM:
      tokenizer->format = "SentencePiece Unigram";
      return unigram_create(vocab, &unigram, &tokenizer->model);
    case SPM_BPE:
      tokenizer->format = "SentencePiece BPE";
      return bpe_create(vocab, &bpe, &tokenizer->model);
    case SPM_WORD:
      tokenizer->format = "SentencePiece words";
      return word_create(vocab, &word, &tokenizer->model);
    case SPM_CHAR:
      tokenizer->format = "SentencePiece characters";
      return bpe_create(vocab, &characters, &tokenizer->model);
    default:
      return UNSUPPORTED("model_type: expected 1 to 4, got %d", (int)file->trainer.algorithm);
  }
}

/* Sets the id and the frame (beginning or end of a text) to a control piece, if there is one. */
static clave_status set_frame(clave_tokenizer *tokenizer, const spm_file *file, span piece,
                              int32_t *id, const uint32_t **ids, size_t *count) {
  uint32_t found = vocab_find(tokenizer->vocab, piece);
  if (found == VOCAB_NONE || file->types[found] != SPM_CONTROL) return NULL;
  uint32_t *frame = mem_pool_alloc(tokenizer->pool, 1, sizeof *frame);
  if (!frame) return status_no_memory();
  *frame = found;
  *id = (int32_t)found;
  *ids = frame;
  *count = 1;
  return NULL;
}

/* Adds control pieces as special tokens, for callers that want them matched. */
static clave_status sentencepiece_add_special(clave_tokenizer *tokenizer, const spm_file *file) {
  added_token *added = mem_pool_alloc(tokenizer->pool, file->n_pieces, sizeof *added);
  bool *special = mem_pool_alloc(tokenizer->pool, file->n_pieces, sizeof *special);
  if (!added || !special) return status_no_memory();
  for (uint32_t id = 0; id < file->n_pieces; id++) {
    special[id] = file->types[id] == SPM_CONTROL;
    if (special[id])
      added[tokenizer->n_added++] =
          (added_token){.id = id, .text = vocab_piece(tokenizer->vocab, id), .special = true};
  }
  tokenizer->added = added;
  tokenizer->special = special;
  return NULL;
}

static clave_status make_parts(clave_tokenizer *tokenizer, const spm_file *file) {
  TRY(sentencepiece_make_model(tokenizer, file));
  TRY(status_while(spm_normalizer_create(&file->normalizer, file->trainer.suffix, tokenizer->vocab,
                                         file->kinds, &tokenizer->normalize),
                   "normalizer_spec"));
  char *surface = mem_pool_strdup(tokenizer->pool, file->trainer.unknown_surface.data,
                                  file->trainer.unknown_surface.size);
  if (!surface) return status_no_memory();
  spm_decoder_options decoder = {
      .vocab = tokenizer->vocab,
      .types = file->types,
      .unknown_surface = {surface, file->trainer.unknown_surface.size},
      .strip_one = file->normalizer.dummy_prefix,
      .strip_all = file->normalizer.remove_extra_spaces,
      .denormalizer = file->denormalizer.charsmap.size > 0 ? &file->denormalizer : NULL};
  TRY(status_while(spm_decoder_create(&decoder, &tokenizer->decode), "denormalizer_spec"));
  tokenizer->dummy_space = file->normalizer.dummy_prefix && !file->trainer.suffix;
  TRY(sentencepiece_add_special(tokenizer, file));
  TRY(set_frame(tokenizer, file, text_or(file->trainer.bos, "<s>"), &tokenizer->bos,
                &tokenizer->prefix, &tokenizer->n_prefix));
  return set_frame(tokenizer, file, text_or(file->trainer.eos, "</s>"), &tokenizer->eos,
                   &tokenizer->suffix, &tokenizer->n_suffix);
}

static clave_status read_sentencepiece(clave_tokenizer *tokenizer, span file,
                                       const clave_tokenizer_options *options) {
  spm_file spm_file;
  (void)options;
  clave_status st = sentencepiece_read_message(tokenizer, &spm_file, file);
  if (!st) st = make_parts(tokenizer, &spm_file);
  return status_while(st, "SentencePiece model");
}

/* True if the file begins like a ModelProto, a list of messages with the numbers 1 to 5. */
static bool looks_like_model(span file) {
  uint8_t tag = file.size > 1 ? (uint8_t)file.data[0] : 0;
  return (tag & 7) == PROTO_BYTES && tag >> 3 >= 1 && tag >> 3 <= 5;
}

const tokenizer_format sentencepiece_format = {"SentencePiece", looks_like_model,
                                               read_sentencepiece};
