/* Programs to files: .clv, or .json with consts.safetensors beside it, which may belong to somebody
 * else. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "serialize/encode.h"
#include "serialize/program_files.h"

/* ---------------------------------------------------------------- whose constants */

/* A hash that a file may record. */
typedef struct recorded {
  bool present;
  uint64_t hash;
} recorded;

/* A file that cannot be read records nothing; but being out of memory says nothing about the file.
 */
static clave_status forgive(clave_status st) {
  if (status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

/* consts_hash of the .json program at `path`. */
static clave_status read_consts_hash(const char *path, recorded *out) {
  file_map m;
  json *document = NULL;
  *out = (recorded){0};
  clave_status st = file_map_open(path, &m);
  if (!st) st = json_parse((const char *)m.data, m.size, &document);
  const json *hash =
      !st && json_kind_of(document) == JSON_OBJECT ? json_member(document, "consts_hash") : NULL;
  out->present = hash && json_u64(hash, &out->hash);
  json_free(document);
  file_map_close(&m);
  return forgive(st);
}

/* The hash that a consts.safetensors of ours records. */
static clave_status read_recorded_hash(const char *path, recorded *out) {
  tensor_file *f;
  *out = (recorded){0};
  clave_status st = tensor_file_open(path, &f);
  if (st) return forgive(st);
  const char *hex = tensor_file_metadata(f, CONSTS_HASH_KEY);
  out->present = hex && strlen(hex) == 16 && strspn(hex, "0123456789abcdef") == 16;
  if (out->present) out->hash = strtoull(hex, NULL, 16);
  tensor_file_destroy(f);
  return NULL;
}

/* Sets *user (owned) to the entry's name if it is another .json program that uses constants with
 * this hash. */
static clave_status check_user(const char *folder, const char *name, const char *own_name,
                               uint64_t hash, char **user) {
  recorded other;
  if (!path_has_ending(name, ".json") || strcmp(name, own_name) == 0) return NULL;
  char *path = path_join(folder, name);
  if (!path) return status_no_memory();
  clave_status st = read_consts_hash(path, &other);
  free(path);
  if (st || !other.present || other.hash != hash) return st;
  *user = strdup(name);
  return *user ? NULL : status_no_memory();
}

/* Another .json program in the folder that uses constants with this hash: its name into `user`
 * (owned), else NULL. */
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

/* Refuses to replace the constants at `consts` unless they hold the same, or are those of the
 * program being replaced and of no other. */
static clave_status check_replaceable(const program *p, const char *path, const char *consts) {
  recorded existing, replaced;
  if (!file_exists(consts)) return NULL;
  TRY(read_recorded_hash(consts, &existing));
  if (!existing.present) {
    return INVALID(
        "%s is there already and is not known to be this program's: save into another folder",
        consts);
  }
  if (existing.hash == p->ir.consts_hash) return NULL;
  TRY(read_consts_hash(path, &replaced));
  if (!replaced.present || replaced.hash != existing.hash) {
    return INVALID("%s holds another program's constants: save into another folder", consts);
  }
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("."), *user = NULL;
  if (!folder) return status_no_memory();
  clave_status st = find_user(folder, slash ? slash + 1 : path, existing.hash, &user);
  if (!st && user) st = INVALID("%s is used by %s too: save into another folder", consts, user);
  free(folder);
  free(user);
  return st;
}

/* ---------------------------------------------------------------- .json */

static clave_status write_constants(const program *p, const char *path) {
  uint32_t n = p->ir.constants.count;
  char hash[17];
  (void)snprintf(hash, sizeof hash, "%016" PRIx64, p->ir.consts_hash);
  const char *metadata[2] = {CONSTS_HASH_KEY, hash};
  tensor_entry *entries = calloc(n, sizeof *entries);
  if (!entries) return status_no_memory();
  for (uint32_t i = 0; i < n; i++) {
    const tensor stored = tensor_stored(&p->types[i]), *t = &stored;
    entries[i] = (tensor_entry){.name = p->ir.constants.items[i].name,
                                .type = t->type,
                                .rank = t->rank,
                                .data = p->constants[i]};
    memcpy(entries[i].dims, t->dims, sizeof t->dims);
    (void)tensor_bytes(t, &entries[i].bytes); /* checked when it was bound */
  }
  clave_status st = tensor_file_save(path, entries, n, metadata, 1);
  free(entries);
  return st;
}

static clave_status save_constants(const program *p, const char *path) {
  if (p->ir.constants.count == 0) return NULL;
  char *consts = consts_path_beside(path);
  if (!consts) return status_no_memory();
  clave_status st = check_replaceable(p, path, consts);
  if (!st) st = write_constants(p, consts);
  free(consts);
  return st;
}

/* The text is on disk before the constants are touched, and in its place after them. */
static clave_status write_pair(const program *p, const char *path, const text *t) {
  file_writer *w;
  TRY(file_writer_create(path, &w));
  clave_status st = file_writer_append(w, t->data, t->size);
  if (!st) st = save_constants(p, path);
  if (!st) st = file_writer_commit(w);
  file_writer_destroy(w);
  return st;
}

static clave_status save_json(const program *p, const char *path) {
  text t = {0};
  if (p->n_sections) {
    return UNSUPPORTED("%s cannot hold section '%.4s' of the program, save it as .clv", path,
                       p->sections[0].tag);
  }
  clave_status st = encode_json(&p->ir, &t);
  if (!st) st = write_pair(p, path, &t);
  text_free(&t);
  return st;
}

clave_status program_save(const program *p, const char *path) {
  program hashed = *p; /* p itself may be saved by several threads */
  if (p->unhashed) TRY(hash_constants(p, &hashed.ir.consts_hash));
  if (path_has_ending(path, ".clv")) return clv_write(&hashed, path);
  if (path_has_ending(path, ".json")) return save_json(&hashed, path);
  return INVALID("%s: a program is saved as .clv or .json", path);
}
