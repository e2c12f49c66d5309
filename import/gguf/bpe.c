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

#define GPT2 CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define HAN "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define CODER_HAN "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define ASCII_PUNCTUATION "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define BY_SYMBOLS                                        \
  ASCII_PUNCTUATION                                       \
  "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+" \
  "| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES
#define BY_SENTENCES \
  " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"

enum { MAX_PATTERNS = 5 };
/* How a text is split before BPE: by each pattern in turn, which isolates its matches. */
typedef struct bpe_split {
  const char *name;
  const char *patterns[MAX_PATTERNS]; /* none: that of GPT-2 */
  bool digits;                        /* splits off each digit first */
  bool whole;                         /* a word that is a token is not split by merges */
  bool composed;                      /* normalizes texts to Unicode's NFC */
  bool adds_bos;                      /* prompts begin with BOS by default */
} bpe_split;

#define LLAMA3 .patterns = {BY_WORDS("\\p{N}{1,3}")}, .whole = true, .adds_bos = true
#define QWEN2 .patterns = {BY_WORDS("\\p{N}")}
#define GPT4O .patterns = {BY_CASE("\\p{N}{1,3}", "(?i:" CONTRACTIONS ")?")}
#define GLM4 .patterns = {BY_WORDS("\\p{N}{1,3}")}
#define DEEPSEEK3 .patterns = {"\\p{N}{1,3}", HAN, BY_SYMBOLS}
#define BAILING                                                     \
  .patterns = {                                                     \
      "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}" \
      "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}
static const bpe_split splits[] = {
    {.name = "gpt-2"},
    {.name = "llama-bpe", LLAMA3},
    {.name = "llama3", LLAMA3},
    {.name = "llama-v3", LLAMA3},
    {.name = "falcon3", LLAMA3},
    {.name = "falcon-h1", LLAMA3},
    {.name = "pixtral", LLAMA3},
    {.name = "midm-2.0", LLAMA3},
    {.name = "lfm2", LLAMA3},
    {.name = "smaug-bpe", GLM4},
    {.name = "dbrx", GLM4},
    {.name = "chatglm-bpe", GLM4},
    {.name = "glm4", GLM4, .whole = true},
    {.name = "glm5", GLM4, .whole = true},
    {.name = "qwen2", QWEN2, .composed = true},
    {.name = "megrez", QWEN2, .composed = true},
    {.name = "deepseek-r1-qwen", QWEN2},
    {.name = "stablelm2", QWEN2},
    {.name = "hunyuan", QWEN2},
    {.name = "solar-open", QWEN2},
    {.name = "kormo", QWEN2},
    {.name = "grok-2", QWEN2},
    {.name = "qwen35",
     .patterns = {"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES},
     .composed = true},
    {.name = "gpt-4o", GPT4O},
    {.name = "llama4", GPT4O},
    {.name = "kanana2", GPT4O},
    {.name = "minimax-m2", GPT4O},
    {.name = "tekken", .patterns = {BY_CASE("\\p{N}", "")}, .whole = true, .adds_bos = true},
    {.name = "smollm", .digits = true},
    {.name = "starcoder", .digits = true},
    {.name = "refact", .digits = true},
    {.name = "command-r", .digits = true},
    {.name = "codeshell", .digits = true},
    {.name = "exaone", .digits = true},
    {.name = "minerva-7b", .digits = true},
    {.name = "phi-2"},
    {.name = "mpt"},
    {.name = "olmo"},
    {.name = "jais"},
    {.name = "exaone4"},
    {.name = "gigachat"},
    {.name = "a.x-4.0"},
    {.name = "mellum"},
    {.name = "trillion"},
    {.name = "granite-docling"},
    {.name = "falcon", .patterns = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.name = "deepseek-coder",
     .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CODER_HAN, "\\p{N}"}},
    {.name = "deepseek-v3", DEEPSEEK3},
    {.name = "hunyuan-dense", DEEPSEEK3},
    {.name = "joyai-llm", DEEPSEEK3},
    {.name = "bloom", .patterns = {BY_SENTENCES}},
    {.name = "poro-chat", .patterns = {BY_SENTENCES}},
    {.name = "gpt3-finnish", .patterns = {BY_SENTENCES}},
    {.name = "viking", .patterns = {BY_SENTENCES, "\\p{N}"}},
    {.name = "bailingmoe", BAILING},
    {.name = "bailingmoe2", BAILING},
    {.name = "llada-moe", BAILING},
    {.name = "seed-coder",
     .patterns = {"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}"
                  "| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES}},
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
  for (int i = 0; i < MAX_PATTERNS && split->patterns[i]; i++) {
    emit_object(out, NULL);
    emit_string(out, "type", "Split");
    emit_object(out, "pattern");
    emit_string(out, "Regex", split->patterns[i]);
    emit_end_object(out);
    emit_string(out, "behavior", "Isolated");
    emit_bool(out, "invert", false);
    emit_end_object(out);
  }
  put_byte_level(out, NULL, !split->patterns[0]);
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
