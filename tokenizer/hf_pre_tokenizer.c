/* tokenizer.json's pre-tokenizers. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/byte_level.h"
#include "tokenizer/hf.h"
#include "tokenizer/split.h"
#include "tokenizer/unicode.h"

typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

typedef struct hf_pre_tokenizer {
  pre_tokenizer base;
  pre_tokenizer *
      *children; /* owned: members of Sequence; the splitter of ByteLevel or Metaspace, if any */
  size_t n_children;
  bool add_space, to_characters; /* ByteLevel */
  prepend_scheme scheme;         /* Metaspace */
  text replacement;              /* owned: Metaspace */
  size_t length;                 /* FixedLength */
} hf_pre_tokenizer;

typedef clave_status split_fn(const pre_tokenizer *base, span in, bool first, pretoken_sink *to);

static const hf_pre_tokenizer *hf_pre_tokenizer_self_of(const pre_tokenizer *base) {
  return (const hf_pre_tokenizer *)(const void *)base;
}

static void hf_pre_tokenizer_destroy(pre_tokenizer *base) {
  hf_pre_tokenizer *splitter = (hf_pre_tokenizer *)(void *)base;
  for (size_t i = 0; i < splitter->n_children; i++) {
    if (splitter->children[i]) splitter->children[i]->destroy(splitter->children[i]);
  }
  free(splitter->children);
  text_free(&splitter->replacement);
  free(splitter);
}

/* ---------------------------------------------------------------- Sequence */

typedef struct chain_sink { /* passes pre-tokens to the children from `next` on */
  pretoken_sink base;
  const hf_pre_tokenizer *chain;
  size_t next;
  pretoken_sink *to;
} chain_sink;

static clave_status hf_pre_tokenizer_run_chain(const hf_pre_tokenizer *splitter, size_t at, span in,
                                               bool first, pretoken_sink *to);

static clave_status receive_chained(pretoken_sink *base, span pretoken, bool first) {
  const chain_sink *sink = (const chain_sink *)(const void *)base;
  return pretoken.size > 0
             ? hf_pre_tokenizer_run_chain(sink->chain, sink->next, pretoken, first, sink->to)
             : NULL;
}

static clave_status hf_pre_tokenizer_run_chain(const hf_pre_tokenizer *splitter, size_t at, span in,
                                               bool first, pretoken_sink *to) {
  if (at == splitter->n_children) return to->receive(to, in, first);
  const pre_tokenizer *child = splitter->children[at];
  if (at + 1 == splitter->n_children) return child->split(child, in, first, to);
  chain_sink sink = {.base = {receive_chained}, .chain = splitter, .next = at + 1, .to = to};
  return child->split(child, in, first, &sink.base);
}

static clave_status split_sequence(const pre_tokenizer *base, span in, bool first,
                                   pretoken_sink *to) {
  return hf_pre_tokenizer_run_chain(hf_pre_tokenizer_self_of(base), 0, in, first, to);
}

/* ---------------------------------------------------------------- ByteLevel */

typedef struct character_sink { /* converts bytes to characters */
  pretoken_sink base;
  pretoken_sink *to;
  text written;
} character_sink;

static clave_status hf_pre_tokenizer_receive_bytes(pretoken_sink *base, span pretoken, bool first) {
  character_sink *sink = (character_sink *)(void *)base;
  sink->written.size = 0;
  byte_level_encode(pretoken, &sink->written);
  TRY(text_status(&sink->written));
  return sink->to->receive(sink->to, (span){sink->written.data, sink->written.size}, first);
}

static clave_status split_spaced(const hf_pre_tokenizer *splitter, span in, bool first,
                                 pretoken_sink *to) {
  if (!splitter->to_characters) return hf_pre_tokenizer_run_chain(splitter, 0, in, first, to);
  character_sink sink = {.base = {hf_pre_tokenizer_receive_bytes}, .to = to};
  clave_status st = hf_pre_tokenizer_run_chain(splitter, 0, in, first, &sink.base);
  text_free(&sink.written);
  return st;
}

static clave_status split_byte_level(const pre_tokenizer *base, span in, bool first,
                                     pretoken_sink *to) {
  const hf_pre_tokenizer *splitter = hf_pre_tokenizer_self_of(base);
  if (!splitter->add_space || in.size == 0 || in.data[0] == ' ')
    return split_spaced(splitter, in, first, to);
  text spaced = {0};
  text_append(&spaced, " ", 1);
  text_append(&spaced, in.data, in.size);
  clave_status st = text_status(&spaced);
  if (!st) st = split_spaced(splitter, (span){spaced.data, spaced.size}, first, to);
  text_free(&spaced);
  return st;
}

/* ---------------------------------------------------------------- Metaspace */

static void write_metaspace(const hf_pre_tokenizer *splitter, span in, bool first, text *out) {
  span mark = {splitter->replacement.data, splitter->replacement.size};
  bool may_prepend =
      splitter->scheme == PREPEND_ALWAYS || (splitter->scheme == PREPEND_FIRST && first);
  bool has_one =
      in.data[0] == ' ' || (in.size >= mark.size && memcmp(in.data, mark.data, mark.size) == 0);
  if (may_prepend && !has_one) text_append(out, mark.data, mark.size);
  for (size_t at = 0;;) {
    const char *blank = memchr(in.data + at, ' ', in.size - at);
    size_t end = blank ? (size_t)(blank - in.data) : in.size;
    text_append(out, in.data + at, end - at);
    if (!blank) return;
    text_append(out, mark.data, mark.size);
    at = end + 1;
  }
}

static clave_status split_metaspace(const pre_tokenizer *base, span in, bool first,
                                    pretoken_sink *to) {
  const hf_pre_tokenizer *splitter = hf_pre_tokenizer_self_of(base);
  text written = {0};
  if (in.size == 0) return NULL;
  write_metaspace(splitter, in, first, &written);
  clave_status st = text_status(&written);
  if (!st)
    st = hf_pre_tokenizer_run_chain(splitter, 0, (span){written.data, written.size}, first, to);
  text_free(&written);
  return st;
}

/* ---------------------------------------------------------------- FixedLength */

static clave_status split_fixed(const pre_tokenizer *base, span in, bool first, pretoken_sink *to) {
  for (size_t at = 0; at < in.size;) {
    size_t begin = at;
    uint32_t c;
    for (size_t i = 0; i < hf_pre_tokenizer_self_of(base)->length && at < in.size; i++) {
      at += utf8_read(in.data + at, &c);
    }
    TRY(to->receive(to, (span){in.data + begin, at - begin}, first && begin == 0));
  }
  return NULL;
}

/* ---------------------------------------------------------------- readers */

static const field_choice behaviors[] = {{"Removed", SPLIT_REMOVED},
                                         {"Isolated", SPLIT_ISOLATED},
                                         {"MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS},
                                         {"MergedWithNext", SPLIT_MERGED_WITH_NEXT},
                                         {"Contiguous", SPLIT_CONTIGUOUS}};
static const field_choice schemes[] = {
    {"always", PREPEND_ALWAYS}, {"first", PREPEND_FIRST}, {"never", PREPEND_NEVER}};
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
/* The set \w of Rust's regex, which includes the joiners U+200C and U+200D. */
#define RUST_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
static const char word_pattern[] = "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+";

typedef struct context { /* position of a pre-tokenizer */
  bool byte_level;       /* the consumer of its pre-tokens expects bytes */
  int depth;
} context;

static clave_status read_in(const json *json, context context, pre_tokenizer **out);

static hf_pre_tokenizer *hf_pre_tokenizer_new(split_fn *split, size_t n_children) {
  hf_pre_tokenizer *splitter = calloc(1, sizeof *splitter);
  if (!splitter) return NULL;
  splitter->base = (pre_tokenizer){split, hf_pre_tokenizer_destroy};
  splitter->children = calloc(n_children + 1, sizeof *splitter->children);
  if (splitter->children) return splitter;
  free(splitter);
  return NULL;
}

static bool is_punctuation(uint32_t c) {
  bool ascii_symbol = c < 0x80 && c && strchr("$+<=>^`|~", (int)c);
  return ascii_symbol || unicode_is_punctuation(c);
}

static clave_status hf_pre_tokenizer_read_list(const json *list, context c,
                                               hf_pre_tokenizer *splitter) {
  for (const json *p = json_first(list); p; p = json_next(p)) {
    context inner = {c.byte_level && !json_next(p), c.depth + 1};
    TRY(status_while(read_in(p, inner, &splitter->children[splitter->n_children]),
                     "\"pretokenizers\" %zu", splitter->n_children));
    splitter->n_children++;
  }
  return NULL;
}

static clave_status hf_pre_tokenizer_read_sequence(const json *value, context context,
                                                   pre_tokenizer **out) {
  const json *list;
  TRY(field(value, "pretokenizers", JSON_ARRAY, &list));
  hf_pre_tokenizer *splitter = hf_pre_tokenizer_new(split_sequence, json_count(list));
  if (!splitter) return status_no_memory();
  *out = &splitter->base;
  return hf_pre_tokenizer_read_list(list, context, splitter);
}

static clave_status read_byte_level(const json *json, context context, pre_tokenizer **out) {
  bool regex;
  hf_pre_tokenizer *splitter = hf_pre_tokenizer_new(split_byte_level, 1);
  if (!splitter) return status_no_memory();
  *out = &splitter->base;
  splitter->to_characters = !context.byte_level;
  TRY(field_bool(json, "add_prefix_space", true, &splitter->add_space));
  TRY(field_bool(json, "use_regex", true, &regex));
  if (!regex) return NULL;
  span source = {gpt2_pattern, sizeof gpt2_pattern - 1};
  TRY(pattern_pre_tokenizer_create(source, SPLIT_ISOLATED, false, &splitter->children[0]));
  splitter->n_children = 1;
  return NULL;
}

/* Reads prepend_scheme. Older files have add_prefix_space, which must not contradict it. */
static clave_status read_scheme(const json *json, prepend_scheme *out) {
  int scheme;
  bool add;
  TRY(field_choose(json, "prepend_scheme", schemes, LENGTH(schemes), PREPEND_ALWAYS, &scheme));
  TRY(field_bool(json, "add_prefix_space", true, &add));
  if (!add && field_or_null(json, "prepend_scheme") && scheme != PREPEND_NEVER) {
    return INVALID("\"add_prefix_space\" is false, \"prepend_scheme\" is not \"never\"");
  }
  *out = add ? (prepend_scheme)scheme : PREPEND_NEVER;
  return NULL;
}

static clave_status hf_pre_tokenizer_read_metaspace(const json *json, context context,
                                                    pre_tokenizer **out) {
  bool splits;
  uint32_t replacement;
  hf_pre_tokenizer *splitter = hf_pre_tokenizer_new(split_metaspace, 1);
  (void)context;
  if (!splitter) return status_no_memory();
  *out = &splitter->base;
  TRY(field_character(json, "replacement", &replacement));
  unicode_append(&splitter->replacement, replacement);
  TRY(text_status(&splitter->replacement));
  TRY(read_scheme(json, &splitter->scheme));
  TRY(field_bool(json, "split", true, &splits));
  if (!splits) return NULL;
  span literal = {splitter->replacement.data, splitter->replacement.size};
  TRY(literal_pre_tokenizer_create(literal, SPLIT_MERGED_WITH_NEXT, false, &splitter->children[0]));
  splitter->n_children = 1;
  return NULL;
}

static clave_status read_split(const json *json, context context, pre_tokenizer **out) {
  hf_pattern pattern;
  int behavior;
  bool invert;
  (void)context;
  TRY(hf_read_pattern(json, &pattern));
  TRY(field_choose(json, "behavior", behaviors, LENGTH(behaviors), -1, &behavior));
  TRY(field_bool(json, "invert", false, &invert));
  return (pattern.is_literal ? literal_pre_tokenizer_create : pattern_pre_tokenizer_create)(
      pattern.source, (split_behavior)behavior, invert, out);
}

static clave_status hf_pre_tokenizer_read_digits(const json *json, context context,
                                                 pre_tokenizer **out) {
  bool individual;
  (void)context;
  TRY(field_bool(json, "individual_digits", false, &individual));
  return kind_pre_tokenizer_create(unicode_is_numeric,
                                   individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, out);
}

static clave_status read_punctuation(const json *json, context context, pre_tokenizer **out) {
  int behavior;
  (void)context;
  TRY(field_choose(json, "behavior", behaviors, LENGTH(behaviors), SPLIT_ISOLATED, &behavior));
  return kind_pre_tokenizer_create(is_punctuation, (split_behavior)behavior, out);
}

static clave_status read_whitespace(const json *json, context context, pre_tokenizer **out) {
  (void)json;
  (void)context;
  return pattern_pre_tokenizer_create((span){word_pattern, sizeof word_pattern - 1}, SPLIT_REMOVED,
                                      true, out);
}

static clave_status read_whitespace_split(const json *json, context context, pre_tokenizer **out) {
  (void)json;
  (void)context;
  return kind_pre_tokenizer_create(unicode_is_space, SPLIT_REMOVED, out);
}

static clave_status hf_pre_tokenizer_read_bert(const json *json, context context,
                                               pre_tokenizer **out) {
  (void)json;
  (void)context;
  hf_pre_tokenizer *splitter = hf_pre_tokenizer_new(split_sequence, 2);
  if (!splitter) return status_no_memory();
  *out = &splitter->base;
  splitter->n_children = 2;
  TRY(kind_pre_tokenizer_create(unicode_is_space, SPLIT_REMOVED, &splitter->children[0]));
  return kind_pre_tokenizer_create(is_punctuation, SPLIT_ISOLATED, &splitter->children[1]);
}

/* Scripts by their ISO 15924 codes. Hani with Hira and Kana, and Zyyy, are in the pattern itself.
 */
static const char scripts[] =
    "LatnCyrlGrekArabHebrDevaThaiHangZinhAdlmAghbAhomArmiArmnAvstBaliBamuBassBatkBengBhksBopoBrah"
    "BraiBugiBuhdCakmCansCariChamCherChrsCoptCpmnCprtDiakDogrDsrtDuplEgypElbaElymEthiGeorGlagGong"
    "GonmGothGranGujrGuruHanoHatrHluwHmngHmnpHungItalJavaKaliKharKhmrKhojKitsKndaKthiLanaLaooLepc"
    "LimbLinaLinbLisuLyciLydiMahjMakaMandManiMarcMedfMendMercMeroMlymModiMongMrooMteiMultMymrNand"
    "NarbNbatNewaNkooNshuOgamOlckOrkhOryaOsgeOsmaOugrPalmPaucPermPhagPhliPhlpPhnxPlrdPrtiRjngRohg"
    "RunrSamrSarbSaurSgnwShawShrdSiddSindSinhSogdSogoSoraSoyoSundSyloSyrcTagbTakrTaleTaluTamlTang"
    "TavtTeluTfngTglgThaaTibtTirhTnsaTotoUgarVaiiVithWaraWchoXpeoXsuxYeziYiiiZanb";
/* Spaces and characters without a script belong to the pre-token before them; at the start they are
 * dropped. */
#define NO_SCRIPT "[ \\p{Zzzz}]*+)++"

/* Splits into runs of one script. */
static clave_status read_scripts(const json *json, context context, pre_tokenizer **out) {
  text text = {0};
  (void)json;
  (void)context;
  text_printf(&text, "(?:[\\p{Hani}\\p{Hira}\\p{Kana}\\x{30fc}]" NO_SCRIPT
                     "|(?:(?![ \\x{30fc}])\\p{Zyyy}" NO_SCRIPT);
  for (const char *s = scripts; *s; s += 4) text_printf(&text, "|(?:\\p{%.4s}" NO_SCRIPT, s);
  clave_status st = text_status(&text);
  if (!st)
    st = pattern_pre_tokenizer_create((span){text.data, text.size}, SPLIT_REMOVED, true, out);
  text_free(&text);
  return st;
}

static clave_status read_delimiter(const json *json, context context, pre_tokenizer **out) {
  uint32_t delimiter;
  text literal = {0};
  (void)context;
  TRY(field_character(json, "delimiter", &delimiter));
  unicode_append(&literal, delimiter);
  clave_status st = text_status(&literal);
  if (!st) {
    st =
        literal_pre_tokenizer_create((span){literal.data, literal.size}, SPLIT_REMOVED, false, out);
  }
  text_free(&literal);
  return st;
}

static clave_status read_fixed_length(const json *json, context context, pre_tokenizer **out) {
  uint32_t length;
  (void)context;
  TRY(field_index(json, "length", VOCAB_MAX, 5, &length));
  if (length == 0) return INVALID("\"length\": expected at least 1, got 0");
  hf_pre_tokenizer *splitter = hf_pre_tokenizer_new(split_fixed, 0);
  if (!splitter) return status_no_memory();
  splitter->length = length;
  *out = &splitter->base;
  return NULL;
}

typedef struct pre_tokenizer_type {
  const char *name;
  clave_status (*read)(const json *json, context context,
                       pre_tokenizer **out); /* on errors the caller destroys *out */
} pre_tokenizer_type;
static const pre_tokenizer_type pre_tokenizer_types[] = {
    {"Sequence", hf_pre_tokenizer_read_sequence},
    {"ByteLevel", read_byte_level},
    {"Metaspace", hf_pre_tokenizer_read_metaspace},
    {"Split", read_split},
    {"Digits", hf_pre_tokenizer_read_digits},
    {"Punctuation", read_punctuation},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"BertPreTokenizer", hf_pre_tokenizer_read_bert},
    {"CharDelimiterSplit", read_delimiter},
    {"FixedLength", read_fixed_length},
    {"UnicodeScripts", read_scripts}};

static clave_status read_in(const json *json, context context, pre_tokenizer **out) {
  size_t index;
  *out = NULL;
  if (context.depth > HF_MAX_DEPTH) return UNSUPPORTED("sequences are nested too deeply");
  TRY(hf_find(json, pre_tokenizer_types, sizeof *pre_tokenizer_types, LENGTH(pre_tokenizer_types),
              &index));
  clave_status st = status_while(pre_tokenizer_types[index].read(json, context, out), "%s",
                                 pre_tokenizer_types[index].name);
  if (st && *out) {
    (*out)->destroy(*out);
    *out = NULL;
  }
  return st;
}

clave_status hf_read_pre_tokenizer(const json *json, bool byte_level, pre_tokenizer **out) {
  *out = NULL;
  if (!json || json_kind_of(json) == JSON_NULL) return NULL;
  return read_in(json, (context){byte_level, 0}, out);
}
