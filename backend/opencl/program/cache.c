/* The folder of kernel binaries: files are named by key, checked by hash, and written completely
 * under a lock. The size of the folder is limited. */
#include "backend/opencl/program/cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/opencl/device/driver_folder.h"
#include "backend/opencl/program/marks.h"
#include "base/hash.h"
#include "base/memory.h"

enum { LOCK_TIMEOUT_MS = 2000 };
static const char ending[] = ".clbin";
static const char lock_name[] = "lock";

/* Precedes the description, padded to a multiple of 8 bytes, the proven classes and the binary. */
typedef struct header {
  char magic[8];
  cache_origin origin;
  uint64_t n_proven;
  uint64_t size; /* bytes of the binary */
  uint64_t hash; /* hash of the origin and of everything that follows the header */
  uint64_t driver;
  uint64_t n_about; /* bytes of the description */
} header;
static const char magic[8] = "clvbin6";
/* The prefix of the magic that all versions share. */
enum { MAGIC_STEM = 6 };

static char *entry_path(const char *folder, const uint64_t key[2]) {
  char name[64];
  snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64 "%s", key[0], key[1], ending);
  return path_join(folder, name);
}

static bool is_entry(const char *name) {
  size_t n = strlen(name), e = sizeof ending - 1;
  return n > e && strcmp(name + n - e, ending) == 0;
}

clave_status cache_info(const char *folder, cache_stats *out) {
  *out = (cache_stats){.limit_bytes = CACHE_LIMIT_BYTES};
  folder_entry *entries;
  size_t n;
  TRY(folder_list(folder, &entries, &n));
  for (size_t i = 0; i < n; i++) {
    if (!is_entry(entries[i].name)) continue;
    out->bytes += entries[i].size;
    out->files++;
  }
  folder_list_free(entries, n);
  driver_folders_measure(folder, &out->bytes, &out->files);
  return NULL;
}

static int by_age(const void *left, const void *right) {
  const folder_entry *a = left, *b = right;
  return a->modified_s < b->modified_s ? -1 : a->modified_s > b->modified_s;
}

static uint64_t remove_oldest(const char *folder, const folder_entry *entries, size_t n,
                              uint64_t bytes, uint64_t max_bytes) {
  uint64_t removed = 0;
  for (size_t i = 0; i < n && bytes - removed > max_bytes; i++) {
    if (!is_entry(entries[i].name)) continue;
    char *path = path_join(folder, entries[i].name);
    if (path && file_remove(path)) removed += entries[i].size;
    free(path);
  }
  return removed;
}

static clave_status trim_entries(const char *folder, uint64_t max_bytes, uint64_t *removed) {
  *removed = 0;
  folder_entry *entries;
  size_t n;
  TRY(folder_list(folder, &entries, &n));
  uint64_t bytes = 0;
  for (size_t i = 0; i < n; i++)
    if (is_entry(entries[i].name)) bytes += entries[i].size;
  if (bytes > max_bytes) {
    qsort(entries, n, sizeof *entries, by_age);
    *removed = remove_oldest(folder, entries, n, bytes, max_bytes);
  }
  folder_list_free(entries, n);
  return NULL;
}

clave_status cache_trim(const char *folder, uint64_t max_bytes, uint64_t *removed) {
  uint64_t of_entries;
  clave_status st = trim_entries(folder, max_bytes, &of_entries);
  if (!st) of_entries += driver_folders_sweep(folder);
  if (!st && max_bytes == 0) of_entries += marks_clear(folder);
  if (removed) *removed = of_entries;
  return st;
}

clave_status cache_open(const char *folder) {
  TRY(make_folders(folder, FOLDERS_PRIVATE));
  if (!folder_is_private(folder))
    return INVALID("the folder %s can be written by others or belongs to another user", folder);
  return NULL;
}

void cache_key(const cache_origin *origin, uint64_t key[2]) {
  hash_bytes_128(origin, sizeof *origin, key);
}

static uint64_t hash_entry(const cache_entry *entry) {
  uint64_t all[] = {hash_bytes(&entry->origin, sizeof entry->origin),
                    hash_bytes(entry->about, entry->n_about),
                    hash_bytes(entry->proven, entry->n_proven * sizeof *entry->proven),
                    hash_bytes(entry->data, entry->size)};
  return hash_bytes(all, sizeof all);
}

static size_t pad_size(size_t n) { return (8 - n % 8) % 8; }

static bool has_all_lines(const cache_entry *entry) {
  int n = 0;
  for (size_t i = 0; i < entry->n_about; i++) n += entry->about[i] == '\n';
  return n == ABOUT_LINES && entry->about[entry->n_about - 1] == '\n';
}

bool cache_entry_has_key(const uint8_t *data, size_t size, const uint64_t key[2]) {
  header header;
  uint64_t own[2];
  if (size < sizeof header) return false;
  memcpy(&header, data, sizeof header);
  cache_key(&header.origin, own);
  return own[0] == key[0] && own[1] == key[1];
}

bool cache_entry_read(const uint8_t *data, size_t size, cache_entry *out) {
  header header = {0};
  *out = (cache_entry){0};
  if (size < sizeof header) return false;
  memcpy(&header, data, sizeof header);
  size_t rest = size - sizeof header;
  if (memcmp(header.magic, magic, sizeof magic) != 0 || header.n_about > rest) return false;
  out->origin = header.origin;
  out->about = (const char *)data + sizeof header;
  out->n_about = (size_t)header.n_about;
  const size_t padded = out->n_about + pad_size(out->n_about);
  if (padded > rest || !has_all_lines(out)) return false;
  rest -= padded;
  if (header.n_proven > rest / sizeof *out->proven) return false;
  out->n_proven = (uint32_t)header.n_proven;
  out->proven = (const void *)(out->about + padded); /* aligned, because pages and the header are */
  out->data = (const uint8_t *)(out->proven + out->n_proven);
  out->size = rest - out->n_proven * sizeof *out->proven;
  out->driver = header.driver;
  return out->size == header.size && hash_entry(out) == header.hash;
}

void cache_entry_line(const cache_entry *entry, int line, char *out, size_t size) {
  const char *at = entry->about, *end = at + entry->n_about;
  for (; line > 0; line--) at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
  const size_t n = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at);
  (void)snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), at);
}

typedef struct entry_parts {
  header header;
  span all[5];
} entry_parts;

/* Sets the sections of an entry's file, in order. They point into *out and the entry. */
static void split_entry(const cache_entry *entry, entry_parts *out) {
  static const char zeros[8];
  out->header = (header){.origin = entry->origin,
                         .n_proven = entry->n_proven,
                         .size = entry->size,
                         .hash = hash_entry(entry),
                         .driver = entry->driver,
                         .n_about = entry->n_about};
  memcpy(out->header.magic, magic, sizeof magic);
  out->all[0] = (span){(const char *)&out->header, sizeof out->header};
  out->all[1] = (span){entry->about, entry->n_about};
  out->all[2] = (span){zeros, pad_size(entry->n_about)};
  out->all[3] = (span){(const char *)entry->proven, entry->n_proven * sizeof *entry->proven};
  out->all[4] = (span){(const char *)entry->data, entry->size};
}

void cache_entry_append(text *to, const cache_entry *entry) {
  entry_parts parts;
  split_entry(entry, &parts);
  for (size_t i = 0; i < sizeof parts.all / sizeof *parts.all; i++)
    if (parts.all[i].size) text_append(to, parts.all[i].data, parts.all[i].size);
}

static bool is_other_version(const file_map *map) {
  return map->size >= sizeof(header) && memcmp(map->data, magic, MAGIC_STEM) == 0 &&
         memcmp(map->data, magic, sizeof magic) != 0;
}

bool cache_load(const char *folder, const uint64_t key[2], cache_entry *out, bool *damaged) {
  *out = (cache_entry){0};
  *damaged = false;
  char *path = entry_path(folder, key);
  if (!path) return false;
  file_map map;
  clave_status st = file_map_open(path, &map);
  if (st) {
    status_free(st);
    free(path);
    return false;
  }
  const bool good =
      cache_entry_has_key(map.data, map.size, key) && cache_entry_read(map.data, map.size, out);
  out->map = map;
  if (good) {
    file_touch(path); /* marks the entry as used, for trimming */
  } else {
    *damaged = !is_other_version(&map);
    file_map_close(&out->map);
    *out = (cache_entry){0};
    file_remove(path);
  }
  free(path);
  return good;
}

bool cache_has(const char *folder, const uint64_t key[2]) {
  char *path = entry_path(folder, key);
  bool has = path && file_exists(path);
  free(path);
  return has;
}

bool cache_is_current(const char *folder, const uint64_t key[2], uint64_t driver) {
  char *path = entry_path(folder, key);
  header header;
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  const bool is_current = file >= 0 && read(file, &header, sizeof header) == sizeof header &&
                          memcmp(header.magic, magic, sizeof magic) == 0 && header.driver == driver;
  if (file >= 0) (void)close(file);
  free(path);
  return is_current;
}

void cache_remove(const char *folder, const uint64_t key[2]) {
  char *path = entry_path(folder, key);
  if (path) (void)file_remove(path);
  free(path);
}

static clave_status opencl_cache_write_entry(const char *path, const cache_entry *entry) {
  file_writer *writer;
  entry_parts parts;
  clave_status st = NULL;
  TRY(file_writer_create(path, &writer));
  split_entry(entry, &parts);
  for (size_t i = 0; i < sizeof parts.all / sizeof *parts.all && !st; i++)
    if (parts.all[i].size) st = file_writer_append(writer, parts.all[i].data, parts.all[i].size);
  if (!st) st = file_writer_commit(writer);
  file_writer_destroy(writer);
  return st;
}

clave_status cache_save(const char *folder, const cache_entry *entry) {
  uint64_t key[2];
  cache_key(&entry->origin, key);
  char *path = entry_path(folder, key), *lock_path = path_join(folder, lock_name);
  file_lock *lock = NULL;
  clave_status st = path && lock_path ? NULL : status_no_memory();
  if (!st && !file_lock_take(lock_path, LOCK_TIMEOUT_MS, &lock))
    st = status_new(STATUS_IO, "cannot lock %s", lock_path);
  if (!st) st = opencl_cache_write_entry(path, entry);
  uint64_t removed;
  if (!st) st = trim_entries(folder, CACHE_LIMIT_BYTES, &removed);
  file_lock_release(lock);
  free(path);
  free(lock_path);
  return st;
}

/* Calls `visit` for the entry in a file, which may have been removed since it was listed. */
static clave_status visit_entry(const char *folder, const char *name, cache_visit visit,
                                void *ctx) {
  file_map map;
  cache_entry entry;
  char *path = path_join(folder, name);
  if (!path) return status_no_memory();
  clave_status st = file_map_open(path, &map);
  free(path);
  if (st) return status_code_of(st) == STATUS_NO_MEMORY ? st : (status_free(st), NULL);
  if (cache_entry_read(map.data, map.size, &entry) && entry.size) st = visit(ctx, &entry);
  file_map_close(&map);
  return st;
}

clave_status cache_each(const char *folder, cache_visit visit, void *ctx) {
  folder_entry *entries;
  size_t n;
  clave_status st = NULL;
  TRY(folder_list(folder, &entries, &n));
  for (size_t i = 0; i < n && !st; i++)
    if (is_entry(entries[i].name)) st = visit_entry(folder, entries[i].name, visit, ctx);
  folder_list_free(entries, n);
  return st;
}
