/* Byte pair encoding: a pre-token is converted to symbols, which are merged between cuts and
 * converted to ids. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "tokenizer/bpe.h"

enum { FEW_SYMBOLS = 64 }; /* symbols on the stack */

typedef struct work {
  const bpe *m;
  span text;
  id_list *out;
  symbol *symbols; /* symbols since the last cut; points to `few`, or owned */
  uint32_t count, capacity;
  uint8_t last_class;
  bool pending;       /* the unknown symbol must be added before the next symbol */
  bool after_unknown; /* the last id was the unknown id */
  uint32_t *splits;   /* owned; see bpe_merge_symbols */
  text scratch;       /* a character with its prefix and suffix */
  symbol few[FEW_SYMBOLS];
} work;

/* ---------------------------------------------------------------- ids */

static void emit_symbol(work *work, uint32_t id, span span) {
  const bpe *bpe = work->m;
  if (id != VOCAB_NONE) {
    id_list_append(work->out, id);
    work->after_unknown = false;
    return;
  }
  bool done = append_bytes(bpe->byte_ids, span, work->out);
  bool joins = work->after_unknown && bpe->options.unknown.fuse;
  if (!done && !joins && bpe->options.unknown.id != VOCAB_NONE)
    id_list_append(work->out, bpe->options.unknown.id);
  work->after_unknown = !done;
}

static uint32_t split_of(const work *work, uint32_t id) {
  bool falls = work->splits && id != VOCAB_NONE && bpe_kind(work->m, id) == PIECE_UNUSED;
  return falls ? work->splits[id] : 0;
}

/* Splits an unused piece into the two parts of its most recent merge, which may be elsewhere in the
 * text, and splits unused parts again. `ends` is a stack of the ends of the parts that are not
 * written yet, with the next end on top. */
static clave_status emit_unused(work *work, const symbol *symbol) {
  uint32_t *ends = malloc(((size_t)symbol->size + 1) * sizeof *ends), n = 0, start = symbol->start;
  if (!ends) return status_no_memory();
  ends[n++] = symbol->start + symbol->size;
  while (n > 0) {
    span part = {work->text.data + start, ends[n - 1] - start};
    uint32_t id = bpe_find(work->m, part), left = split_of(work, id);
    if (left > 0) {
      ends[n++] = start + left;
      continue;
    }
    emit_symbol(work, id, part);
    start = ends[--n];
  }
  free(ends);
  return NULL;
}

/* Merges the symbols since the last cut and appends their ids. */
static clave_status finish_symbols(work *work) {
  TRY(bpe_merge_symbols(work->m, work->text, work->symbols, work->count, work->splits));
  for (uint32_t i = 0; i < work->count; i++) {
    const symbol *symbol = &work->symbols[i];
    if (symbol->id == JOINED) continue;
    if (split_of(work, symbol->id) > 0) {
      TRY(emit_unused(work, symbol));
    } else {
      emit_symbol(work, symbol->id, (span){work->text.data + symbol->start, symbol->size});
    }
  }
  work->count = 0;
  return work->out->failed ? status_no_memory() : NULL;
}

/* ---------------------------------------------------------------- initial symbols */

static clave_status grow_symbols(work *work) {
  size_t capacity = (size_t)work->capacity * 2, bytes;
  if (capacity > UINT32_MAX / 2 || !mul_size(capacity, sizeof *work->symbols, &bytes))
    return INVALID("a pre-token of %zu bytes is too long", work->text.size);
  symbol *grown = realloc(work->symbols == work->few ? NULL : work->symbols, bytes);
  if (!grown) return status_no_memory();
  if (work->symbols == work->few) memcpy(grown, work->few, sizeof work->few);
  work->symbols = grown;
  work->capacity = (uint32_t)capacity;
  return NULL;
}

/* Adds a symbol. span: its bytes as the vocabulary spells them, even if the vocabulary lacks it. */
static clave_status add_symbol(work *work, uint32_t id, size_t start, size_t size, span span) {
  uint8_t first = span.size > 0 ? bpe_first_class(work->m, span) : 0;
  if (work->count > 0 && !bpe_may_join(work->m, work->last_class, first)) TRY(finish_symbols(work));
  if (work->count == work->capacity) TRY(grow_symbols(work));
  work->symbols[work->count++] =
      (symbol){.start = (uint32_t)start, .size = (uint32_t)size, .id = id};
  work->last_class = span.size > 0 ? bpe_last_class(work->m, span) : 0;
  return NULL;
}

static clave_status add_id(work *work, uint32_t id) {
  return add_symbol(work, id, 0, 0, vocab_piece(work->m->vocab, id));
}

static clave_status flush_unknown(work *work) {
  if (!work->pending) return NULL;
  work->pending = false;
  return add_id(work, work->m->options.unknown.id);
}

/* Adds symbols for a character that the vocabulary lacks: its bytes, or the unknown id. As in
 * Hugging Face, bytes do not flush a pending unknown symbol. */
static clave_status add_unknown(work *work, span span) {
  const bpe *bpe = work->m;
  if (has_bytes(bpe->byte_ids, span)) {
    for (size_t i = 0; i < span.size; i++) TRY(add_id(work, bpe->byte_ids[(uint8_t)span.data[i]]));
  } else if (bpe->options.unknown.id != VOCAB_NONE) {
    if (!bpe->options.unknown.fuse) TRY(flush_unknown(work));
    work->pending = true;
  }
  return NULL;
}

static clave_status add_found(work *work, uint32_t id, size_t start, size_t size, span span) {
  if (id == VOCAB_NONE && work->m->pairs) return add_unknown(work, span);
  TRY(flush_unknown(work));
  return add_symbol(work, id, start, size, span);
}

/* Adds a character with its prefix and suffix. */
static clave_status add_character(work *work, size_t start, size_t size) {
  const bpe_options *options = &work->m->options;
  span range = {work->text.data + start, size};
  bool prefixed = start > 0 && options->continuing_prefix.size > 0;
  bool suffixed = start + size == work->text.size && options->word_suffix.size > 0;
  if (prefixed || suffixed) {
    work->scratch.size = 0;
    if (prefixed)
      text_append(&work->scratch, options->continuing_prefix.data, options->continuing_prefix.size);
    text_append(&work->scratch, range.data, range.size);
    if (suffixed) text_append(&work->scratch, options->word_suffix.data, options->word_suffix.size);
    TRY(text_status(&work->scratch));
    range = (span){work->scratch.data, work->scratch.size};
  }
  return add_found(work, bpe_find(work->m, range), start, size, range);
}

static clave_status add_characters(work *work) {
  for (size_t at = 0, n; at < work->text.size; at += n) {
    span rest = {work->text.data + at, work->text.size - at};
    uint32_t id = VOCAB_NONE;
    n = work->m->user.units ? trie_longest(&work->m->user, rest, &id) : 0;
    if (n > 0) {
      TRY(add_found(work, id, at, n, (span){rest.data, n}));
    } else {
      n = character_size(rest);
      TRY(add_character(work, at, n));
    }
  }
  return flush_unknown(work);
}

static clave_status add_bytes(work *work) {
  for (size_t at = 0; at < work->text.size; at++) {
    span span = {work->text.data + at, 1};
    TRY(add_found(work, work->m->byte_symbol[(uint8_t)span.data[0]], at, 1, span));
  }
  return flush_unknown(work);
}

static clave_status encode_symbols(work *work) {
  if (work->m->has_unused) {
    work->splits = calloc(work->m->n_ids, sizeof *work->splits);
    if (!work->splits) return status_no_memory();
  }
  if (work->m->options.symbols == BPE_BYTES) {
    TRY(add_bytes(work));
  } else {
    TRY(add_characters(work));
  }
  return finish_symbols(work);
}

static clave_status encode_bpe(const token_model *self, span pretoken, id_list *out) {
  const bpe *model = (const bpe *)self;
  uint32_t whole = model->options.whole_first ? bpe_find(model, pretoken) : VOCAB_NONE;
  if (whole != VOCAB_NONE) {
    id_list_append(out, whole);
    return out->failed ? status_no_memory() : NULL;
  }
  if (pretoken.size >= UINT32_MAX)
    return INVALID("a pre-token of %zu bytes is too long", pretoken.size);
  work work; /* not zeroed, because `few` is large */
  work.m = model;
  work.text = pretoken;
  work.out = out;
  work.symbols = work.few;
  work.count = 0;
  work.capacity = FEW_SYMBOLS;
  work.last_class = 0;
  work.pending = work.after_unknown = false;
  work.splits = NULL;
  work.scratch = (text){0};
  clave_status st = encode_symbols(&work);
  if (work.symbols != work.few) free(work.symbols);
  free(work.splits);
  text_free(&work.scratch);
  return st;
}

/* ---------------------------------------------------------------- creation */

static void destroy_bpe(token_model *self) {
  bpe *model = (bpe *)self;
  if (!model) return;
  trie_destroy(&model->user);
  free(model->kinds);
  free(model->pairs);
  free(model->ranks);
  free(model->prefix);
  free(model->suffix);
  free(model);
}

static clave_status copy_span(span *span, char **owned) {
  *owned = malloc(span->size + 1);
  if (!*owned) return status_no_memory();
  if (span->size > 0) memcpy(*owned, span->data, span->size);
  span->data = *owned;
  return NULL;
}

/* Maps floats to integers in descending order: 0 for the largest, equal for equal floats. */
static uint32_t descending(float score) {
  uint32_t bits;
  score += 0.0f; /* turns -0 into 0 */
  memcpy(&bits, &score, sizeof bits);
  return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

static clave_status fill_ranks(bpe *bpe) {
  if (!bpe->options.scores && !bpe->kinds) return NULL;
  bpe->ranks = malloc((bpe->n_ids + 1) * sizeof *bpe->ranks);
  if (!bpe->ranks) return status_no_memory();
  for (uint32_t id = 0; id < bpe->n_ids; id++) {
    bool merges = bpe_kind(bpe, id) == PIECE_NORMAL || bpe_kind(bpe, id) == PIECE_UNUSED;
    bpe->ranks[id] = !merges               ? NO_PAIR
                     : bpe->options.scores ? descending(bpe->options.scores[id])
                                           : id;
  }
  return NULL;
}

static clave_status read_kinds(bpe *bpe) {
  if (!bpe->options.kinds) return NULL;
  TRY(copy_kinds(bpe->vocab, bpe->options.kinds, &bpe->kinds));
  for (uint32_t id = 0; id < bpe->n_ids; id++) bpe->has_unused |= bpe->kinds[id] == PIECE_UNUSED;
  return user_trie_create(bpe->vocab, bpe->kinds, &bpe->user);
}

static clave_status init_bpe(bpe *bpe) {
  TRY(copy_span(&bpe->options.continuing_prefix, &bpe->prefix));
  TRY(copy_span(&bpe->options.word_suffix, &bpe->suffix));
  TRY(read_kinds(bpe));
  if (bpe->options.merges) {
    TRY(bpe_pairs_create(bpe));
  } else {
    TRY(fill_ranks(bpe));
  }
  for (uint32_t id = 0; id < bpe->n_ids; id++) {
    size_t size = vocab_piece(bpe->vocab, id).size;
    if (size > bpe->max_piece) bpe->max_piece = size;
  }
  for (int b = 0; b < 256; b++) {
    char byte = (char)b;
    bpe->byte_symbol[b] = bpe_find(bpe, (span){&byte, 1});
  }
  copy_byte_ids(&bpe->options.unknown, bpe->byte_ids);
  bpe_junctions_fill(bpe);
  bpe->options.merges = NULL; /* cleared: this and the next members point to the caller's memory */
  bpe->options.scores = NULL;
  bpe->options.kinds = NULL;
  bpe->options.unknown.byte_ids = NULL;
  return NULL;
}

clave_status bpe_create(const vocab *vocab, const bpe_options *options, token_model **out) {
  *out = NULL;
  bpe *bpe = calloc(1, sizeof *bpe);
  if (!bpe) return status_no_memory();
  bpe->base = (token_model){encode_bpe, destroy_bpe};
  bpe->vocab = vocab;
  bpe->options = *options;
  bpe->n_ids = vocab_size(vocab);
  clave_status st = init_bpe(bpe);
  if (st) {
    destroy_bpe(&bpe->base);
    return st;
  }
  *out = &bpe->base;
  return NULL;
}
