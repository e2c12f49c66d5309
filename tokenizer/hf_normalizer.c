/* tokenizer.json's normalizers. */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/hf.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

typedef struct hf_normalizer {
  normalizer base;
  void (*map)(span in, text *out); /* mappings only */
  unicode_form form;
  bool left, right;                      /* Strip */
  bool clean, han, strip_accents, lower; /* BertNormalizer */
  pattern *pattern;                      /* owned: Replace with a regular expression */
  text literal, content;                 /* owned: Replace and Prepend */
  charsmap *charsmap;                    /* owned: Precompiled */
  normalizer **children;                 /* owned: Sequence */
  size_t n_children;
} hf_normalizer;

typedef clave_status apply_fn(const normalizer *base, span in, bool first, text *out);

static const hf_normalizer *hf_normalizer_self_of(const normalizer *base) {
  return (const hf_normalizer *)(const void *)base;
}

static void hf_normalizer_destroy(normalizer *base) {
  hf_normalizer *self = (hf_normalizer *)(void *)base;
  pattern_destroy(self->pattern);
  text_free(&self->literal);
  text_free(&self->content);
  charsmap_destroy(self->charsmap);
  for (size_t i = 0; i < self->n_children; i++) {
    if (self->children[i]) self->children[i]->destroy(self->children[i]);
  }
  free(self->children);
  free(self);
}

/* ---------------------------------------------------------------- character by character */

typedef void map_fn(uint32_t c, text *out);

static void map_characters(span in, map_fn *map, text *out) {
  for (size_t i = 0; i < in.size;) {
    uint32_t c;
    i += utf8_read(in.data + i, &c);
    map(c, out);
  }
}

static void lower_one(uint32_t c, text *out) { unicode_append_lower(out, c); }
static void lowercase(span in, text *out) { map_characters(in, lower_one, out); }

static void drop_mark(uint32_t c, text *out) {
  if (!unicode_is_mark(c)) unicode_append(out, c);
}
static void strip_accents(span in, text *out) { map_characters(in, drop_mark, out); }

static void drop_nonspacing(uint32_t c, text *out) {
  if (!unicode_is_nonspacing(c)) unicode_append(out, c);
}

/* Cleans up text like Google's neural machine translation: drops control characters and replaces
 * characters that look like a space. */
static void clean_nmt(uint32_t c, text *out) {
  bool dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
                 c == 0x8F || c == 0x9F;
  bool blank = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
               (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
               c == 0xFEFF || c == 0xFFFD;
  if (!dropped) unicode_append(out, blank ? ' ' : c);
}
static void nmt(span in, text *out) { map_characters(in, clean_nmt, out); }

static clave_status apply_map(const normalizer *base, span in, bool first, text *out) {
  (void)first;
  hf_normalizer_self_of(base)->map(in, out);
  return text_status(out);
}

static clave_status apply_form(const normalizer *base, span in, bool first, text *out) {
  (void)first;
  return unicode_normalize(in, hf_normalizer_self_of(base)->form, out);
}

static clave_status apply_strip(const normalizer *base, span in, bool first, text *out) {
  const hf_normalizer *self = hf_normalizer_self_of(base);
  (void)first;
  size_t begin = self->left ? unicode_skip_space(in, 0) : 0;
  size_t end = self->right ? unicode_skip_space_before(in, in.size, begin) : in.size;
  text_append(out, in.data + begin, end - begin);
  return text_status(out);
}

static clave_status apply_prepend(const normalizer *base, span in, bool first, text *out) {
  (void)first;
  if (in.size > 0)
    text_append(out, hf_normalizer_self_of(base)->content.data,
                hf_normalizer_self_of(base)->content.size);
  text_append(out, in.data, in.size);
  return text_status(out);
}

/* ---------------------------------------------------------------- Replace */

static clave_status apply_replace(const normalizer *base, span in, bool first, text *out) {
  const hf_normalizer *self = hf_normalizer_self_of(base);
  span content = {self->content.data, self->content.size};
  (void)first;
  if (self->pattern) return pattern_replace(self->pattern, in, content, out);
  hf_replace_text(in, (span){self->literal.data, self->literal.size}, content, out);
  return text_status(out);
}

/* ---------------------------------------------------------------- BertNormalizer */

static bool is_han(uint32_t c) { /* BERT uses blocks, not the script */
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static void clean_one(const hf_normalizer *normalizer, uint32_t c, text *out) {
  if (normalizer->clean) {
    bool layout = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xFFFD || (!layout && unicode_is_other(c))) return;
    if (layout || unicode_is_space(c)) c = ' ';
  }
  bool spaced = normalizer->han && is_han(c);
  if (spaced) text_append(out, " ", 1);
  unicode_append(out, c);
  if (spaced) text_append(out, " ", 1);
}

static clave_status strip_bert_accents(text *words) {
  text decomposed = {0};
  clave_status st = unicode_normalize((span){words->data, words->size}, UNICODE_NFD, &decomposed);
  words->size = 0;
  if (!st) map_characters((span){decomposed.data, decomposed.size}, drop_nonspacing, words);
  text_free(&decomposed);
  return st ? st : text_status(words);
}

static clave_status apply_bert(const normalizer *base, span in, bool first, text *out) {
  const hf_normalizer *self = hf_normalizer_self_of(base);
  text cleaned = {0};
  (void)first;
  for (size_t i = 0; i < in.size;) {
    uint32_t c;
    i += utf8_read(in.data + i, &c);
    clean_one(self, c, &cleaned);
  }
  clave_status st = text_status(&cleaned);
  if (!st && self->strip_accents) st = strip_bert_accents(&cleaned);
  if (!st && self->lower) {
    lowercase((span){cleaned.data, cleaned.size}, out);
  } else if (!st) {
    text_append(out, cleaned.data, cleaned.size);
  }
  text_free(&cleaned);
  return st ? st : text_status(out);
}

/* ---------------------------------------------------------------- Precompiled */

/* As in the library, replaces a whole grapheme of less than 6 bytes by the text of the shortest
 * rule that applies at its start. Otherwise replaces character by character. */
static void replace_grapheme(const charsmap *charsmap, span in, text *out) {
  span replacement;
  if (in.size < 6 && charsmap_shortest(charsmap, in, &replacement) > 0) {
    text_append(out, replacement.data, replacement.size);
    return;
  }
  for (size_t i = 0; i < in.size;) {
    uint32_t code_point;
    span one = {in.data + i, utf8_read(in.data + i, &code_point)};
    i += one.size;
    if (charsmap_shortest(charsmap, one, &replacement) > 0) one = replacement;
    text_append(out, one.data, one.size);
  }
}

static clave_status apply_precompiled(const normalizer *base, span in, bool first, text *out) {
  (void)first;
  while (in.size > 0) {
    span grapheme = {in.data, unicode_grapheme(in)};
    replace_grapheme(hf_normalizer_self_of(base)->charsmap, grapheme, out);
    in = (span){in.data + grapheme.size, in.size - grapheme.size};
  }
  return text_status(out);
}

/* ---------------------------------------------------------------- Sequence */

static clave_status apply_sequence(const normalizer *base, span in, bool first, text *out) {
  const hf_normalizer *self = hf_normalizer_self_of(base);
  text texts[2] = {{0}, {0}};
  clave_status st = NULL;
  span now = in;
  for (size_t i = 0; i < self->n_children && !st; i++) {
    text *next = &texts[i % 2];
    next->size = 0;
    st = self->children[i]->apply(self->children[i], now, first, next);
    now = (span){next->data ? next->data : "", next->size};
  }
  if (!st) text_append(out, now.data, now.size);
  text_free(&texts[0]);
  text_free(&texts[1]);
  return st ? st : text_status(out);
}

/* ---------------------------------------------------------------- readers */

typedef clave_status read_fn(const json *json, int depth, hf_normalizer *normalizer);
typedef struct normalizer_type {
  const char *name;
  apply_fn *apply;
  read_fn *read; /* NULL if there are no fields */
  void (*map)(span in, text *out);
  unicode_form form;
} normalizer_type;

static clave_status hf_normalizer_read_at_depth(const json *json, int depth, normalizer **out);

static clave_status hf_normalizer_read_strip(const json *json, int depth,
                                             hf_normalizer *normalizer) {
  (void)depth;
  TRY(field_bool(json, "strip_left", true, &normalizer->left));
  return field_bool(json, "strip_right", true, &normalizer->right);
}

static clave_status hf_normalizer_read_bert(const json *json, int depth,
                                            hf_normalizer *normalizer) {
  (void)depth;
  TRY(field_bool(json, "clean_text", true, &normalizer->clean));
  TRY(field_bool(json, "handle_chinese_chars", true, &normalizer->han));
  TRY(field_bool(json, "lowercase", true, &normalizer->lower));
  return field_bool(json, "strip_accents", normalizer->lower, &normalizer->strip_accents);
}

static clave_status read_prepend(const json *json, int depth, hf_normalizer *normalizer) {
  span span;
  (void)depth;
  TRY(field_text(json, "prepend", NULL, &span));
  text_append(&normalizer->content, span.data, span.size);
  return text_status(&normalizer->content);
}

static clave_status hf_normalizer_read_replace(const json *json, int depth,
                                               hf_normalizer *normalizer) {
  hf_pattern pattern;
  span content;
  (void)depth;
  TRY(hf_read_pattern(json, &pattern));
  TRY(field_text(json, "content", NULL, &content));
  text_append(&normalizer->content, content.data, content.size);
  TRY(text_status(&normalizer->content));
  if (!pattern.is_literal) return pattern_create(pattern.source, &normalizer->pattern);
  text_append(&normalizer->literal, pattern.source.data, pattern.source.size);
  return text_status(&normalizer->literal);
}

static clave_status read_precompiled(const json *json, int depth, hf_normalizer *normalizer) {
  span encoded;
  text blob = {0};
  (void)depth;
  TRY(field_text(json, "precompiled_charsmap", NULL, &encoded));
  clave_status st = NULL;
  if (!base64_decode(encoded.data, encoded.size, &blob)) {
    st = INVALID("\"precompiled_charsmap\" is not base64");
  }
  if (!st) st = text_status(&blob);
  if (!st) st = charsmap_create((span){blob.data, blob.size}, &normalizer->charsmap);
  text_free(&blob);
  return st;
}

static clave_status hf_normalizer_read_sequence(const json *value, int depth,
                                                hf_normalizer *normalizer) {
  const json *list;
  TRY(field(value, "normalizers", JSON_ARRAY, &list));
  normalizer->children = calloc((size_t)json_count(list) + 1, sizeof *normalizer->children);
  if (!normalizer->children) return status_no_memory();
  for (const json *p = json_first(list); p; p = json_next(p)) {
    size_t i = normalizer->n_children++;
    TRY(status_while(hf_normalizer_read_at_depth(p, depth + 1, &normalizer->children[i]),
                     "\"normalizers\" %zu", i));
  }
  return NULL;
}

static const normalizer_type normalizer_types[] = {
    {"Sequence", apply_sequence, hf_normalizer_read_sequence, NULL, 0},
    {"NFC", apply_form, NULL, NULL, UNICODE_NFC},
    {"NFD", apply_form, NULL, NULL, UNICODE_NFD},
    {"NFKC", apply_form, NULL, NULL, UNICODE_NFKC},
    {"NFKD", apply_form, NULL, NULL, UNICODE_NFKD},
    {"Nmt", apply_map, NULL, nmt, 0},
    {"Lowercase", apply_map, NULL, lowercase, 0},
    {"StripAccents", apply_map, NULL, strip_accents, 0},
    {"ByteLevel", apply_map, NULL, byte_level_encode, 0},
    {"Strip", apply_strip, hf_normalizer_read_strip, NULL, 0},
    {"Replace", apply_replace, hf_normalizer_read_replace, NULL, 0},
    {"Prepend", apply_prepend, read_prepend, NULL, 0},
    {"BertNormalizer", apply_bert, hf_normalizer_read_bert, NULL, 0},
    {"Precompiled", apply_precompiled, read_precompiled, NULL, 0}};

static clave_status hf_normalizer_read_at_depth(const json *json, int depth, normalizer **out) {
  size_t index;
  if (depth > HF_MAX_DEPTH) return UNSUPPORTED("sequences are nested too deeply");
  TRY(hf_find(json, normalizer_types, sizeof *normalizer_types,
              sizeof normalizer_types / sizeof *normalizer_types, &index));
  const normalizer_type *type = &normalizer_types[index];
  hf_normalizer *made = calloc(1, sizeof *made);
  if (!made) return status_no_memory();
  made->base = (normalizer){type->apply, hf_normalizer_destroy};
  made->map = type->map;
  made->form = type->form;
  clave_status st =
      type->read ? status_while(type->read(json, depth, made), "%s", type->name) : NULL;
  if (st) {
    hf_normalizer_destroy(&made->base);
    return st;
  }
  *out = &made->base;
  return NULL;
}

clave_status hf_read_normalizer(const json *json, normalizer **out) {
  *out = NULL;
  return json && json_kind_of(json) != JSON_NULL ? hf_normalizer_read_at_depth(json, 0, out) : NULL;
}
