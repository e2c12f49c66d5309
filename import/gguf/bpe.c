/* Writes byte-level BPE as a tokenizer.json. The file names a pre-tokenizer, which selects how
 * texts are split. */
#include <string.h>

#include "import/gguf/vocabulary.h"

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define HEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define BY_WORDS(digits)                                        \
  "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define BY_CASE(digits, ending)                                                  \
  HEAD UPPER "*" LOWER "+" ending "|" HEAD UPPER "+" LOWER "*" ending "|" digits \
             "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES

/* How a text is split before BPE. */
typedef struct bpe_split {
  const char *name;
  const char *pattern; /* NULL: that of GPT-2 */
  bool digits;         /* splits off each digit first */
  bool whole;          /* a word that is a token is not split by merges */
  bool composed;       /* normalises texts to Unicode's NFC */
  bool adds_bos;       /* prompts begin with BOS by default */
} bpe_split;

#define LLAMA3 .pattern = BY_WORDS("\\p{N}{1,3}"), .whole = true, .adds_bos = true
static const bpe_split splits[] = {
    {.name = "gpt-2"},
    {.name = "llama-bpe", LLAMA3},
    {.name = "llama3", LLAMA3},
    {.name = "llama-v3", LLAMA3},
    {.name = "smaug-bpe", .pattern = BY_WORDS("\\p{N}{1,3}")},
    {.name = "dbrx", .pattern = BY_WORDS("\\p{N}{1,3}")},
    {.name = "qwen2", .pattern = BY_WORDS("\\p{N}"), .composed = true},
    {.name = "deepseek-r1-qwen", .pattern = BY_WORDS("\\p{N}")},
    {.name = "gpt-4o", .pattern = BY_CASE("\\p{N}{1,3}", "(?i:" CONTRACTIONS ")?")},
    {.name = "tekken", .pattern = BY_CASE("\\p{N}", ""), .whole = true, .adds_bos = true},
    {.name = "smollm", .digits = true},
    {.name = "starcoder", .digits = true},
    {.name = "refact", .digits = true},
    {.name = "command-r", .digits = true},
};
enum { N_SPLITS = sizeof splits / sizeof *splits };

static clave_status find_split(gguf_file *file, const bpe_split **out) {
  span name = {"default", 7};
  const char *known = "";
  TRY(gguf_read_text(file, GGUF_TOKENIZER "pre", &name));
  for (int i = 0; i < N_SPLITS; i++) {
    *out = &splits[i];
    if (span_is(name, splits[i].name)) return NULL;
    known = import_text(file->im, "%s%s%s", known, i ? ", " : "", splits[i].name);
  }
  return UNSUPPORTED("pre-tokenizer: expected one of %s, got %s; " GGUF_ANOTHER, known,
                     gguf_shown(file->im, name));
}

clave_status bpe_adds_bos(gguf_file *file, bool *adds) {
  const bpe_split *split;
  TRY(find_split(file, &split));
  *adds = split->adds_bos;
  return NULL;
}

/* ---------------------------------------------------------------- parts of the document */

static void put_byte_level(json_writer *out, const char *key, bool use_regex) {
  emit_object(out, key);
  emit_string(out, "type", "ByteLevel");
  emit_bool(out, "add_prefix_space", false);
  emit_bool(out, "trim_offsets", true);
  emit_bool(out, "use_regex", use_regex);
  emit_end_object(out);
}

static void put_plain_post_processor(json_writer *out, const char *key) {
  put_byte_level(out, key, false);
}

static void put_pre_tokenizer(json_writer *out, const bpe_split *split) {
  emit_object(out, "pre_tokenizer");
  emit_string(out, "type", "Sequence");
  emit_array(out, "pretokenizers");
  if (split->digits) {
    emit_object(out, NULL);
    emit_string(out, "type", "Digits");
    emit_bool(out, "individual_digits", true);
    emit_end_object(out);
  }
  if (split->pattern) {
    emit_object(out, NULL);
    emit_string(out, "type", "Split");
    emit_object(out, "pattern");
    emit_string(out, "Regex", split->pattern);
    emit_end_object(out);
    emit_string(out, "behavior", "Isolated");
    emit_bool(out, "invert", false);
    emit_end_object(out);
  }
  put_byte_level(out, NULL, !split->pattern);
  emit_end_array(out);
  emit_end_object(out);
}

static clave_status put_merges(json_writer *out, gguf_file *file) {
  const gguf_key *merges;
  span merge;
  TRY(gguf_need(file, GGUF_TOKENIZER "merges"));
  TRY(gguf_read_array(file, GGUF_TOKENIZER "merges", GGUF_TEXTS, -1, &merges));
  const uint8_t *at = merges->data;
  emit_array(out, "merges");
  for (uint64_t i = 0; i < merges->count; i++) {
    TRY(gguf_next_text(file, merges, i, &at, &merge));
    emit_text(out, NULL, merge.data, merge.size);
  }
  emit_end_array(out);
  return NULL;
}

static clave_status put_model(json_writer *out, const vocabulary *vocabulary,
                              const bpe_split *split) {
  emit_object(out, "model");
  emit_string(out, "type", "BPE");
  emit_bool(out, "ignore_merges", split->whole);
  tokenizer_json_vocabulary(out, vocabulary);
  TRY(put_merges(out, vocabulary->file));
  emit_end_object(out);
  return NULL;
}

clave_status bpe_write(const vocabulary *vocabulary, int64_t bos, text *out) {
  const bpe_split *split;
  json_writer json = {.out = out, .compact = true};
  TRY(find_split(vocabulary->file, &split));
  TRY(vocabulary_check_once(vocabulary));
  emit_object(&json, NULL);
  emit_string(&json, "version", "1.0");
  emit_array(&json, "added_tokens");
  for (int64_t i = 0; i < vocabulary->count; i++)
    if (vocabulary->types[i] >= TOKEN_UNKNOWN && vocabulary->types[i] <= TOKEN_USER)
      tokenizer_json_added(&json, vocabulary, i, false);
  emit_end_array(&json);
  if (split->composed) {
    emit_object(&json, "normalizer");
    emit_string(&json, "type", "NFC");
    emit_end_object(&json);
  }
  put_pre_tokenizer(&json, split);
  tokenizer_json_frame(&json, vocabulary, bos, put_plain_post_processor);
  put_byte_level(&json, "decoder", true);
  TRY(put_model(&json, vocabulary, split));
  emit_end_object(&json);
  return text_status(out);
}
