/* Chat templates in files: template files, tokenizer configurations, model folders, programs. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/float_env.h"
#include "json/fields.h"
#include "llm/language_model.h"
#include "llm/template.h"

/* ---------------------------------------------------------------- tokenizer_config.json */

/* Reads a token: a string, or an object with its content. *out stays NULL if none exists. */
static clave_status template_file_read_token(const json *config, const char *key, char **out) {
  const json *token = field_or_null(config, key);
  span content;
  if (!token || *out) return NULL;
  if (json_kind_of(token) == JSON_OBJECT) {
    TRY(field_text(token, "content", NULL, &content));
  } else {
    TRY(status_while(json_expect(token, JSON_STRING), "%s", key));
    content = json_text(token);
  }
  *out = strndup(content.data, content.size);
  return *out ? NULL : status_no_memory();
}

/* Reads the list of named templates. */
static clave_status read_named(clave_template *template, const json *all) {
  for (const json *v = json_first(all); v; v = json_next(v)) {
    span name, source;
    TRY(status_while(json_expect(v, JSON_OBJECT), "chat_template"));
    TRY(field_text(v, "name", NULL, &name));
    TRY(field_text(v, "template", NULL, &source));
    TRY(template_add(template, name.data, source.data, source.size));
  }
  return NULL;
}

static clave_status read_templates(clave_template *template, const json *config) {
  const json *templates = field_or_null(config, "chat_template");
  if (!templates || template->count) return NULL;
  if (json_kind_of(templates) == JSON_ARRAY) return read_named(template, templates);
  TRY(status_while(json_expect(templates, JSON_STRING), "chat_template"));
  span source = json_text(templates);
  return template_add(template, "default", source.data, source.size);
}

static clave_status template_file_read_config(clave_template *template, const json *config) {
  TRY(json_expect(config, JSON_OBJECT));
  TRY(template_file_read_token(config, "bos_token", &template->bos));
  TRY(template_file_read_token(config, "eos_token", &template->eos));
  return read_templates(template, config);
}

static clave_status load_config(clave_template *template, const char *path) {
  file_map file;
  json *config;
  TRY(file_map_open(path, &file));
  clave_status st = json_parse((const char *)file.data, file.size, &config);
  if (!st) {
    st = template_file_read_config(template, config);
    json_free(config);
  }
  file_map_close(&file);
  return status_while(st, "%s", path);
}

/* ---------------------------------------------------------------- places of a template */

static clave_status load_text(clave_template *template, const char *path) {
  file_map file;
  TRY(file_map_open(path, &file));
  clave_status st =
      template_add(template, "default", file.data ? (const char *)file.data : "", file.size);
  file_map_close(&file);
  return status_while(st, "%s", path);
}

static clave_status template_file_load_part(clave_template *template, const char *folder,
                                            const char *name,
                                            clave_status (*load)(clave_template *, const char *)) {
  char *path = path_join(folder, name);
  if (!path) return status_no_memory();
  clave_status st = file_exists(path) ? load(template, path) : NULL;
  free(path);
  return st;
}

/* Looks in transformers' order: a template file takes precedence over the configuration. */
static clave_status load_folder(clave_template *template, const char *folder) {
  TRY(template_file_load_part(template, folder, "chat_template.jinja", load_text));
  if (!template->count)
    TRY(template_file_load_part(template, folder, "chat_template.json", load_config));
  TRY(template_file_load_part(template, folder, "tokenizer_config.json", load_config));
  return template->count ? NULL : INVALID("%s: the folder has no chat template", folder);
}

static clave_status template_file_token_text(const clave_tokenizer *tokenizer, int32_t id,
                                             char **out) {
  size_t size;
  uint32_t one = (uint32_t)id;
  if (id < 0) return NULL;
  return clave_tokenizer_decode(tokenizer, &one, 1, false, out, &size);
}

static clave_status program_tokens(clave_template *template, const clave_program *program,
                                   const llm_metadata *metadata) {
  size_t size;
  clave_tokenizer *tokenizer;
  clave_tokenizer_info info = {.size = sizeof info};
  if (!clave_program_section(program, "TOKN", &size)) return NULL;
  TRY(clave_tokenizer_of_program(program, &tokenizer));
  clave_status st = clave_tokenizer_get_info(tokenizer, &info);
  if (!st)
    st = template_file_token_text(tokenizer, metadata->has_bos ? metadata->bos : info.bos,
                                  &template->bos);
  if (!st)
    st = template_file_token_text(tokenizer, metadata->has_eos ? metadata->eos : info.eos,
                                  &template->eos);
  clave_tokenizer_destroy(tokenizer);
  return st;
}

static clave_status template_file_read_program(clave_template *template,
                                               const clave_program *program, mem_pool *pool) {
  clave_program_info info = {.size = sizeof info};
  llm_metadata metadata;
  TRY(clave_program_get_info(program, &info));
  TRY(llm_metadata_read(pool, info.metadata, &metadata));
  if (!metadata.chat_template) return INVALID("the program has no chat template");
  TRY(template_add_given(template, metadata.chat_template));
  return program_tokens(template, program, &metadata);
}

static clave_status template_file_load_program(clave_template *template, const char *path) {
  clave_program *program;
  mem_pool *pool;
  TRY(clave_program_load(path, NULL, &program));
  clave_status st = mem_pool_create(&pool);
  if (!st) {
    st = template_file_read_program(template, program, pool);
    mem_pool_destroy(pool);
  }
  clave_program_destroy(program);
  return status_while(st, "%s", path);
}

static clave_status refuse_missing(const char *path) {
  text known = {0};
  template_list_builtins(&known);
  clave_status st = text_status(&known);
  if (!st)
    st = status_new(STATUS_IO, "%s: no such file or directory; built-in templates are %s", path,
                    known.data);
  text_free(&known);
  return st;
}

static clave_status template_file_load(clave_template *template, const char *path) {
  if (folder_exists(path)) return load_folder(template, path);
  if (!file_exists(path))
    return builtin_text(path) ? template_add_given(template, path) : refuse_missing(path);
  if (path_has_ending(path, ".clv")) return template_file_load_program(template, path);
  if (!path_has_ending(path, ".json")) return load_text(template, path);
  TRY(load_config(template, path));
  return template->count ? NULL : INVALID("%s: the file has no field chat_template", path);
}

clave_status clave_template_load(const char *path, clave_template **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  clave_template *template = calloc(1, sizeof *template);
  if (!template) return status_no_memory();
  clave_status st = template_file_load(template, path);
  if (st) {
    clave_template_destroy(template);
    return st;
  }
  *out = template;
  return NULL;
}
