/* tokenizer.json's decoders: a chain of stages through which tokens flow. A token comes in parts
 * and ends; so a stage that makes one of many (Fuse, ByteLevel) hands on what it gets at once. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/byte_decoder.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/hf.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

typedef struct stage stage;
typedef struct rule rule;
typedef struct stage_kind {
  const char *name;
  clave_status (*read)(const json *v, rule *r); /* NULL: nothing to read */
  /* One of: whole tokens; or parts as they come, and the token's end (NULL: nothing). */
  clave_status (*token)(stage *s, span token);
  clave_status (*part)(stage *s, span bytes);
  clave_status (*end)(stage *s);
  clave_status (*finish)(stage *s); /* the text's end; NULL: nothing */
} stage_kind;

struct rule { /* a decoder as the file has it */
  const stage_kind *kind;
  text first, second; /* owned: pattern or prefix or pad, content or delimiter */
  pattern *pattern;   /* owned, of Replace by a regular expression */
  bool cleanup, drops_first;
  uint32_t start, stop; /* of Strip */
  uint32_t character;   /* of Strip and Metaspace */
};

struct stage { /* a rule at work on a text */
  const rule *rule;
  stage *next; /* owned by the chain; NULL: the last */
  text *out;   /* of the last */
  text token, held;
  size_t count;
  bool flag;
};

/* ---------------------------------------------------------------- the flow */

static clave_status put_part(stage *s, span bytes) {
  if (!s->rule) {
    text_append(s->out, bytes.data, bytes.size);
    return text_status(s->out);
  }
  if (s->rule->kind->part) return s->rule->kind->part(s, bytes);
  text_append(&s->token, bytes.data, bytes.size);
  return text_status(&s->token);
}

static clave_status put_end(stage *s) {
  if (!s->rule) return NULL;
  const stage_kind *k = s->rule->kind;
  if (!k->token) return k->end ? k->end(s) : NULL;
  clave_status st = k->token(s, (span){s->token.data ? s->token.data : "", s->token.size});
  s->token.size = 0;
  return st;
}

static clave_status put_token(stage *s, span token) {
  TRY(put_part(s, token));
  return put_end(s);
}

static clave_status put_finish(stage *s) {
  if (!s->rule) return NULL;
  if (s->rule->kind->finish) TRY(s->rule->kind->finish(s));
  s->token.size = s->held.size = s->count = 0;
  s->flag = false;
  return put_finish(s->next);
}

/* ---------------------------------------------------------------- helpers */

static span span_of(const text *t) { return (span){t->data ? t->data : "", t->size}; }

/* English as it is usually set, one replacement after the other. */
static clave_status clean_up(text *t) {
  static const char *const rules[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                         {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                         {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                         {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    text replaced = {0};
    TRY(text_status(t));
    hf_replace_text(span_of(t), (span){rules[i][0], strlen(rules[i][0])},
                    (span){rules[i][1], strlen(rules[i][1])}, &replaced);
    text_free(t);
    *t = replaced;
  }
  return text_status(t);
}

static clave_status put_text(stage *s, text *t) { /* and frees it */
  clave_status st = text_status(t);
  if (!st) st = put_token(s, span_of(t));
  text_free(t);
  return st;
}

/* ---------------------------------------------------------------- kinds */

static clave_status join_with_blank(stage *s, span token) {
  if (s->count++ > 0) TRY(put_part(s->next, (span){" ", 1}));
  return put_token(s->next, token);
}

static clave_status replace_in(stage *s, span token) {
  const rule *r = s->rule;
  text replaced = {0};
  clave_status st = NULL;
  if (r->pattern) {
    st = pattern_replace(r->pattern, token, span_of(&r->second), &replaced);
  } else {
    hf_replace_text(token, span_of(&r->first), span_of(&r->second), &replaced);
  }
  if (!st) return put_text(s->next, &replaced);
  text_free(&replaced);
  return st;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static bool is_byte_token(span t, char *byte) {
  if (t.size != 6 || memcmp(t.data, "<0x", 3) != 0 || t.data[5] != '>') return false;
  int high = t.data[3] == '+' ? 0 : hex_digit(t.data[3]), low = hex_digit(t.data[4]);
  *byte = (char)(high * 16 + low);
  return high >= 0 && low >= 0;
}

/* A run of byte tokens is a token if it is UTF-8, else U+FFFD for each byte. */
static clave_status end_bytes(stage *s) {
  size_t n = s->held.size;
  s->held.size = 0;
  if (n == 0) return NULL;
  if (utf8_valid(s->held.data, n)) return put_token(s->next, (span){s->held.data, n});
  for (size_t i = 0; i < n; i++) TRY(put_token(s->next, (span){"\xEF\xBF\xBD", 3}));
  return NULL;
}

static clave_status take_byte(stage *s, span token) {
  char byte;
  if (is_byte_token(token, &byte)) {
    text_append(&s->held, &byte, 1);
    return text_status(&s->held);
  }
  TRY(end_bytes(s));
  return put_token(s->next, token);
}

static clave_status pass_part(stage *s, span bytes) { return put_part(s->next, bytes); }
static clave_status end_fused(stage *s) { return put_end(s->next); }

/* Gives what is whole characters; the bytes are one token. */
static clave_status take_bytes(stage *s, span token) {
  text whole = {0};
  text_append(&s->held, token.data, token.size);
  TRY(text_status(&s->held));
  size_t used = unicode_append_valid(&whole, span_of(&s->held), false);
  s->held.size -= used;
  if (s->held.size > 0) memmove(s->held.data, s->held.data + used, s->held.size);
  clave_status st = text_status(&whole);
  if (!st) st = put_part(s->next, span_of(&whole));
  text_free(&whole);
  return st;
}

static clave_status take_byte_level(stage *s, span token) {
  text bytes = {0};
  bool in_alphabet = byte_level_decode(token, &bytes);
  clave_status st = text_status(&bytes);
  if (!st) st = take_bytes(s, in_alphabet ? span_of(&bytes) : token);
  text_free(&bytes);
  return st;
}

static clave_status end_byte_level(stage *s) {
  text whole = {0};
  (void)unicode_append_valid(&whole, span_of(&s->held), true);
  return put_text(s->next, &whole);
}

static clave_status take_metaspace(stage *s, span token) {
  bool drops = s->count++ == 0 && s->rule->drops_first;
  text written = {0};
  for (size_t i = 0; i < token.size;) {
    uint32_t c;
    i += utf8_read(token.data + i, &c);
    if (c != s->rule->character) {
      unicode_append(&written, c);
    } else if (!drops) {
      text_append(&written, " ", 1);
    }
  }
  return put_text(s->next, &written);
}

/* Bytes of up to `most` of the rule's character at the start. */
static size_t leading(const rule *r, span in, size_t most, size_t *count) {
  size_t at = 0;
  for (*count = 0; *count < most && at < in.size; ++*count) {
    uint32_t c;
    size_t n = utf8_read(in.data + at, &c);
    if (c != r->character) break;
    at += n;
  }
  return at;
}

/* At the start only: nothing needs to be held back. */
static clave_status strip_start(stage *s, span bytes) {
  if (!s->flag) {
    size_t count, n = leading(s->rule, bytes, s->rule->start - s->count, &count);
    s->count += count;
    bytes = (span){bytes.data + n, bytes.size - n};
    s->flag = bytes.size > 0 || s->count == s->rule->start;
  }
  return put_part(s->next, bytes);
}

static clave_status end_stripped(stage *s) {
  s->count = 0;
  s->flag = false;
  return put_end(s->next);
}

static clave_status strip_both(stage *s, span token) {
  const rule *r = s->rule;
  size_t count, begin = leading(r, token, r->start, &count), end = token.size;
  for (size_t i = 0; i < r->stop && end > begin; i++) {
    if (unicode_before(token.data, end) != r->character) break;
    end -= utf8_size(r->character);
  }
  return put_token(s->next, (span){token.data + begin, end - begin});
}

static clave_status take_wordpiece(stage *s, span token) {
  const text *prefix = &s->rule->first;
  text word = {0};
  if (s->count++ > 0) {
    bool continues =
        token.size >= prefix->size && memcmp(token.data, prefix->data, prefix->size) == 0;
    if (continues) {
      token = (span){token.data + prefix->size, token.size - prefix->size};
    } else {
      text_append(&word, " ", 1);
    }
  }
  text_append(&word, token.data, token.size);
  clave_status st = s->rule->cleanup ? clean_up(&word) : NULL;
  if (!st) return put_text(s->next, &word);
  text_free(&word);
  return st;
}

/* The suffix is a blank, but in the last token nothing: the token before is held. */
static clave_status give_held(stage *s, const char *with) {
  text word = {0};
  hf_replace_text(span_of(&s->held), span_of(&s->rule->first), (span){with, strlen(with)}, &word);
  return put_text(s->next, &word);
}

static clave_status take_bpe(stage *s, span token) {
  if (s->flag) TRY(give_held(s, " "));
  s->flag = true;
  s->held.size = 0;
  text_append(&s->held, token.data, token.size);
  return text_status(&s->held);
}

static clave_status end_bpe(stage *s) { return s->flag ? give_held(s, "") : NULL; }

/* Equal neighbours are one; without padding. */
static clave_status take_ctc(stage *s, span token) {
  const rule *r = s->rule;
  bool again = s->flag && s->held.size == token.size &&
               (token.size == 0 || memcmp(s->held.data, token.data, token.size) == 0);
  if (again) return NULL;
  s->flag = true;
  s->held.size = 0;
  text_append(&s->held, token.data, token.size);
  TRY(text_status(&s->held));
  text word = {0}, spaced = {0};
  hf_replace_text(token, span_of(&r->first), (span){"", 0}, &word);
  if (!r->cleanup) return put_text(s->next, &word);
  clave_status st = clean_up(&word);
  if (!st) hf_replace_text(span_of(&word), span_of(&r->second), (span){" ", 1}, &spaced);
  text_free(&word);
  if (!st) return put_text(s->next, &spaced);
  text_free(&spaced);
  return st;
}

/* ---------------------------------------------------------------- readers */

static clave_status keep(text *t, span s) {
  text_append(t, s.data, s.size);
  return text_status(t);
}

static clave_status keep_field(const json *v, const char *key, const char *otherwise, text *t) {
  span s;
  TRY(field_text(v, key, otherwise, &s));
  return keep(t, s);
}

static clave_status read_replace(const json *v, rule *r) {
  hf_pattern p;
  TRY(hf_read_pattern(v, &p));
  TRY(keep_field(v, "content", NULL, &r->second));
  return p.is_literal ? keep(&r->first, p.source) : pattern_create(p.source, &r->pattern);
}

static const stage_kind strip_start_kind;

static clave_status read_strip(const json *v, rule *r) {
  TRY(field_character(v, "content", &r->character));
  TRY(field_index(v, "start", VOCAB_MAX, 0, &r->start));
  TRY(field_index(v, "stop", VOCAB_MAX, 0, &r->stop));
  if (r->stop == 0) r->kind = &strip_start_kind;
  return NULL;
}

static clave_status read_metaspace(const json *v, rule *r) {
  static const field_choice schemes[] = {{"always", 1}, {"first", 1}, {"never", 0}};
  int prepends;
  bool add;
  TRY(field_character(v, "replacement", &r->character));
  TRY(field_choose(v, "prepend_scheme", schemes, 3, 1, &prepends));
  TRY(field_bool(v, "add_prefix_space", true, &add));
  r->drops_first = prepends && add;
  return NULL;
}

static clave_status read_wordpiece(const json *v, rule *r) {
  TRY(field_bool(v, "cleanup", true, &r->cleanup));
  return keep_field(v, "prefix", "##", &r->first);
}

static clave_status read_bpe(const json *v, rule *r) {
  return keep_field(v, "suffix", "</w>", &r->first);
}

static clave_status read_ctc(const json *v, rule *r) {
  TRY(field_bool(v, "cleanup", true, &r->cleanup));
  TRY(keep_field(v, "pad_token", "<pad>", &r->first));
  return keep_field(v, "word_delimiter_token", "|", &r->second);
}

static const stage_kind bytes_kind = {.token = take_bytes, .finish = end_byte_level};
static const stage_kind join_kind = {.token = join_with_blank};
static const stage_kind strip_start_kind = {.part = strip_start, .end = end_stripped};
static const stage_kind kinds[] = {
    {.name = "ByteLevel", .token = take_byte_level, .finish = end_byte_level},
    {.name = "ByteFallback", .token = take_byte, .finish = end_bytes},
    {.name = "Fuse", .part = pass_part, .finish = end_fused},
    {.name = "Strip", .read = read_strip, .token = strip_both},
    {.name = "Replace", .read = read_replace, .token = replace_in},
    {.name = "Metaspace", .read = read_metaspace, .token = take_metaspace},
    {.name = "WordPiece", .read = read_wordpiece, .token = take_wordpiece},
    {.name = "BPEDecoder", .read = read_bpe, .token = take_bpe, .finish = end_bpe},
    {.name = "CTC", .read = read_ctc, .token = take_ctc}};

/* ---------------------------------------------------------------- the decoder */

enum { MAX_STAGES = 32 };

typedef struct hf_decoder {
  token_decoder base;
  const clave_tokenizer *tokenizer; /* borrowed, outlives us */
  rule rules[MAX_STAGES];
  size_t n_rules;
} hf_decoder;

typedef struct hf_decoding {
  decoding base;
  const clave_tokenizer *tokenizer;
  size_t n_stages;
  stage stages[MAX_STAGES + 1]; /* the last has no rule: it writes */
} hf_decoding;

static int compare_shown(const void *key, const void *entry) {
  uint32_t id = *(const uint32_t *)key, other = ((const shown_token *)entry)->id;
  return id < other ? -1 : id > other;
}

static span token_text(const clave_tokenizer *t, uint32_t id) {
  const shown_token *shown =
      t->n_shown > 0 ? bsearch(&id, t->shown, t->n_shown, sizeof *shown, compare_shown) : NULL;
  return shown ? shown->text : vocab_piece(t->vocab, id);
}

static clave_status next_id(decoding *base, uint32_t id, text *out) {
  hf_decoding *d = (hf_decoding *)(void *)base;
  d->stages[d->n_stages].out = out;
  return put_token(&d->stages[0], token_text(d->tokenizer, id));
}

static clave_status finish(decoding *base, text *out) {
  hf_decoding *d = (hf_decoding *)(void *)base;
  d->stages[d->n_stages].out = out;
  return put_finish(&d->stages[0]);
}

static void destroy_decoding(decoding *base) {
  hf_decoding *d = (hf_decoding *)(void *)base;
  for (size_t i = 0; i < d->n_stages; i++) {
    text_free(&d->stages[i].token);
    text_free(&d->stages[i].held);
  }
  free(d);
}

static clave_status begin(const token_decoder *base, decoding **out) {
  const hf_decoder *h = (const hf_decoder *)(const void *)base;
  hf_decoding *d = calloc(1, sizeof *d);
  *out = NULL;
  if (!d) return status_no_memory();
  d->base = (decoding){next_id, finish, destroy_decoding};
  d->tokenizer = h->tokenizer;
  d->n_stages = h->n_rules;
  for (size_t i = 0; i < h->n_rules; i++) {
    d->stages[i].rule = &h->rules[i];
    d->stages[i].next = &d->stages[i + 1];
  }
  *out = &d->base;
  return NULL;
}

static void destroy(token_decoder *base) {
  hf_decoder *d = (hf_decoder *)(void *)base;
  for (size_t i = 0; i < d->n_rules; i++) {
    text_free(&d->rules[i].first);
    text_free(&d->rules[i].second);
    pattern_destroy(d->rules[i].pattern);
  }
  free(d);
}

static clave_status read_at_depth(const json *v, int depth, hf_decoder *d);

static clave_status read_sequence(const json *v, int depth, hf_decoder *d) {
  const json *list;
  size_t at = 0;
  TRY(field(v, "decoders", JSON_ARRAY, &list));
  for (const json *p = json_first(list); p; p = json_next(p)) {
    TRY(status_while(read_at_depth(p, depth + 1, d), "\"decoders\" %zu", at++));
  }
  return NULL;
}

static clave_status read_at_depth(const json *v, int depth, hf_decoder *d) {
  size_t index;
  if (depth > HF_MAX_DEPTH) return UNSUPPORTED("sequences nested too deeply");
  if (hf_is(v, "Sequence")) return read_sequence(v, depth, d);
  TRY(hf_find(v, kinds, sizeof *kinds, sizeof kinds / sizeof *kinds, &index));
  if (d->n_rules == MAX_STAGES) return UNSUPPORTED("more than %d decoders", MAX_STAGES);
  rule *r = &d->rules[d->n_rules++];
  r->kind = &kinds[index];
  return r->kind->read ? status_while(kinds[index].read(v, r), "%s", kinds[index].name) : NULL;
}

clave_status hf_read_decoder(const json *v, const clave_tokenizer *t, token_decoder **out) {
  *out = NULL;
  if (t->byte_level && t->n_shown == 0) return byte_decoder_create(t->vocab, out);
  hf_decoder *d = calloc(1, sizeof *d);
  if (!d) return status_no_memory();
  d->base = (token_decoder){begin, destroy};
  d->tokenizer = t;
  clave_status st = NULL;
  if (t->byte_level) {
    d->rules[d->n_rules++].kind = &bytes_kind;
  } else if (!v || json_kind_of(v) == JSON_NULL) {
    d->rules[d->n_rules++].kind = &join_kind;
  } else {
    st = read_at_depth(v, 0, d);
  }
  if (st) {
    destroy(&d->base);
    return st;
  }
  *out = &d->base;
  return NULL;
}
