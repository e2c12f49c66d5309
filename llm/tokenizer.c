/* The tokenizer's public functions, and the pipeline from text to ids and back. */
#include "llm/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "llm/added.h"
#include "llm/byte_level.h"
#include "llm/folder.h"
#include "llm/piece_cache.h"
#include "llm/unicode.h"

static const tokenizer_format *const formats[] = {&tokenizer_json_format, &tiktoken_format,
                                                  &sentencepiece_format};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* ---------------------------------------------------------------- making one */

static clave_status make_matchers(clave_tokenizer *t) {
  TRY(added_matcher_create(t->added, t->n_added, true, t->normalize, &t->matcher));
  return added_matcher_create(t->added, t->n_added, false, t->normalize, &t->text_matcher);
}

static clave_status read_file(clave_tokenizer *t, span file,
                              const clave_tokenizer_options *options) {
  TRY(mem_pool_create(&t->pool));
  if (file.size == 0) return INVALID("empty file, expected a tokenizer");
  for (size_t i = 0; i < LENGTH(formats); i++) {
    if (!formats[i]->recognises(file)) continue;
    TRY(formats[i]->read(t, file, options));
    return make_matchers(t);
  }
  return INVALID(
      "not a tokenizer: expected a SentencePiece model, a tokenizer.json or a tiktoken rank file");
}

clave_status clave_tokenizer_create(const void *bytes, size_t size,
                                    const clave_tokenizer_options *options, clave_tokenizer **out) {
  *out = NULL;
  clave_tokenizer_options o;
  TRY(sized_read(options, &o, SIZED(clave_tokenizer_options, pattern)));
  clave_tokenizer *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->bos = t->eos = CLAVE_NO_TOKEN;
  clave_status st = read_file(t, (span){bytes, size}, &o);
  if (st) {
    clave_tokenizer_destroy(t);
    return st;
  }
  *out = t;
  return NULL;
}

static clave_status load_file(const char *path, const clave_tokenizer_options *options,
                              clave_tokenizer **out) {
  file_map map;
  TRY(file_map_open(path, &map));
  clave_status st = clave_tokenizer_create(map.data, map.size, options, out);
  file_map_close(&map);
  return status_while(st, "%s", path);
}

clave_status clave_tokenizer_load(const char *path, const clave_tokenizer_options *options,
                                  clave_tokenizer **out) {
  *out = NULL;
  char *file = NULL;
  TRY(folder_find_tokenizer(path, &file));
  clave_status st = load_file(file ? file : path, options, out);
  if (!st && file) st = folder_read_config(path, *out);
  free(file);
  if (st) {
    clave_tokenizer_destroy(*out);
    *out = NULL;
  }
  return st;
}

clave_status clave_tokenizer_of_program(const clave_program *program, clave_tokenizer **out) {
  size_t size;
  const void *bytes = clave_program_section(program, "TOKN", &size);
  *out = NULL;
  if (!bytes) return INVALID("the program carries no tokenizer");
  return status_while(clave_tokenizer_create(bytes, size, NULL, out), "the program's tokenizer");
}

void clave_tokenizer_destroy(clave_tokenizer *t) {
  if (!t) return;
  if (t->model) t->model->destroy(t->model);
  if (t->normalize) t->normalize->destroy(t->normalize);
  if (t->split) t->split->destroy(t->split);
  if (t->decode) t->decode->destroy(t->decode);
  added_matcher_destroy(t->matcher);
  added_matcher_destroy(t->text_matcher);
  vocab_destroy(t->vocab);
  vocab_destroy(t->written);
  mem_pool_destroy(t->pool);
  free(t);
}

void clave_tokenizer_get_info(const clave_tokenizer *t, clave_tokenizer_info *info) {
  *info = (clave_tokenizer_info){
      .format = t->format, .n_ids = vocab_size(t->vocab), .bos = t->bos, .eos = t->eos};
}

static clave_status find_bytes(const clave_tokenizer *t, span written, uint32_t *id) {
  text bytes = {0};
  bool in_alphabet = byte_level_decode(written, &bytes);
  clave_status st = text_status(&bytes);
  if (!st && in_alphabet) {
    *id = vocab_find(t->vocab, (span){bytes.data ? bytes.data : "", bytes.size});
    if (*id != VOCAB_NONE && vocab_has(t->written, *id)) *id = VOCAB_NONE;
  }
  text_free(&bytes);
  return st;
}

clave_status tokenizer_find(const clave_tokenizer *t, span written, uint32_t *id) {
  *id = vocab_find(t->byte_level ? t->written : t->vocab, written);
  return *id == VOCAB_NONE && t->byte_level ? find_bytes(t, written, id) : NULL;
}

int32_t clave_tokenizer_find(const clave_tokenizer *t, const char *token) {
  span wanted = {token, strlen(token)};
  for (size_t i = 0; i < t->n_added; i++) { /* what a rank is written as may be one of these, too */
    span s = t->added[i].text;
    bool same = s.size == wanted.size && memcmp(s.data, wanted.data, s.size) == 0;
    if (same) return (int32_t)t->added[i].id;
  }
  uint32_t id;
  status_free(tokenizer_find(t, wanted, &id)); /* nothing that a caller could be told */
  return id == VOCAB_NONE ? CLAVE_NO_TOKEN : (int32_t)id;
}

/* ---------------------------------------------------------------- text to ids */

void clave_ids_free(clave_ids *ids) {
  free(ids->items);
  *ids = (clave_ids){0};
}

typedef struct encoder { /* what the pieces of a text end in */
  piece_sink sink;
  const clave_tokenizer *tokenizer;
  const added_matcher *matcher;
  piece_cache *cache; /* owned */
  id_list ids;
} encoder;

static clave_status encode_piece(piece_sink *sink, span piece, bool first) {
  encoder *e = (encoder *)(void *)sink;
  (void)first;
  if (piece.size == 0) return NULL;
  return piece_cache_encode(e->cache, e->tokenizer->model, piece, &e->ids);
}

static clave_status encode_normalized(encoder *e, span in, bool first) {
  const pre_tokenizer *split = e->tokenizer->split;
  if (in.size == 0) return NULL;
  return split ? split->split(split, in, first, &e->sink) : encode_piece(&e->sink, in, first);
}

typedef clave_status encode_fn(encoder *e, span in, bool first);

/* Gives what lies between the tokens of `set` to `rest`. */
static clave_status cut(encoder *e, const added_set *set, span in, bool first, encode_fn *rest) {
  size_t at = 0;
  for (added_match m; added_find(set, in, at, &m); at = m.end) {
    TRY(rest(e, (span){in.data + at, m.begin - at}, first && at == 0));
    id_list_append(&e->ids, m.id);
  }
  return rest(e, (span){in.data + at, in.size - at}, first && at == 0);
}

/* What is left of a text whose first character goes does not begin it: to tokenizers' Metaspace. */
static clave_status keeps_start(const normalizer *n, span in, bool *keeps) {
  text one = {0};
  uint32_t c;
  clave_status st = n->apply(n, (span){in.data, unicode_read(in.data, &c)}, true, &one);
  if (!st) st = text_status(&one);
  *keeps = one.size > 0;
  text_free(&one);
  return st;
}

static clave_status normalize_and_cut(encoder *e, span in, bool first) {
  const normalizer *n = e->tokenizer->normalize;
  const added_set *set = added_in_normalized(e->matcher);
  if (in.size == 0) return NULL;
  if (!n) return cut(e, set, in, first, encode_normalized);
  if (first && e->tokenizer->split) TRY(keeps_start(n, in, &first));
  text normalized = {0};
  clave_status st = n->apply(n, in, first, &normalized);
  if (!st) st = text_status(&normalized);
  if (!st) st = cut(e, set, (span){normalized.data, normalized.size}, first, encode_normalized);
  text_free(&normalized);
  return st;
}

static void append_ids(id_list *l, const uint32_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) id_list_append(l, ids[i]);
}

static clave_status encode_valid(encoder *e, span in, const clave_encode_options *o) {
  const clave_tokenizer *t = e->tokenizer;
  bool special =
      o->special == CLAVE_SPECIAL_DEFAULT ? t->match_special : o->special == CLAVE_SPECIAL_MATCH;
  e->matcher = special ? t->matcher : t->text_matcher;
  if (o->bos) append_ids(&e->ids, t->prefix, t->n_prefix);
  TRY(cut(e, added_in_text(e->matcher), in, true, normalize_and_cut));
  if (o->eos) append_ids(&e->ids, t->suffix, t->n_suffix);
  return e->ids.failed ? status_no_memory() : NULL;
}

clave_status clave_tokenizer_encode(const clave_tokenizer *t, const char *bytes, size_t size,
                                    const clave_encode_options *options, clave_ids *out) {
  *out = (clave_ids){0};
  clave_encode_options o;
  TRY(sized_read(options, &o, SIZED(clave_encode_options, special)));
  if ((unsigned)o.special > CLAVE_SPECIAL_TEXT) {
    return INVALID("clave_encode_options: special is %d, not a clave_special", (int)o.special);
  }
  encoder e = {.sink = {encode_piece}, .tokenizer = t, .cache = piece_cache_create(size)};
  text repaired = {0};
  span in = {size > 0 ? bytes : "", size};
  if (!utf8_valid(in.data, size)) {
    (void)unicode_append_valid(&repaired, in, true);
    in = (span){repaired.data, repaired.size};
  }
  clave_status st = text_status(&repaired);
  if (!st) st = encode_valid(&e, in, &o);
  piece_cache_destroy(e.cache);
  text_free(&repaired);
  if (st) {
    id_list_free(&e.ids);
    return st;
  }
  *out = (clave_ids){e.ids.items, e.ids.count};
  return NULL;
}

/* ---------------------------------------------------------------- text in parts */

/* The first special or other added token of words that end with the span, whatever follows. */
static bool find_in_words(const clave_tokenizer *t, span words, size_t at, added_match *out) {
  added_match other;
  bool found = added_find(added_in_text(t->matcher), words, at, out);
  if (!added_find(added_in_normalized(t->matcher), words, at, &other)) return found;
  if (!found || other.begin < out->begin) *out = other;
  return true;
}

/* What lies between special tokens. A space behind one is the normalizer's own. */
static clave_status encode_between(encoder *e, span in, size_t begin, size_t end, bool first) {
  bool starts = first && begin == 0;
  if (e->tokenizer->dummy_space && !starts && begin < end && in.data[begin] == ' ') begin++;
  return cut(e, added_in_text(e->matcher), (span){in.data + begin, end - begin}, starts,
             normalize_and_cut);
}

/* Special tokens are looked for in words alone. */
static clave_status encode_guarded(encoder *e, span in, const text_part *parts, size_t n,
                                   bool first) {
  size_t done = 0, begin = 0;
  for (size_t i = 0; i < n; begin = parts[i++].end) {
    span words = {in.data, parts[i].kind == TEXT_WORDS ? parts[i].end : 0};
    size_t at = begin > done ? begin : done;
    for (added_match m; at < words.size && find_in_words(e->tokenizer, words, at, &m); at = done) {
      TRY(encode_between(e, in, done, m.begin, first));
      id_list_append(&e->ids, m.id);
      done = m.strips_right ? unicode_skip_space(in, m.end) : m.end;
      first = false;
    }
    if (parts[i].kind != TEXT_ID) continue;
    TRY(encode_between(e, in, done, begin > done ? begin : done, first));
    id_list_append(&e->ids, parts[i].id);
    done = begin > done ? begin : done;
    first = false;
  }
  return encode_between(e, in, done, in.size, first);
}

static const added_token *find_added(const clave_tokenizer *t, uint32_t id) {
  for (size_t i = 0; i < t->n_added; i++) {
    if (t->added[i].id == id) return &t->added[i];
  }
  return NULL;
}

static bool holds_special(const clave_tokenizer *t, span written) {
  added_match m;
  for (size_t at = 0; find_in_words(t, written, at, &m); at = m.end) {
    const added_token *token = find_added(t, m.id);
    if (token && token->special) return true;
  }
  return false;
}

/* The text as one, tokens by their names. False: that would not be the same to special tokens. */
static bool join_parts(const clave_tokenizer *t, span in, const text_part *parts, size_t n,
                       text *out) {
  size_t begin = 0;
  for (size_t i = 0; i < n; begin = parts[i++].end) {
    span part = {in.data + begin, parts[i].end - begin};
    const added_token *token = parts[i].kind == TEXT_ID ? find_added(t, parts[i].id) : NULL;
    if (parts[i].kind == TEXT_ID && !token) return false;
    if (parts[i].kind == TEXT_WRITTEN && holds_special(t, part)) return false;
    if (token) part = token->text;
    text_append(out, part.data, part.size);
  }
  return true;
}

clave_status tokenizer_encode_parts(const clave_tokenizer *t, span in, const text_part *parts,
                                    size_t n, bool first, id_list *out) {
  encoder e = {.sink = {encode_piece}, .tokenizer = t, .ids = *out};
  text whole = {0};
  bool joined = t->match_special && join_parts(t, in, parts, n, &whole);
  clave_status st = text_status(&whole);
  e.matcher = joined ? t->matcher : t->text_matcher;
  if (!st && joined) st = encode_between(&e, (span){whole.data, whole.size}, 0, whole.size, first);
  if (!st && !joined) st = encode_guarded(&e, in, parts, n, first);
  text_free(&whole);
  *out = e.ids;
  return !st && out->failed ? status_no_memory() : st;
}

/* ---------------------------------------------------------------- ids to text */

struct clave_text_stream {
  const clave_tokenizer *tokenizer; /* borrowed, outlives us */
  bool skip_special;
  decoding *state; /* owned */
  text bytes;      /* decoded, at most the beginning of a character between calls */
  text valid;      /* what the last call gave */
};

clave_status clave_text_stream_create(const clave_tokenizer *t, bool skip_special,
                                      clave_text_stream **out) {
  *out = NULL;
  clave_text_stream *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  *s = (clave_text_stream){.tokenizer = t, .skip_special = skip_special};
  clave_status st = t->decode->begin(t->decode, &s->state);
  if (st) {
    clave_text_stream_destroy(s);
    return st;
  }
  *out = s;
  return NULL;
}

void clave_text_stream_destroy(clave_text_stream *s) {
  if (!s) return;
  if (s->state) s->state->destroy(s->state);
  text_free(&s->bytes);
  text_free(&s->valid);
  free(s);
}

static clave_status check_id(const clave_tokenizer *t, uint32_t id) {
  if (vocab_has(t->vocab, id)) return NULL;
  return INVALID("id %u is not in the vocabulary, whose largest is %u", id,
                 vocab_size(t->vocab) - 1);
}

static clave_status push_id(clave_text_stream *s, uint32_t id) {
  const clave_tokenizer *t = s->tokenizer;
  TRY(check_id(t, id));
  if (s->skip_special && t->special && t->special[id]) return NULL;
  return s->state->next(s->state, id, &s->bytes);
}

/* Moves whole characters from bytes to valid. */
static clave_status move_valid(clave_text_stream *s, bool end) {
  size_t used = unicode_append_valid(&s->valid, (span){s->bytes.data, s->bytes.size}, end);
  TRY(text_status(&s->bytes));
  TRY(text_status(&s->valid));
  s->bytes.size -= used;
  if (s->bytes.size > 0) memmove(s->bytes.data, s->bytes.data + used, s->bytes.size);
  return NULL;
}

static void give_valid(const clave_text_stream *s, const char **out, size_t *size) {
  *out = s->valid.data ? s->valid.data : "";
  *size = s->valid.size;
}

clave_status clave_text_stream_next(clave_text_stream *s, uint32_t id, const char **out,
                                    size_t *size) {
  *out = "";
  *size = 0;
  s->valid.size = 0;
  TRY(push_id(s, id));
  TRY(move_valid(s, false));
  give_valid(s, out, size);
  return NULL;
}

clave_status clave_text_stream_finish(clave_text_stream *s, const char **out, size_t *size) {
  *out = "";
  *size = 0;
  s->valid.size = 0;
  TRY(s->state->finish(s->state, &s->bytes));
  TRY(move_valid(s, true));
  give_valid(s, out, size);
  return NULL;
}

static clave_status decode_all(clave_text_stream *s, const uint32_t *ids, size_t count) {
  for (size_t i = 0; i < count; i++) {
    TRY(status_while(push_id(s, ids[i]), "id %zu of %zu", i + 1, count));
  }
  TRY(s->state->finish(s->state, &s->bytes));
  TRY(move_valid(s, true));
  text_append(&s->valid, "", 0); /* a text of nothing is a string too */
  return text_status(&s->valid);
}

clave_status clave_tokenizer_decode(const clave_tokenizer *t, const uint32_t *ids, size_t count,
                                    bool skip_special, char **out, size_t *size) {
  *out = NULL;
  *size = 0;
  clave_text_stream *s;
  TRY(clave_text_stream_create(t, skip_special, &s));
  clave_status st = decode_all(s, ids, count);
  if (!st) {
    *out = s->valid.data;
    *size = s->valid.size;
    s->valid = (text){0};
  }
  clave_text_stream_destroy(s);
  return st;
}

void clave_text_free(char *bytes) { free(bytes); }
