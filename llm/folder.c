/* Imports a folder of a language model in ONNX, as onnxruntime-genai and transformers.js read it:
 * its graph, tokenizer and settings. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/float_env.h"
#include "base/message_ends.h"
#include "clave_llm.h"
#include "json/fields.h"
#include "json/writer.h"
#include "llm/language_model.h"

typedef struct model_folder {
  char *path;       /* owned: the folder of the configuration */
  char *model;      /* owned: the graph's file */
  json *genai;      /* owned: genai_config.json; NULL if absent */
  json *config;     /* owned: config.json; NULL if absent */
  json *generation; /* owned: generation_config.json; NULL if absent */
  json *tokenizer;  /* owned: tokenizer_config.json; NULL if absent */
} model_folder;

/* ---------------------------------------------------------------- files */

/* Reads a file of the folder as JSON; *out stays NULL if the file does not exist. */
static clave_status read_config(const char *folder, const char *name, json **out) {
  file_map file;
  char *path = path_join(folder, name);
  if (!path) return status_no_memory();
  clave_status st = NULL;
  if (file_exists(path)) {
    st = file_map_open(path, &file);
    if (!st) {
      st = json_parse((const char *)file.data, file.size, out);
      if (!st) st = json_expect(*out, JSON_OBJECT);
      file_map_close(&file);
    }
  }
  st = status_while(st, "%s", path);
  free(path);
  return st;
}

static bool has_file(const char *folder, const char *name) {
  char *path = path_join(folder, name);
  const bool has = path && file_exists(path);
  free(path);
  return has;
}

/* True if the folder, whose path may end in a separator, is called "onnx". */
static bool is_named_onnx(const char *folder) {
  size_t n = strlen(folder);
  while (n > 0 && folder[n - 1] == '/') n--;
  return n >= 4 && memcmp(folder + n - 4, "onnx", 4) == 0 && (n == 4 || folder[n - 5] == '/');
}

/* Sets *path to the folder with the configuration of a graph: its own, or the one around it if its
 * name is "onnx". */
static clave_status find_folder(const char *model, char **path) {
  char *own = path_folder(model), *outer = own ? path_join(own, "..") : NULL;
  if (!own || !outer) {
    free(own);
    return status_no_memory();
  }
  const bool is_inner = !has_file(own, "genai_config.json") && !has_file(own, "config.json") &&
                        is_named_onnx(own) && has_file(outer, "config.json");
  *path = is_inner ? outer : own;
  free(is_inner ? own : outer);
  return NULL;
}

/* The graphs in a folder. */
typedef struct graph_list {
  text names;
  char *last; /* owned: path of the last one */
  size_t count;
} graph_list;

static clave_status list_graphs(const char *folder, graph_list *graphs) {
  folder_entry *entries;
  size_t count;
  TRY(folder_list(folder, &entries, &count));
  for (size_t i = 0; i < count; i++) {
    if (!path_has_ending(entries[i].name, ".onnx")) continue;
    text_printf(&graphs->names, "%s%s", graphs->count++ ? ", " : "", entries[i].name);
    free(graphs->last);
    graphs->last = path_join(folder, entries[i].name);
  }
  folder_list_free(entries, count);
  return text_status(&graphs->names);
}

/* Finds the only graph in the folder or its folder "onnx". */
static clave_status find_only_graph(const char *folder, char **out) {
  graph_list graphs = {0};
  char *inner = path_join(folder, "onnx");
  clave_status st = inner ? list_graphs(folder, &graphs) : status_no_memory();
  if (!st && folder_exists(inner)) st = list_graphs(inner, &graphs);
  if (!st && graphs.count == 0)
    st = INVALID(
        "%s: the folder has no .onnx file; python -m clave.llm.export converts a Hugging Face "
        "model folder",
        folder);
  else if (!st && graphs.count > 1)
    st = INVALID("%s: the folder has %zu graphs; name the path of one: %s", folder, graphs.count,
                 graphs.names.data);
  if (!st && !graphs.last) st = status_no_memory();
  *out = graphs.last;
  text_free(&graphs.names);
  free(inner);
  return st;
}

static clave_status find_graph(const model_folder *folder, char **out) {
  static const char *const usual[] = {"model.onnx", "onnx/model.onnx", "decoder_model_merged.onnx",
                                      "onnx/decoder_model_merged.onnx"};
  const json *model = field_or_null(folder->genai, "model");
  const char *name = text_or_null(field_or_null(model, "decoder"), "filename");
  const bool is_given = name != NULL;
  for (size_t i = 0; i < sizeof usual / sizeof *usual && !name; i++)
    if (has_file(folder->path, usual[i])) name = usual[i];
  if (!name) return find_only_graph(folder->path, out);
  *out = path_join(folder->path, name);
  if (!*out) return status_no_memory();
  if (is_given && !file_is_below(*out, folder->path))
    return INVALID("%s: genai_config.json names a file outside of its folder", folder->path);
  return folder_exists(*out) ? INVALID("%s: expected a file, got a folder", *out) : NULL;
}

/* path: a folder, or a graph in it or in its folder "onnx". */
static clave_status model_folder_open(const char *path, model_folder *out) {
  const bool is_folder = folder_exists(path);
  *out = (model_folder){0};
  if (is_folder) {
    out->path = strdup(path);
  } else {
    out->model = strdup(path);
    TRY(find_folder(path, &out->path));
  }
  if (!out->path || (!is_folder && !out->model)) return status_no_memory();
  TRY(read_config(out->path, "genai_config.json", &out->genai));
  TRY(read_config(out->path, "config.json", &out->config));
  TRY(read_config(out->path, "generation_config.json", &out->generation));
  TRY(read_config(out->path, "tokenizer_config.json", &out->tokenizer));
  return out->model ? NULL : find_graph(out, &out->model);
}

static void model_folder_close(model_folder *folder) {
  free(folder->path);
  free(folder->model);
  json_free(folder->genai);
  json_free(folder->config);
  json_free(folder->generation);
  json_free(folder->tokenizer);
  *folder = (model_folder){0};
}

/* ---------------------------------------------------------------- settings */

/* True if the field is a number of tokens; tokenizers write 1e30 for "no limit". */
static bool read_context(const json *object, const char *key, int64_t *out) {
  const json *found = field_or_null(object, key);
  return found && json_i64(found, out) && *out > 1 && *out <= INT32_MAX;
}

/* The longest text, in tokens. */
static clave_status model_folder_context(const model_folder *folder, int64_t *out) {
  static const char *const keys[] = {"max_position_embeddings", "n_positions", "max_seq_len",
                                     "seq_length", "n_ctx"};
  const json *text = field_or_null(folder->config, "text_config"),
             *config = text ? text : folder->config;
  if (read_context(field_or_null(folder->genai, "model"), "context_length", out)) return NULL;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (read_context(config, keys[i], out) || read_context(folder->config, keys[i], out))
      return NULL;
  if (read_context(folder->tokenizer, "model_max_length", out)) return NULL; /* ALiBi */
  return INVALID(
      "%s: neither genai_config.json nor config.json has the length of the context "
      "(max_position_embeddings)",
      folder->path);
}

/* The ids that end an answer, from the first file that has any; NULL: none has. */
static const json *ends_of(const model_folder *folder) {
  const json *ends = field_or_null(field_or_null(folder->genai, "model"), "eos_token_id");
  if (!ends) ends = field_or_null(folder->generation, "eos_token_id");
  if (!ends) ends = field_or_null(folder->config, "eos_token_id");
  return ends;
}

/* Writes the ends of messages that the chat template writes. */
static void write_message_ends(const clave_tokenizer *tokenizer, const char *template,
                               json_writer *out) {
  int64_t ids[N_MESSAGE_ENDS];
  for (int i = 0; i < N_MESSAGE_ENDS; i++)
    ids[i] = clave_tokenizer_find(tokenizer, message_ends[i]);
  message_ends_select(ids);
  for (int i = 0; i < N_MESSAGE_ENDS; i++)
    if (ids[i] >= 0 && strstr(template, message_ends[i])) emit_integer(out, NULL, ids[i]);
}

/* Writes the ids that end an answer: those of the folder, and the ends of messages that the chat
 * template writes. An id may occur twice. */
static void write_stop_ids(const model_folder *folder, const clave_tokenizer *tokenizer,
                           const char *template, int32_t eos, json_writer *out) {
  const json *ends = ends_of(folder);
  int64_t id;
  emit_list(out, "stop_ids");
  if (ends && json_i64(ends, &id) && id >= 0) emit_integer(out, NULL, id);
  for (const json *i = ends && json_kind_of(ends) == JSON_ARRAY ? json_first(ends) : NULL; i;
       i = json_next(i))
    if (json_i64(i, &id) && id >= 0) emit_integer(out, NULL, id);
  if (eos >= 0) emit_integer(out, NULL, eos);
  if (template && tokenizer) write_message_ends(tokenizer, template, out);
  emit_end_array(out);
}

static void llm_folder_write_sampling(const model_folder *folder, json_writer *out) {
  static const char *const keys[] = {"temperature", "top_k", "top_p", "min_p",
                                     "repetition_penalty"};
  const json *from = field_or_null(folder->genai, "search");
  if (!from) from = folder->generation;
  const json *samples = from ? field_or_null(from, "do_sample") : NULL;
  double number;
  if (!from) return;
  emit_object(out, "sampling");
  if (samples) emit_bool(out, "do_sample", json_is_true(samples));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const json *value = field_or_null(from, keys[i]);
    if (value && json_f64(value, &number)) emit_number(out, keys[i], number);
  }
  emit_end_object(out);
}

/* ---------------------------------------------------------------- the chat template */

/* Returns the template in a configuration, the one named "default" of several; NULL: none. */
static const char *template_in(const json *config) {
  const json *found = field_or_null(config, "chat_template");
  if (!found || json_kind_of(found) != JSON_ARRAY) return text_or_null(config, "chat_template");
  for (const json *i = json_first(found); i; i = json_next(i)) {
    const char *name = text_or_null(i, "name");
    if (name && strcmp(name, "default") == 0) return text_or_null(i, "template");
  }
  return NULL;
}

/* Appends the folder's chat template: a template file takes precedence over the configuration. */
static clave_status read_template(const model_folder *folder, text *out) {
  file_map file;
  json *own = NULL;
  char *path = path_join(folder->path, "chat_template.jinja");
  if (!path) return status_no_memory();
  const bool has = file_exists(path);
  clave_status st = has ? file_map_open(path, &file) : NULL;
  free(path);
  if (st) return st;
  if (has) {
    text_append(out, (const char *)file.data, file.size);
    file_map_close(&file);
    return text_status(out);
  }
  st = read_config(folder->path, "chat_template.json", &own);
  if (st) {
    json_free(own);
    return st;
  }
  const char *found = template_in(own) ? template_in(own) : template_in(folder->tokenizer);
  if (found) text_puts(out, found);
  json_free(own);
  return text_status(out);
}

/* ---------------------------------------------------------------- the program */

static clave_status folder_add_tokenizer(const model_folder *folder, clave_program *program) {
  file_map file;
  const bool is_json = has_file(folder->path, "tokenizer.json");
  char *path = path_join(folder->path, is_json ? "tokenizer.json" : "tokenizer.model");
  if (!path) return status_no_memory();
  clave_status st = file_map_open(path, &file);
  free(path);
  if (st) return st;
  st = clave_program_set_section(program, "TOKN", file.data, file.size);
  file_map_close(&file);
  return st;
}

/* Sets *bos to the id that begins a text: tokenizer_config.json may demand or forbid it; else it is
 * the one that the tokenizer's file itself adds. */
static clave_status find_bos(const model_folder *folder, const clave_program *program,
                             int32_t named, int32_t *bos) {
  const json *adds = field_or_null(folder->tokenizer, "add_bos_token");
  clave_tokenizer *own;
  clave_tokenizer_info info = {.size = sizeof info};
  *bos = CLAVE_NO_TOKEN;
  if (adds && json_kind_of(adds) == JSON_BOOL) {
    if (json_is_true(adds)) *bos = named;
    return NULL;
  }
  TRY(clave_tokenizer_of_program(program, &own));
  clave_status st = clave_tokenizer_get_info(own, &info);
  if (!st) *bos = info.bos;
  clave_tokenizer_destroy(own);
  return st;
}

/* The parts of the metadata besides the folder's own. */
typedef struct folder_facts {
  const clave_tokenizer *tokenizer; /* NULL: none */
  int32_t bos, eos;
  int64_t max_context;
  bool no_pages;
} folder_facts;

static clave_status write_metadata(const model_folder *folder, const folder_facts *facts,
                                   text *metadata) {
  json_writer out = {.out = metadata, .compact = true};
  text template = {0};
  clave_status st = read_template(folder, &template);
  emit_object(&out, NULL);
  emit_object(&out, "llm");
  emit_integer(&out, "max_context", facts->max_context);
  if (facts->no_pages) emit_bool(&out, "pages", false);
  if (facts->tokenizer) {
    emit_id(&out, "bos", facts->bos);
    emit_id(&out, "eos", facts->eos);
  }
  write_stop_ids(folder, facts->tokenizer, template.data, facts->eos, &out);
  if (template.size) emit_text(&out, "chat_template", template.data, template.size);
  llm_folder_write_sampling(folder, &out);
  emit_end_object(&out);
  emit_end_object(&out);
  text_free(&template);
  return st ? st : text_status(metadata);
}

/* Reads from the imported program's metadata whether conversations must not share pages. */
static clave_status read_no_pages(const clave_program *program, bool *out) {
  clave_program_info info = {.size = sizeof info};
  mem_pool *pool;
  llm_metadata metadata;
  TRY(clave_program_get_info(program, &info));
  TRY(mem_pool_create(&pool));
  clave_status st = llm_metadata_read(pool, info.metadata, &metadata);
  if (!st) *out = metadata.no_pages;
  mem_pool_destroy(pool);
  return st;
}

/* Adds the folder's tokenizer, if it has one, and finds its ids. */
static clave_status describe_tokenizer(const model_folder *folder, clave_program *program,
                                       clave_tokenizer **tokenizer, folder_facts *facts) {
  clave_tokenizer_info info = {.size = sizeof info};
  if (!has_file(folder->path, "tokenizer.json") && !has_file(folder->path, "tokenizer.model"))
    return NULL;
  TRY(clave_tokenizer_load(folder->path, NULL, tokenizer));
  TRY(clave_tokenizer_get_info(*tokenizer, &info));
  TRY(folder_add_tokenizer(folder, program));
  facts->tokenizer = *tokenizer;
  facts->eos = info.eos;
  return find_bos(folder, program, info.bos, &facts->bos);
}

/* Adds the tokenizer and the metadata to the program of the graph. */
static clave_status model_folder_describe(const model_folder *folder, int64_t max_context,
                                          clave_program *program) {
  folder_facts facts = {.bos = CLAVE_NO_TOKEN, .eos = CLAVE_NO_TOKEN, .max_context = max_context};
  clave_tokenizer *tokenizer = NULL;
  text metadata = {0};
  clave_status st = describe_tokenizer(folder, program, &tokenizer, &facts);
  if (!st) st = read_no_pages(program, &facts.no_pages);
  if (!st) st = write_metadata(folder, &facts, &metadata);
  if (!st) st = clave_program_set_metadata(program, metadata.data);
  text_free(&metadata);
  clave_tokenizer_destroy(tokenizer);
  return st;
}

static clave_status folder_load_graph(const model_folder *folder, clave_program **out) {
  clave_program_options options = {.size = sizeof options};
  TRY(model_folder_context(folder, &options.max_context));
  TRY(clave_program_load(folder->model, &options, out));
  clave_status st = model_folder_describe(folder, options.max_context, *out);
  if (!st) return NULL;
  clave_program_destroy(*out);
  *out = NULL;
  return st;
}

clave_status clave_llm_import(const char *path, clave_program **out) {
  OWN_FLOAT_ENV;
  model_folder folder;
  *out = NULL;
  clave_status st = model_folder_open(path, &folder);
  if (!st) st = folder_load_graph(&folder, out);
  model_folder_close(&folder);
  return st;
}
