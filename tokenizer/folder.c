/* Hugging Face folders. */
#include "tokenizer/folder.h"

#include <stdlib.h>

#include "base/file.h"
#include "json/json.h"

static clave_status find_in(const char *folder, const char *name, char **file) {
  *file = path_join(folder, name);
  if (!*file) return status_no_memory();
  if (file_exists(*file)) return NULL;
  free(*file);
  *file = NULL;
  return NULL;
}

clave_status folder_find_tokenizer(const char *path, char **file) {
  static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
  char *self;
  *file = NULL;
  TRY(find_in(path, ".", &self));
  if (!self) return NULL;
  free(self);
  for (size_t i = 0; i < sizeof names / sizeof *names && !*file; i++) {
    TRY(find_in(path, names[i], file));
  }
  return *file ? NULL : INVALID("%s: the folder has no tokenizer.json or tokenizer.model", path);
}

/* Finds the id of a token that is a string, or an object with the string as "content". */
static clave_status folder_read_token(const json *config, const char *key,
                                      const clave_tokenizer *tokenizer, int32_t *id) {
  const json *json = json_member(config, key);
  if (json && json_kind_of(json) == JSON_OBJECT) json = json_member(json, "content");
  if (!json || json_kind_of(json) == JSON_NULL) return NULL;
  if (json_kind_of(json) != JSON_STRING) {
    return INVALID("%s: expected a string, got %s", key, json_kind_name(json_kind_of(json)));
  }
  int32_t found = clave_tokenizer_find(tokenizer, json_string(json));
  if (found == CLAVE_NO_TOKEN) {
    return INVALID("%s \"%.100s\" is not in the vocabulary", key, json_string(json));
  }
  *id = found;
  return NULL;
}

static clave_status tokenizer_folder_read_config(const json *config, clave_tokenizer *tokenizer) {
  if (json_kind_of(config) != JSON_OBJECT) return INVALID("expected an object");
  TRY(folder_read_token(config, "bos_token", tokenizer, &tokenizer->bos));
  return folder_read_token(config, "eos_token", tokenizer, &tokenizer->eos);
}

static clave_status read_config_file(const char *path, clave_tokenizer *tokenizer) {
  file_map map;
  json *config = NULL;
  TRY(file_map_open(path, &map));
  clave_status st = json_parse((const char *)map.data, map.size, &config);
  if (!st) st = tokenizer_folder_read_config(config, tokenizer);
  json_free(config);
  file_map_close(&map);
  return status_while(st, "%s", path);
}

clave_status folder_read_config(const char *folder, clave_tokenizer *tokenizer) {
  char *path;
  TRY(find_in(folder, "tokenizer_config.json", &path));
  clave_status st = path ? read_config_file(path, tokenizer) : NULL;
  free(path);
  return st;
}
