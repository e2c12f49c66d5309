/* Writes programs to files: .clv, or .json with consts.safetensors beside it. Protects an existing
 * consts.safetensors that belongs to another program. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "serialize/encode.h"
#include "serialize/program_files.h"

/* ---------------------------------------------------------------- owners of constants */

/* The hash of constants that a file contains; not present if the file has none or cannot be
 * read. */
typedef struct recorded_hash {
  bool present;
  uint64_t hash;
} recorded_hash;

/* Ignores a failure to read a file, which is then treated as a file without a hash. Still returns
 * NO_MEMORY, which does not come from the file. */
static clave_status ignore_unreadable(clave_status st) {
  if (status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

/* Reads consts_hash of the .json program at `path`. */
static clave_status read_consts_hash(const char *path, recorded_hash *out) {
  file_map map;
  json *document = NULL;
  *out = (recorded_hash){0};
  clave_status st = file_map_open(path, &map);
  if (!st) st = json_parse((const char *)map.data, map.size, &document);
  const json *hash =
      !st && json_kind_of(document) == JSON_OBJECT ? json_member(document, "consts_hash") : NULL;
  out->present = hash && json_u64(hash, &out->hash);
  json_free(document);
  file_map_close(&map);
  return ignore_unreadable(st);
}

/* Reads the hash in the metadata of a consts.safetensors. */
static clave_status read_recorded_hash(const char *path, recorded_hash *out) {
  tensor_file *file;
  *out = (recorded_hash){0};
  clave_status st = tensor_file_open(path, &file);
  if (st) return ignore_unreadable(st);
  const char *hex = tensor_file_metadata(file, CONSTS_HASH_KEY);
  out->present = hex && strlen(hex) == 16 && strspn(hex, "0123456789abcdef") == 16;
  if (out->present) out->hash = strtoull(hex, NULL, 16);
  tensor_file_destroy(file);
  return NULL;
}

/* Sets *user (owned) to the entry's name if it is another .json program whose constants have this
 * hash. */
static clave_status check_user(const char *folder, const char *name, const char *own_name,
                               uint64_t hash, char **user) {
  recorded_hash other;
  if (!path_has_ending(name, ".json") || strcmp(name, own_name) == 0) return NULL;
  char *path = path_join(folder, name);
  if (!path) return status_no_memory();
  clave_status st = read_consts_hash(path, &other);
  free(path);
  if (st || !other.present || other.hash != hash) return st;
  *user = strdup(name);
  return *user ? NULL : status_no_memory();
}

/* Sets *user (owned) to another .json program in the folder whose constants have this hash;
 * unchanged (NULL) if none exists. */
static clave_status find_user(const char *folder, const char *own_name, uint64_t hash,
                              char **user) {
  folder_entry *entries;
  size_t n;
  TRY(folder_list(folder, &entries, &n));
  clave_status st = NULL;
  for (size_t i = 0; i < n && !st && !*user; i++)
    st = check_user(folder, entries[i].name, own_name, hash, user);
  folder_list_free(entries, n);
  return st;
}

/* Fails unless the constants at `consts` are the same as the program's, or belong only to the
 * program at `path`, which is being replaced. */
static clave_status check_replaceable(const program *program, const char *path,
                                      const char *consts) {
  recorded_hash existing, replaced;
  if (!file_exists(consts)) return NULL;
  TRY(read_recorded_hash(consts, &existing));
  if (!existing.present) {
    return INVALID("%s exists and may belong to another program: save into another folder", consts);
  }
  if (existing.hash == program->ir.consts_hash) return NULL;
  TRY(read_consts_hash(path, &replaced));
  if (!replaced.present || replaced.hash != existing.hash) {
    return INVALID("%s has the constants of another program: save into another folder", consts);
  }
  const size_t name = path_last(path);
  char *folder = name ? strndup(path, name) : strdup("."), *user = NULL;
  if (!folder) return status_no_memory();
  clave_status st = find_user(folder, path + name, existing.hash, &user);
  if (!st && user) st = INVALID("%s is also used by %s: save into another folder", consts, user);
  free(folder);
  free(user);
  return st;
}

/* ---------------------------------------------------------------- .json */

static clave_status save_write_constants(const program *program, const char *path) {
  uint32_t n = program->ir.constants.count;
  char hash[17];
  (void)snprintf(hash, sizeof hash, "%016" PRIx64, program->ir.consts_hash);
  const char *metadata[2] = {CONSTS_HASH_KEY, hash};
  tensor_entry *entries = calloc(n, sizeof *entries);
  if (!entries) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) {
    const tensor stored = tensor_stored(&program->types[i]), *tensor = &stored;
    entries[i] = (tensor_entry){.name = program->ir.constants.items[i].name,
                                .type = tensor->type,
                                .rank = tensor->rank,
                                .data = program->constants[i]};
    memcpy(entries[i].dims, tensor->dims, sizeof tensor->dims);
    (void)tensor_bytes(tensor,
                       &entries[i].bytes); /* overflow was checked when the constant was bound */
  }
  clave_status st = tensor_file_save(path, entries, n, metadata, 1);
  free(entries);
  return st;
}

static clave_status save_constants(const program *program, const char *path) {
  if (program->ir.constants.count == 0) return NULL;
  char *consts = consts_path_beside(path);
  if (!consts) return status_no_memory();
  clave_status st = check_replaceable(program, path, consts);
  if (!st) st = save_write_constants(program, consts);
  free(consts);
  return st;
}

/* Writes the text to a temporary file before the constants are replaced, and renames the file
 * afterwards. */
static clave_status write_pair(const program *program, const char *path, const text *text) {
  file_writer *writer;
  TRY(file_writer_create(path, &writer));
  clave_status st = file_writer_append(writer, text->data, text->size);
  if (!st) st = save_constants(program, path);
  if (!st) st = program_check_files(program);
  if (!st) st = file_writer_commit(writer);
  file_writer_destroy(writer);
  return st;
}

static clave_status save_json(const program *program, const char *path) {
  text text = {0};
  if (program->n_sections) {
    return UNSUPPORTED("%s cannot store section '%.4s' of the program: save the program as a .clv",
                       path, program->sections[0].tag);
  }
  clave_status st = encode_json(&program->ir, &text);
  if (!st) st = write_pair(program, path, &text);
  text_free(&text);
  return st;
}

clave_status program_save(const program *prog, const char *path) {
  program hashed = *prog; /* a copy, because several threads may save prog */
  TRY(program_check_files(prog));
  if (prog->unhashed) TRY(hash_constants(prog, &hashed.ir.consts_hash));
  if (path_has_ending(path, ".clv")) return clv_write(&hashed, path);
  if (path_has_ending(path, ".json")) return save_json(&hashed, path);
  return INVALID("%s: expected a file name that ends in .clv or .json", path);
}
