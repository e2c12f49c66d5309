/* Tuning tables on disk: a text file for each device:
 *
 *   clave tuning 1
 *   DEVICE
 *   FAMILY<tab>KEY<tab>VARIANT
 *   ...
 *   hash 0123456789abcdef     of everything before this line
 *
 * The contents are used only if the hash is right. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/tuning_rows.h"

enum { LOCK_TIMEOUT_MS = 2000, HASH_LINE = 22, DEVICE_BYTES = 1024 };
static const size_t MAX_BYTES =
    DEVICE_BYTES + (size_t)TUNING_MAX * (TUNING_FAMILY + TUNING_KEY + TUNING_VARIANT);
static const char first_line[] = "clave tuning 1\n", stem[] = "tuning-", ending[] = ".txt";
static const char lock_name[] = "lock"; /* the cache of kernel binaries uses the same lock */

char *tuning_path(const char *folder, const char *device) {
  char name[64];
  uint64_t hash[2];
  hash_bytes_128(device, strlen(device), hash);
  (void)snprintf(name, sizeof name, "%s%016" PRIx64 "%016" PRIx64 "%s", stem, hash[0], hash[1],
                 ending);
  return path_join(folder, name);
}

static bool is_table(const char *name) {
  return strncmp(name, stem, sizeof stem - 1) == 0 && path_has_ending(name, ending);
}

void tuning_measure(const char *folder, uint64_t *bytes, uint64_t *files) {
  folder_entry *entries;
  size_t n;
  clave_status st = folder_list(folder, &entries, &n);
  status_free(st);
  if (st) return;
  for (size_t i = 0; i < n; i++) {
    if (!is_table(entries[i].name)) continue;
    *bytes += entries[i].size;
    ++*files;
  }
  folder_list_free(entries, n);
}

uint64_t tuning_remove(const char *folder) {
  folder_entry *entries;
  size_t n;
  uint64_t removed = 0;
  clave_status st = folder_list(folder, &entries, &n);
  status_free(st);
  if (st) return 0;
  for (size_t i = 0; i < n; i++) {
    char *path = is_table(entries[i].name) ? path_join(folder, entries[i].name) : NULL;
    if (path && file_remove(path)) removed += entries[i].size;
    free(path);
  }
  folder_list_free(entries, n);
  return removed;
}

/* ---------------------------------------------------------------- reading */

typedef struct reader {
  const char *at, *end;
} reader;

/* Reads up to `stop`, which is skipped. Returns false if it is missing or `out` is too small. */
static bool tuning_file_read_text(reader *reader, char stop, char *out, size_t capacity) {
  const char *to = memchr(reader->at, stop, (size_t)(reader->end - reader->at));
  if (!to || (size_t)(to - reader->at) >= capacity) return false;
  memcpy(out, reader->at, (size_t)(to - reader->at));
  out[to - reader->at] = '\0';
  reader->at = to + 1;
  return true;
}

static bool tuning_file_read_row(reader *reader, tuning_row *row) {
  if (!tuning_file_read_text(reader, '\t', row->family, sizeof row->family) ||
      !tuning_file_read_text(reader, '\t', row->key, sizeof row->key) ||
      !tuning_file_read_text(reader, '\n', row->variant, sizeof row->variant))
    return false;
  clave_status st = tuning_check(row->family, row->key, row->variant);
  status_free(st);
  return st == NULL;
}

/* Checks the hash and removes it from *source. */
static bool check_hash(const file_map *map, reader *source) {
  char want[HASH_LINE + 1];
  const char *data = (const char *)map->data;
  if (map->size < HASH_LINE || map->size > MAX_BYTES) return false;
  size_t n = map->size - HASH_LINE;
  (void)snprintf(want, sizeof want, "hash %016" PRIx64 "\n", hash_bytes(data, n));
  *source = (reader){data, data + n};
  return memcmp(data + n, want, HASH_LINE) == 0;
}

/* Returns the reason why a file's rows cannot be used; or NULL, with *reader at the first row. */
static const char *read_head(const file_map *map, const char *device, reader *reader) {
  char line[DEVICE_BYTES];
  if (!check_hash(map, reader)) return "the file is damaged (hash)";
  if (!tuning_file_read_text(reader, '\n', line, sizeof line) ||
      strncmp(line, first_line, sizeof first_line - 2) != 0 || line[sizeof first_line - 2])
    return "the file has another version";
  if (!tuning_file_read_text(reader, '\n', line, sizeof line) || strcmp(line, device) != 0)
    return "the file belongs to another device";
  return NULL;
}

/* Reads the rows into an empty table. */
static clave_status tuning_file_take_rows(tuning *tuning, reader *reader, const char **why) {
  while (reader->at < reader->end) {
    tuning_row row = {0};
    if (!tuning_file_read_row(reader, &row)) {
      *why = "the file has a malformed row";
      return NULL;
    }
    clave_status st = tuning_set(tuning, &row, false);
    if (status_code_of(st) == STATUS_INVALID) {
      status_free(st);
      *why = "the file has too many rows";
      return NULL;
    }
    TRY(st);
  }
  return NULL;
}

/* Adds the rows, replacing those of the same family and key; none if they are too many. */
static clave_status add_read_rows(const tuning *read, tuning *to, const char **why) {
  clave_status st = NULL;
  bool found;
  mutex_lock(to->lock);
  size_t n = to->n;
  for (size_t i = 0; i < read->n; i++) {
    const tuning_row *row = &read->rows[i].row;
    (void)tuning_place_of(to, row->family, row->key, &found);
    n += !found;
  }
  if (n > TUNING_MAX) *why = "the file has too many rows";
  for (size_t i = 0; i < read->n && !*why && !st; i++)
    st = tuning_set(to, &read->rows[i].row, false);
  mutex_unlock(to->lock);
  return st;
}

clave_status tuning_load(tuning *tuning, const char *path, const char *device, const char **why) {
  file_map map;
  reader reader;
  *why = NULL;
  if (!file_exists(path)) return NULL;
  TRY(file_map_open(path, &map));
  *why = read_head(&map, device, &reader);
  struct tuning *read = NULL;
  clave_status st = *why ? NULL : tuning_create(&read);
  if (read) st = tuning_file_take_rows(read, &reader, why);
  if (!st && !*why) st = add_read_rows(read, tuning, why);
  tuning_destroy(read);
  file_map_close(&map);
  return st;
}

/* ---------------------------------------------------------------- writing */

static clave_status tuning_file_write_rows(const tuning *tuning, const char *path,
                                           const char *device) {
  text out = {0};
  tuning_row row;
  text_printf(&out, "%s%s\n", first_line, device);
  for (size_t i = 0; tuning_get(tuning, i, &row); i++)
    text_printf(&out, "%s\t%s\t%s\n", row.family, row.key, row.variant);
  if (!out.failed) text_printf(&out, "hash %016" PRIx64 "\n", hash_bytes(out.data, out.size));
  clave_status st = text_status(&out);
  if (!st) st = file_write(path, out.data, out.size);
  text_free(&out);
  return st;
}

/* Copies this process's new rows to `to`, which contains what other processes have written. */
static clave_status add_new_rows(tuning *own, tuning *to) {
  clave_status st = NULL;
  mutex_lock(own->lock);
  for (size_t i = 0; i < own->n && !st; i++)
    if (own->rows[i].is_new) st = tuning_set(to, &own->rows[i].row, false);
  mutex_unlock(own->lock);
  return st;
}

/* Marks the written rows as no longer new, so that a later save does not overwrite changes by
 * others. */
static void mark_rows_saved(tuning *to, const tuning *written) {
  tuning_row row;
  mutex_lock(to->lock);
  for (size_t i = 0; i < to->n; i++) {
    const tuning_row *own = &to->rows[i].row;
    if (tuning_find(written, own->family, own->key, &row) && strcmp(row.key, own->key) == 0 &&
        strcmp(row.variant, own->variant) == 0)
      to->rows[i].is_new = false;
  }
  mutex_unlock(to->lock);
}

/* Merges the new rows into the file. A file that cannot be read is replaced. */
static clave_status tuning_file_merge(tuning *table, const char *path, const char *device) {
  tuning *all;
  const char *why;
  TRY(tuning_create(&all));
  status_free(tuning_load(all, path, device, &why));
  clave_status st = add_new_rows(table, all);
  if (!st) st = tuning_file_write_rows(all, path, device);
  if (!st) mark_rows_saved(table, all);
  tuning_destroy(all);
  return st;
}

clave_status tuning_save(tuning *tuning, const char *folder, const char *device) {
  TRY(make_folders(folder, FOLDERS_PRIVATE));
  if (!folder_is_private(folder))
    return INVALID("the folder %s can be written by others or belongs to another user", folder);
  char *path = tuning_path(folder, device), *lock_path = path_join(folder, lock_name);
  file_lock *lock = NULL;
  clave_status st = path && lock_path ? NULL : status_no_memory();
  if (!st && !file_lock_take(lock_path, LOCK_TIMEOUT_MS, &lock))
    st = status_new(STATUS_IO, "cannot lock %s", lock_path);
  if (!st) st = tuning_file_merge(tuning, path, device);
  file_lock_release(lock);
  free(path);
  free(lock_path);
  return st;
}
