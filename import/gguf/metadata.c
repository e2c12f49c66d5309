/* The tokenizer and the metadata of a program. */
#include "import/gguf/metadata.h"

#include <string.h>

#include "base/message_ends.h"
#include "import/gguf/vocabulary.h"

/* The properties of a program's language model. */
typedef struct description {
  int64_t n_vocab, max_context;
  bool has_tokenizer;           /* another tokenizer replaces the file's */
  bool has_bos;                 /* false: the other tokenizer determines it */
  int64_t bos;                  /* -1: none */
  const vocabulary *vocabulary; /* NULL: none, or not needed */
} description;

/* ---------------------------------------------------------------- tokenizer */

/* Sets *adds to true if prompts begin with BOS by default, according to the kind of vocabulary. */
static clave_status read_adds_bos(gguf_file *file, bool *adds) {
  span kind = {"none", 4};
  TRY(gguf_read_text(file, GGUF_TOKENIZER "model", &kind));
  *adds = span_is(kind, "llama");
  return span_is(kind, "gpt2") ? bpe_adds_bos(file, adds) : NULL;
}

/* Reads the token with which a prompt begins. */
static clave_status read_bos_id(gguf_file *file, description *description) {
  const char *key = GGUF_TOKENIZER "add_bos_token";
  bool adds = false;
  if (!description->has_tokenizer) TRY(read_adds_bos(file, &adds));
  TRY(gguf_read_flag(file, key, &adds));
  TRY(vocabulary_read_id(file, "bos", description->n_vocab, &description->bos));
  description->has_bos =
      !description->has_tokenizer || (gguf_has(file, key) && (!adds || description->bos >= 0));
  if (!adds) description->bos = -1;
  return NULL;
}

static clave_status metadata_write_tokenizer(gguf_file *file, const description *description,
                                             text *out) {
  const vocabulary *vocabulary = description->vocabulary;
  span kind = {"none", 4};
  TRY(gguf_read_text(file, GGUF_TOKENIZER "model", &kind));
  if (span_is(kind, "none") || span_is(kind, "no_vocab")) return NULL;
  const bool is_pieces = span_is(kind, "llama");
  if (!is_pieces && !span_is(kind, "gpt2"))
    return UNSUPPORTED("tokenizer: expected one of llama, gpt2, got %s; " GGUF_ANOTHER,
                       gguf_shown(file->im, kind));
  if (!vocabulary) return gguf_need(file, GGUF_TOKENIZER "tokens");
  return is_pieces ? pieces_write(vocabulary, description->bos, out)
                   : bpe_write(vocabulary, description->bos, out);
}

/* ---------------------------------------------------------------- metadata */

enum { MAX_STOP_IDS = 64 };
typedef struct id_list {
  int64_t ids[MAX_STOP_IDS];
  int count;
} id_list;

static void add_end(id_list *list, int64_t id) {
  for (int i = 0; i < list->count; i++)
    if (list->ids[i] == id) return;
  if (id >= 0 && list->count < MAX_STOP_IDS) list->ids[list->count++] = id;
}

/* Adds the tokens that end a message, whatever the keys say. */
static void add_message_ends(const vocabulary *vocabulary, int64_t n_vocab, id_list *out) {
  int64_t ids[N_MESSAGE_ENDS];
  for (int i = 0; i < N_MESSAGE_ENDS; i++) ids[i] = -1;
  for (int64_t id = 0; id < n_vocab; id++) {
    const token_type type = vocabulary->types[id];
    if (type != TOKEN_CONTROL && type != TOKEN_USER) continue;
    for (int i = 0; i < N_MESSAGE_ENDS; i++)
      if (span_is(vocabulary->tokens[id], message_ends[i])) ids[i] = id;
  }
  message_ends_select(ids);
  for (int i = 0; i < N_MESSAGE_ENDS; i++) add_end(out, ids[i]);
}

/* Reads the ids that end an answer: those that keys name, and ends of messages. *eos: the first
 * key's; -1: none. */
static clave_status read_stop_ids(gguf_file *file, int64_t n_vocab, const vocabulary *vocabulary,
                                  int64_t *eos, id_list *out) {
  static const char *const keys[] = {"eos", "eot", "eom"};
  int64_t id;
  out->count = 0;
  for (int i = 0; i < 3; i++) {
    TRY(vocabulary_read_id(file, keys[i], n_vocab, &id));
    if (i == 0) *eos = id;
    add_end(out, id);
  }
  if (vocabulary) add_message_ends(vocabulary, n_vocab, out);
  return NULL;
}

/* Writes a text that no result depends on, if the file has it. */
static void put_note(json_writer *out, const char *key, gguf_file *file, const char *name) {
  span found = {NULL, 0};
  clave_status st = gguf_read_text(file, name, &found);
  if (!st && found.size) emit_text(out, key, found.data, found.size);
  status_free(st);
}

static clave_status put_tokens(json_writer *out, gguf_file *file, const description *description) {
  int64_t eos;
  id_list ends;
  span template = {NULL, 0};
  TRY(read_stop_ids(file, description->n_vocab, description->vocabulary, &eos, &ends));
  TRY(gguf_read_text(file, "tokenizer.chat_template", &template));
  if (description->has_bos) emit_id(out, "bos", description->bos);
  if (eos >= 0) emit_integer(out, "eos", eos);
  emit_list(out, "stop_ids");
  for (int i = 0; i < ends.count; i++) emit_integer(out, NULL, ends.ids[i]);
  emit_end_array(out);
  if (template.data) emit_text(out, "chat_template", template.data, template.size);
  return NULL;
}

static clave_status metadata_write(gguf_file *file, const description *description, text *out) {
  json_writer json = {.out = out, .compact = true};
  emit_object(&json, NULL);
  emit_object(&json, "llm");
  emit_integer(&json, "max_context", description->max_context);
  TRY(put_tokens(&json, file, description));
  put_note(&json, "license", file, "general.license");
  emit_object(&json, "source");
  put_note(&json, "name", file, "general.name");
  put_note(&json, "architecture", file, "general.architecture");
  emit_end_object(&json);
  emit_end_object(&json);
  emit_end_object(&json);
  return text_status(out);
}

clave_status gguf_describe(gguf_file *file, int64_t n_vocab, int64_t max_context,
                           bool has_tokenizer) {
  vocabulary vocabulary;
  text metadata = {0};
  description found = {
      .n_vocab = n_vocab, .max_context = max_context, .has_tokenizer = has_tokenizer};
  if (!has_tokenizer && gguf_has(file, GGUF_TOKENIZER "tokens")) {
    TRY(vocabulary_read(file, n_vocab, &vocabulary));
    found.vocabulary = &vocabulary;
  }
  TRY(read_bos_id(file, &found));
  if (!has_tokenizer) TRY(metadata_write_tokenizer(file, &found, &file->im->tokenizer));
  clave_status st = metadata_write(file, &found, &metadata);
  if (!st) clave_builder_metadata(file->im->builder, metadata.data);
  text_free(&metadata);
  return st;
}
