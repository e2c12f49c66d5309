/* The decoders of tokenizer.json: a chain of stages through which tokens flow. A token arrives in
 * chunks and then ends, so a stage that joins tokens (Fuse, ByteLevel) can pass on each chunk at
 * once. */
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
  clave_status (*read)(const json *json, rule *rule); /* NULL if there are no fields */
  /* A stage has either `token`, for whole tokens, or `chunk`, for chunks as they arrive, and `end`,
   * for the token's end (may be NULL). */
  clave_status (*token)(stage *stage, span token);
  clave_status (*chunk)(stage *stage, span bytes);
  clave_status (*end)(stage *stage);
  clave_status (*finish)(stage *stage); /* end of the text; may be NULL */
} stage_kind;

struct rule { /* a decoder as the file describes it */
  const stage_kind *kind;
  text first, second; /* owned: pattern, prefix or pad; content or delimiter */
  pattern *pattern;   /* owned: Replace with a regular expression */
  bool cleanup, drops_first;
  uint32_t start, stop; /* Strip */
  uint32_t character;   /* Strip and Metaspace */
};

struct stage { /* a rule applied to one text */
  const rule *rule;
  stage *next; /* owned by the chain; NULL for the last */
  text *out;   /* last stage only */
  text token, held;
  size_t count;
  bool flag;
};

/* ---------------------------------------------------------------- flow of tokens */

static clave_status put_chunk(stage *stage, span bytes) {
  if (!stage->rule) {
    text_append(stage->out, bytes.data, bytes.size);
    return text_status(stage->out);
  }
  if (stage->rule->kind->chunk) return stage->rule->kind->chunk(stage, bytes);
  text_append(&stage->token, bytes.data, bytes.size);
  return text_status(&stage->token);
}

static clave_status put_end(stage *stage) {
  if (!stage->rule) return NULL;
  const stage_kind *kind = stage->rule->kind;
  if (!kind->token) return kind->end ? kind->end(stage) : NULL;
  clave_status st =
      kind->token(stage, (span){stage->token.data ? stage->token.data : "", stage->token.size});
  stage->token.size = 0;
  return st;
}

static clave_status put_token(stage *stage, span token) {
  TRY(put_chunk(stage, token));
  return put_end(stage);
}

static clave_status put_finish(stage *stage) {
  if (!stage->rule) return NULL;
  if (stage->rule->kind->finish) TRY(stage->rule->kind->finish(stage));
  stage->token.size = stage->held.size = stage->count = 0;
  stage->flag = false;
  return put_finish(stage->next);
}

/* ---------------------------------------------------------------- helpers */

static span hf_decoder_span_of(const text *text) {
  return (span){text->data ? text->data : "", text->size};
}

/* Removes spaces that English text does not have, by one replacement after the other. */
static clave_status clean_up(text *words) {
  static const char *const rules[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                         {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                         {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                         {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    text replaced = {0};
    TRY(text_status(words));
    hf_replace_text(hf_decoder_span_of(words), (span){rules[i][0], strlen(rules[i][0])},
                    (span){rules[i][1], strlen(rules[i][1])}, &replaced);
    text_free(words);
    *words = replaced;
  }
  return text_status(words);
}

static clave_status hf_decoder_put_text(stage *stage, text *text) { /* frees the text */
  clave_status st = text_status(text);
  if (!st) st = put_token(stage, hf_decoder_span_of(text));
  text_free(text);
  return st;
}

/* ---------------------------------------------------------------- kinds of stages */

static clave_status join_with_blank(stage *stage, span token) {
  if (stage->count++ > 0) TRY(put_chunk(stage->next, (span){" ", 1}));
  return put_token(stage->next, token);
}

static clave_status replace_in(stage *stage, span token) {
  const rule *rule = stage->rule;
  text replaced = {0};
  clave_status st = NULL;
  if (rule->pattern) {
    st = pattern_replace(rule->pattern, token, hf_decoder_span_of(&rule->second), &replaced);
  } else {
    hf_replace_text(token, hf_decoder_span_of(&rule->first), hf_decoder_span_of(&rule->second),
                    &replaced);
  }
  if (!st) return hf_decoder_put_text(stage->next, &replaced);
  text_free(&replaced);
  return st;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static bool is_byte_token(span span, char *byte) {
  if (span.size != 6 || memcmp(span.data, "<0x", 3) != 0 || span.data[5] != '>') return false;
  int high = span.data[3] == '+' ? 0 : hex_digit(span.data[3]), low = hex_digit(span.data[4]);
  *byte = (char)(high * 16 + low);
  return high >= 0 && low >= 0;
}

/* Passes on a run of byte tokens as one token if it is UTF-8, else as U+FFFD for each byte. */
static clave_status end_bytes(stage *stage) {
  size_t n = stage->held.size;
  stage->held.size = 0;
  if (n == 0) return NULL;
  if (utf8_valid(stage->held.data, n)) return put_token(stage->next, (span){stage->held.data, n});
  for (size_t i = 0; i < n; i++) TRY(put_token(stage->next, (span){"\xEF\xBF\xBD", 3}));
  return NULL;
}

static clave_status take_byte(stage *stage, span token) {
  char byte;
  if (is_byte_token(token, &byte)) {
    text_append(&stage->held, &byte, 1);
    return text_status(&stage->held);
  }
  TRY(end_bytes(stage));
  return put_token(stage->next, token);
}

static clave_status pass_chunk(stage *stage, span bytes) { return put_chunk(stage->next, bytes); }
static clave_status end_fused(stage *stage) { return put_end(stage->next); }

/* Passes on complete characters as chunks of a single token. */
static clave_status hf_decoder_take_bytes(stage *stage, span token) {
  text whole = {0};
  text_append(&stage->held, token.data, token.size);
  TRY(text_status(&stage->held));
  size_t used = unicode_append_valid(&whole, hf_decoder_span_of(&stage->held), false);
  stage->held.size -= used;
  if (stage->held.size > 0) memmove(stage->held.data, stage->held.data + used, stage->held.size);
  clave_status st = text_status(&whole);
  if (!st) st = put_chunk(stage->next, hf_decoder_span_of(&whole));
  text_free(&whole);
  return st;
}

static clave_status take_byte_level(stage *stage, span token) {
  text bytes = {0};
  bool in_alphabet = byte_level_decode(token, &bytes);
  clave_status st = text_status(&bytes);
  if (!st) st = hf_decoder_take_bytes(stage, in_alphabet ? hf_decoder_span_of(&bytes) : token);
  text_free(&bytes);
  return st;
}

static clave_status end_byte_level(stage *stage) {
  text whole = {0};
  (void)unicode_append_valid(&whole, hf_decoder_span_of(&stage->held), true);
  return hf_decoder_put_text(stage->next, &whole);
}

static clave_status take_metaspace(stage *stage, span token) {
  bool drops = stage->count++ == 0 && stage->rule->drops_first;
  text written = {0};
  for (size_t i = 0; i < token.size;) {
    uint32_t c;
    i += utf8_read(token.data + i, &c);
    if (c != stage->rule->character) {
      unicode_append(&written, c);
    } else if (!drops) {
      text_append(&written, " ", 1);
    }
  }
  return hf_decoder_put_text(stage->next, &written);
}

/* Returns the bytes of up to `most` of the rule's character at the start, and their number. */
static size_t leading(const rule *rule, span in, size_t most, size_t *count) {
  size_t at = 0;
  for (*count = 0; *count < most && at < in.size; ++*count) {
    uint32_t c;
    size_t n = utf8_read(in.data + at, &c);
    if (c != rule->character) break;
    at += n;
  }
  return at;
}

/* Strips only at the start, so nothing needs to be held back. */
static clave_status strip_start(stage *stage, span bytes) {
  if (!stage->flag) {
    size_t count, n = leading(stage->rule, bytes, stage->rule->start - stage->count, &count);
    stage->count += count;
    bytes = (span){bytes.data + n, bytes.size - n};
    stage->flag = bytes.size > 0 || stage->count == stage->rule->start;
  }
  return put_chunk(stage->next, bytes);
}

static clave_status end_stripped(stage *stage) {
  stage->count = 0;
  stage->flag = false;
  return put_end(stage->next);
}

static clave_status strip_both(stage *stage, span token) {
  const rule *rule = stage->rule;
  size_t count, begin = leading(rule, token, rule->start, &count), end = token.size;
  for (size_t i = 0; i < rule->stop && end > begin; i++) {
    if (unicode_before(token.data, end) != rule->character) break;
    end -= utf8_size(rule->character);
  }
  return put_token(stage->next, (span){token.data + begin, end - begin});
}

static clave_status take_wordpiece(stage *stage, span token) {
  const text *prefix = &stage->rule->first;
  text word = {0};
  if (stage->count++ > 0) {
    bool continues =
        token.size >= prefix->size && memcmp(token.data, prefix->data, prefix->size) == 0;
    if (continues) {
      token = (span){token.data + prefix->size, token.size - prefix->size};
    } else {
      text_append(&word, " ", 1);
    }
  }
  text_append(&word, token.data, token.size);
  clave_status st = stage->rule->cleanup ? clean_up(&word) : NULL;
  if (!st) return hf_decoder_put_text(stage->next, &word);
  text_free(&word);
  return st;
}

/* Replaces the suffix by a space, except in the last token, where it is removed. So a token is
 * held until the next one comes. */
static clave_status emit_held(stage *stage, const char *with) {
  text word = {0};
  hf_replace_text(hf_decoder_span_of(&stage->held), hf_decoder_span_of(&stage->rule->first),
                  (span){with, strlen(with)}, &word);
  return hf_decoder_put_text(stage->next, &word);
}

static clave_status take_bpe(stage *stage, span token) {
  if (stage->flag) TRY(emit_held(stage, " "));
  stage->flag = true;
  stage->held.size = 0;
  text_append(&stage->held, token.data, token.size);
  return text_status(&stage->held);
}

static clave_status end_bpe(stage *stage) { return stage->flag ? emit_held(stage, "") : NULL; }

/* Drops repetitions of the last token, and padding. */
static clave_status take_ctc(stage *stage, span token) {
  const rule *rule = stage->rule;
  bool again = stage->flag && stage->held.size == token.size &&
               (token.size == 0 || memcmp(stage->held.data, token.data, token.size) == 0);
  if (again) return NULL;
  stage->flag = true;
  stage->held.size = 0;
  text_append(&stage->held, token.data, token.size);
  TRY(text_status(&stage->held));
  text word = {0}, spaced = {0};
  hf_replace_text(token, hf_decoder_span_of(&rule->first), (span){"", 0}, &word);
  if (!rule->cleanup) return hf_decoder_put_text(stage->next, &word);
  clave_status st = clean_up(&word);
  if (!st)
    hf_replace_text(hf_decoder_span_of(&word), hf_decoder_span_of(&rule->second), (span){" ", 1},
                    &spaced);
  text_free(&word);
  if (!st) return hf_decoder_put_text(stage->next, &spaced);
  text_free(&spaced);
  return st;
}

/* ---------------------------------------------------------------- readers */

static clave_status hf_decoder_keep(text *text, span span) {
  text_append(text, span.data, span.size);
  return text_status(text);
}

static clave_status keep_field(const json *json, const char *key, const char *otherwise,
                               text *text) {
  span span;
  TRY(field_text(json, key, otherwise, &span));
  return hf_decoder_keep(text, span);
}

static clave_status hf_decoder_read_replace(const json *json, rule *rule) {
  hf_pattern pattern;
  TRY(hf_read_pattern(json, &pattern));
  TRY(keep_field(json, "content", NULL, &rule->second));
  return pattern.is_literal ? hf_decoder_keep(&rule->first, pattern.source)
                            : pattern_create(pattern.source, &rule->pattern);
}

static const stage_kind strip_start_kind;

static clave_status hf_decoder_read_strip(const json *json, rule *rule) {
  TRY(field_character(json, "content", &rule->character));
  TRY(field_index(json, "start", VOCAB_MAX, 0, &rule->start));
  TRY(field_index(json, "stop", VOCAB_MAX, 0, &rule->stop));
  if (rule->stop == 0) rule->kind = &strip_start_kind;
  return NULL;
}

static clave_status hf_decoder_read_metaspace(const json *json, rule *rule) {
  static const field_choice schemes[] = {{"always", 1}, {"first", 1}, {"never", 0}};
  int prepends;
  bool add;
  TRY(field_character(json, "replacement", &rule->character));
  TRY(field_choose(json, "prepend_scheme", schemes, 3, 1, &prepends));
  TRY(field_bool(json, "add_prefix_space", true, &add));
  rule->drops_first = prepends && add;
  return NULL;
}

static clave_status hf_decoder_read_wordpiece(const json *json, rule *rule) {
  TRY(field_bool(json, "cleanup", true, &rule->cleanup));
  return keep_field(json, "prefix", "##", &rule->first);
}

static clave_status hf_decoder_read_bpe(const json *json, rule *rule) {
  return keep_field(json, "suffix", "</w>", &rule->first);
}

static clave_status read_ctc(const json *json, rule *rule) {
  TRY(field_bool(json, "cleanup", true, &rule->cleanup));
  TRY(keep_field(json, "pad_token", "<pad>", &rule->first));
  return keep_field(json, "word_delimiter_token", "|", &rule->second);
}

static const stage_kind bytes_kind = {.token = hf_decoder_take_bytes, .finish = end_byte_level};
static const stage_kind join_kind = {.token = join_with_blank};
static const stage_kind strip_start_kind = {.chunk = strip_start, .end = end_stripped};
static const stage_kind kinds[] = {
    {.name = "ByteLevel", .token = take_byte_level, .finish = end_byte_level},
    {.name = "ByteFallback", .token = take_byte, .finish = end_bytes},
    {.name = "Fuse", .chunk = pass_chunk, .finish = end_fused},
    {.name = "Strip", .read = hf_decoder_read_strip, .token = strip_both},
    {.name = "Replace", .read = hf_decoder_read_replace, .token = replace_in},
    {.name = "Metaspace", .read = hf_decoder_read_metaspace, .token = take_metaspace},
    {.name = "WordPiece", .read = hf_decoder_read_wordpiece, .token = take_wordpiece},
    {.name = "BPEDecoder", .read = hf_decoder_read_bpe, .token = take_bpe, .finish = end_bpe},
    {.name = "CTC", .read = read_ctc, .token = take_ctc}};

/* ---------------------------------------------------------------- the decoder */

enum { MAX_STAGES = 32 };

typedef struct hf_decoder {
  token_decoder base;
  const clave_tokenizer *tokenizer; /* borrowed; must outlive the decoder */
  rule rules[MAX_STAGES];
  size_t n_rules;
} hf_decoder;

typedef struct hf_decoding {
  decoding base;
  const clave_tokenizer *tokenizer;
  size_t n_stages;
  stage stages[MAX_STAGES + 1]; /* the last one has no rule; it appends to `out` */
} hf_decoding;

static int hf_decoder_compare_shown(const void *key, const void *entry) {
  uint32_t id = *(const uint32_t *)key, other = ((const shown_token *)entry)->id;
  return id < other ? -1 : id > other;
}

static span hf_decoder_token_text(const clave_tokenizer *tokenizer, uint32_t id) {
  const shown_token *shown = tokenizer->n_shown > 0
                                 ? bsearch(&id, tokenizer->shown, tokenizer->n_shown, sizeof *shown,
                                           hf_decoder_compare_shown)
                                 : NULL;
  return shown ? shown->text : vocab_piece(tokenizer->vocab, id);
}

static clave_status next_id(decoding *base, uint32_t id, text *out) {
  hf_decoding *state = (hf_decoding *)(void *)base;
  state->stages[state->n_stages].out = out;
  return put_token(&state->stages[0], hf_decoder_token_text(state->tokenizer, id));
}

static clave_status hf_decoder_finish(decoding *base, text *out) {
  hf_decoding *state = (hf_decoding *)(void *)base;
  state->stages[state->n_stages].out = out;
  return put_finish(&state->stages[0]);
}

static void hf_decoder_destroy_decoding(decoding *base) {
  hf_decoding *state = (hf_decoding *)(void *)base;
  for (size_t i = 0; i < state->n_stages; i++) {
    text_free(&state->stages[i].token);
    text_free(&state->stages[i].held);
  }
  free(state);
}

static clave_status hf_decoder_begin(const token_decoder *base, decoding **out) {
  const hf_decoder *decoder = (const hf_decoder *)(const void *)base;
  hf_decoding *state = calloc(1, sizeof *state);
  *out = NULL;
  if (!state) return status_no_memory();
  state->base = (decoding){next_id, hf_decoder_finish, hf_decoder_destroy_decoding};
  state->tokenizer = decoder->tokenizer;
  state->n_stages = decoder->n_rules;
  for (size_t i = 0; i < decoder->n_rules; i++) {
    state->stages[i].rule = &decoder->rules[i];
    state->stages[i].next = &state->stages[i + 1];
  }
  *out = &state->base;
  return NULL;
}

static void hf_decoder_destroy(token_decoder *base) {
  hf_decoder *decoder = (hf_decoder *)(void *)base;
  for (size_t i = 0; i < decoder->n_rules; i++) {
    text_free(&decoder->rules[i].first);
    text_free(&decoder->rules[i].second);
    pattern_destroy(decoder->rules[i].pattern);
  }
  free(decoder);
}

static clave_status hf_decoder_read_at_depth(const json *json, int depth, hf_decoder *decoder);

static clave_status hf_decoder_read_sequence(const json *value, int depth, hf_decoder *decoder) {
  const json *list;
  size_t at = 0;
  TRY(field(value, "decoders", JSON_ARRAY, &list));
  for (const json *p = json_first(list); p; p = json_next(p)) {
    TRY(status_while(hf_decoder_read_at_depth(p, depth + 1, decoder), "\"decoders\" %zu", at++));
  }
  return NULL;
}

static clave_status hf_decoder_read_at_depth(const json *json, int depth, hf_decoder *decoder) {
  size_t index;
  if (depth > HF_MAX_DEPTH) return UNSUPPORTED("sequences are nested too deeply");
  if (hf_is(json, "Sequence")) return hf_decoder_read_sequence(json, depth, decoder);
  TRY(hf_find(json, kinds, sizeof *kinds, sizeof kinds / sizeof *kinds, &index));
  if (decoder->n_rules == MAX_STAGES) return UNSUPPORTED("more than %d decoders", MAX_STAGES);
  rule *rule = &decoder->rules[decoder->n_rules++];
  rule->kind = &kinds[index];
  return rule->kind->read ? status_while(kinds[index].read(json, rule), "%s", kinds[index].name)
                          : NULL;
}

clave_status hf_read_decoder(const json *json, const clave_tokenizer *tokenizer,
                             token_decoder **out) {
  *out = NULL;
  if (tokenizer->byte_level && tokenizer->n_shown == 0)
    return byte_decoder_create(tokenizer->vocab, out);
  hf_decoder *decoder = calloc(1, sizeof *decoder);
  if (!decoder) return status_no_memory();
  decoder->base = (token_decoder){hf_decoder_begin, hf_decoder_destroy};
  decoder->tokenizer = tokenizer;
  clave_status st = NULL;
  if (tokenizer->byte_level) {
    decoder->rules[decoder->n_rules++].kind = &bytes_kind;
  } else if (!json || json_kind_of(json) == JSON_NULL) {
    decoder->rules[decoder->n_rules++].kind = &join_kind;
  } else {
    st = hf_decoder_read_at_depth(json, 0, decoder);
  }
  if (st) {
    hf_decoder_destroy(&decoder->base);
    return st;
  }
  *out = &decoder->base;
  return NULL;
}
