/* SentencePiece's .model: a ModelProto of pieces, how they were trained and how text is normalized.
 */
#include "tokenizer/sentencepiece.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/format.h"
#include "tokenizer/protobuf.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { LONGEST_PIECE = 8000 }; /* bytes; the library's own bound */

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
  double *wide_scores; /* as scores */
  uint32_t byte_ids[256];
} spm_file;

/* ---------------------------------------------------------------- pieces */

static const uint8_t kind_of_type[] = {
    [SPM_NORMAL] = PIECE_NORMAL,     [SPM_UNKNOWN] = PIECE_ADDED, [SPM_CONTROL] = PIECE_ADDED,
    [SPM_USER_DEFINED] = PIECE_USER, [SPM_UNUSED] = PIECE_UNUSED, [SPM_BYTE] = PIECE_ADDED,
};

static clave_status check_piece(const spm_piece *p) {
  if (p->text.size == 0) return INVALID("it is empty");
  if (p->text.size >= LONGEST_PIECE)
    return INVALID("it has %zu bytes, fewer than %d expected", p->text.size, LONGEST_PIECE);
  if (memchr(p->text.data, 0, p->text.size)) return INVALID("it holds a NUL");
  if (!utf8_valid(p->text.data, p->text.size)) return INVALID("it is not UTF-8");
  if (isnan(p->score)) return INVALID("its score is not a number");
  return NULL;
}

static clave_status note_type(spm_file *f, uint32_t id, const spm_piece *p) {
  if (p->type == SPM_UNKNOWN) {
    if (f->unknown_id != VOCAB_NONE)
      return INVALID("piece %u is the unknown one too", f->unknown_id);
    f->unknown_id = id;
  }
  if (p->type == SPM_BYTE) {
    int byte = spm_byte_of(p->text);
    if (byte < 0) return INVALID("a byte's piece is written as <0x41>");
    if (!f->trainer.byte_fallback) return INVALID("a byte, but the model has no byte fallback");
    f->byte_ids[byte] = id;
  }
  return NULL;
}

static clave_status add_piece(clave_tokenizer *t, spm_file *f, span message, uint32_t id) {
  spm_piece p = {.type = SPM_NORMAL};
  bool is_new;
  TRY(proto_read(message, piece_rows, LENGTH(piece_rows), &p));
  if (p.type < SPM_NORMAL || p.type > SPM_BYTE) p.type = SPM_NORMAL;
  TRY(check_piece(&p));
  TRY(note_type(f, id, &p));
  TRY(vocab_add(t->vocab, id, p.text, &is_new));
  if (!is_new)
    return INVALID("\"%.*s\" is piece %u too", (int)p.text.size, p.text.data,
                   vocab_find(t->vocab, p.text));
  f->types[id] = (uint8_t)p.type;
  f->kinds[id] = kind_of_type[p.type];
  f->scores[id] = p.score;
  f->wide_scores[id] = (double)p.score;
  return NULL;
}

static clave_status read_pieces(clave_tokenizer *t, spm_file *f, span file) {
  proto_reader r = {file, 0};
  proto_field field;
  uint32_t id = 0;
  for (bool more = true; more;) {
    TRY(proto_next(&r, &field, &more));
    if (field.number != 1 || field.wire != PROTO_BYTES) continue;
    TRY(status_while(add_piece(t, f, field.bytes, id), "piece %u", id));
    id++;
  }
  if (f->unknown_id == VOCAB_NONE) return INVALID("no piece is the unknown one");
  for (int b = 0; f->trainer.byte_fallback && b < 256; b++) {
    if (f->byte_ids[b] == VOCAB_NONE)
      return INVALID("byte fallback without a piece <0x%02X>", (unsigned)b);
  }
  return NULL;
}

/* ---------------------------------------------------------------- the message */

/* All but the pieces, which are counted. */
static clave_status read_specs(spm_file *f, span file) {
  proto_reader r = {file, 0};
  proto_field field;
  for (bool more = true; more;) {
    TRY(proto_next(&r, &field, &more));
    if (!more || field.wire != PROTO_BYTES) continue;
    if (field.number == 1 && f->n_pieces++ == VOCAB_MAX)
      return INVALID("more than %u pieces", (unsigned)VOCAB_MAX);
    if (field.number == 2)
      TRY(status_while(proto_read(field.bytes, trainer_rows, LENGTH(trainer_rows), &f->trainer),
                       "trainer_spec"));
    if (field.number == 3)
      TRY(status_while(proto_read(field.bytes, spec_rows, LENGTH(spec_rows), &f->normalizer),
                       "normalizer_spec"));
    if (field.number == 5)
      TRY(status_while(proto_read(field.bytes, spec_rows, LENGTH(spec_rows), &f->denormalizer),
                       "denormalizer_spec"));
  }
  return f->n_pieces > 0 ? NULL : INVALID("no pieces");
}

static span text_or(span s, const char *other) {
  return s.size > 0 ? s : (span){other, strlen(other)};
}

static void set_defaults(spm_file *f) {
  static const spm_spec spec = {
      .dummy_prefix = true, .remove_extra_spaces = true, .escape_spaces = true};
  *f = (spm_file){.normalizer = spec, .denormalizer = spec, .unknown_id = VOCAB_NONE};
  f->trainer.algorithm = SPM_UNIGRAM;
  f->trainer.unknown_surface = text_or((span){0}, " \xE2\x81\x87 "); /* U+2047 */
  memset(f->byte_ids, 0xFF, sizeof f->byte_ids);
}

static clave_status read_message(clave_tokenizer *t, spm_file *f, span file) {
  set_defaults(f);
  TRY(read_specs(f, file));
  f->types = mem_pool_alloc(t->pool, f->n_pieces, sizeof *f->types);
  f->kinds = mem_pool_alloc(t->pool, f->n_pieces, sizeof *f->kinds);
  f->scores = mem_pool_alloc(t->pool, f->n_pieces, sizeof *f->scores);
  f->wide_scores = mem_pool_alloc(t->pool, f->n_pieces, sizeof *f->wide_scores);
  if (!f->types || !f->kinds || !f->scores || !f->wide_scores) return status_no_memory();
  TRY(vocab_create(f->n_pieces, &t->vocab));
  return read_pieces(t, f, file);
}

/* ---------------------------------------------------------------- the tokenizer */

static clave_status make_model(clave_tokenizer *t, const spm_file *f) {
  static const bpe_merge none; /* of 0: nothing is merged */
  const vocab *v = t->vocab;
  unknown_rule unknown = {f->unknown_id, true, f->trainer.byte_fallback ? f->byte_ids : NULL};
  bpe_options bpe = {.scores = f->scores, .kinds = f->kinds, .unknown = unknown};
  bpe_options characters = {.merges = &none, .kinds = f->kinds, .unknown = unknown};
  unigram_options unigram = {f->wide_scores, f->kinds, true, unknown};
  word_options word = {true, f->kinds, unknown};
  switch (f->trainer.algorithm) {
    case SPM_UNIGRAM:
      t->format = "SentencePiece Unigram";
      return unigram_create(v, &unigram, &t->model);
    case SPM_BPE:
      t->format = "SentencePiece BPE";
      return bpe_create(v, &bpe, &t->model);
    case SPM_WORD:
      t->format = "SentencePiece words";
      return word_create(v, &word, &t->model);
    case SPM_CHAR:
      t->format = "SentencePiece characters";
      return bpe_create(v, &characters, &t->model);
    default:
      return UNSUPPORTED("model_type: expected 1 to 4, got %d", (int)f->trainer.algorithm);
  }
}

/* The id of a control piece, as what begins or ends a text. */
static clave_status set_frame(clave_tokenizer *t, const spm_file *f, span piece, int32_t *id,
                              const uint32_t **ids, size_t *n) {
  uint32_t found = vocab_find(t->vocab, piece);
  if (found == VOCAB_NONE || f->types[found] != SPM_CONTROL) return NULL;
  uint32_t *frame = mem_pool_alloc(t->pool, 1, sizeof *frame);
  if (!frame) return status_no_memory();
  *frame = found;
  *id = (int32_t)found;
  *ids = frame;
  *n = 1;
  return NULL;
}

/* Control pieces, for those who want them matched. */
static clave_status add_special(clave_tokenizer *t, const spm_file *f) {
  added_token *added = mem_pool_alloc(t->pool, f->n_pieces, sizeof *added);
  bool *special = mem_pool_alloc(t->pool, f->n_pieces, sizeof *special);
  if (!added || !special) return status_no_memory();
  for (uint32_t id = 0; id < f->n_pieces; id++) {
    special[id] = f->types[id] == SPM_CONTROL;
    if (special[id])
      added[t->n_added++] =
          (added_token){.id = id, .text = vocab_piece(t->vocab, id), .special = true};
  }
  t->added = added;
  t->special = special;
  return NULL;
}

static clave_status make_parts(clave_tokenizer *t, const spm_file *f) {
  TRY(make_model(t, f));
  TRY(status_while(
      spm_normalizer_create(&f->normalizer, f->trainer.suffix, t->vocab, f->kinds, &t->normalize),
      "normalizer_spec"));
  char *surface =
      mem_pool_strdup(t->pool, f->trainer.unknown_surface.data, f->trainer.unknown_surface.size);
  if (!surface) return status_no_memory();
  spm_decoder_options decoder = {
      .vocab = t->vocab,
      .types = f->types,
      .unknown_surface = {surface, f->trainer.unknown_surface.size},
      .strip_one = f->normalizer.dummy_prefix,
      .strip_all = f->normalizer.remove_extra_spaces,
      .denormalizer = f->denormalizer.charsmap.size > 0 ? &f->denormalizer : NULL};
  TRY(status_while(spm_decoder_create(&decoder, &t->decode), "denormalizer_spec"));
  t->dummy_space = f->normalizer.dummy_prefix && !f->trainer.suffix;
  TRY(add_special(t, f));
  TRY(set_frame(t, f, text_or(f->trainer.bos, "<s>"), &t->bos, &t->prefix, &t->n_prefix));
  return set_frame(t, f, text_or(f->trainer.eos, "</s>"), &t->eos, &t->suffix, &t->n_suffix);
}

static clave_status read_sentencepiece(clave_tokenizer *t, span file,
                                       const clave_tokenizer_options *options) {
  spm_file f;
  (void)options;
  clave_status st = read_message(t, &f, file);
  if (!st) st = make_parts(t, &f);
  return status_while(st, "SentencePiece model");
}

/* A ModelProto is a list of messages with the numbers 1 to 5. */
static bool looks_like_model(span file) {
  uint8_t tag = file.size > 1 ? (uint8_t)file.data[0] : 0;
  return (tag & 7) == PROTO_BYTES && tag >> 3 >= 1 && tag >> 3 <= 5;
}

const tokenizer_format sentencepiece_format = {"SentencePiece", looks_like_model,
                                               read_sentencepiece};
