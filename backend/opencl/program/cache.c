/* The folder of kernel binaries: files are named by key, checked by hash, and written whole under a
 * lock. The folder is bounded in size. */
#include "backend/opencl/program/cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/opencl/device/driver_folder.h"
#include "base/hash.h"
#include "base/memory.h"

enum { LOCK_TIMEOUT_MS = 2000 };
static const char ending[] = ".clbin";
static const char lock_name[] = "lock";

typedef struct header {
  char magic[8];
  uint64_t key[2];
  uint64_t n_proven;
  uint64_t size; /* bytes of the binary, which follows the proven classes */
  uint64_t hash; /* hash of both */
} header;
static const char magic[8] = "clvbin4";
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
  if (removed) *removed = of_entries;
  return st;
}

clave_status cache_open(const char *folder) {
  TRY(make_folders(folder, FOLDERS_PRIVATE));
  if (!folder_is_private(folder))
    return INVALID("the folder %s can be written by others or belongs to another user", folder);
  return NULL;
}

static uint64_t hash_entry(const cache_entry *entry) {
  uint64_t both[2] = {hash_bytes(entry->proven, entry->n_proven * sizeof *entry->proven),
                      hash_bytes(entry->data, entry->size)};
  return hash_bytes(both, sizeof both);
}

bool cache_entry_read(const uint8_t *data, size_t size, const uint64_t key[2], cache_entry *out) {
  header header = {0};
  *out = (cache_entry){0};
  if (size < sizeof header) return false;
  memcpy(&header, data, sizeof header);
  const size_t rest = size - sizeof header;
  if (memcmp(header.magic, magic, sizeof magic) != 0 || header.key[0] != key[0] ||
      header.key[1] != key[1])
    return false;
  if (header.n_proven > rest / sizeof *out->proven) return false;
  out->n_proven = (uint32_t)header.n_proven;
  out->proven = (const void *)(data + sizeof header); /* pages and the header are aligned */
  out->data = (const uint8_t *)(out->proven + out->n_proven);
  out->size = rest - out->n_proven * sizeof *out->proven;
  return out->size == header.size && hash_entry(out) == header.hash;
}

static header header_of(const uint64_t key[2], const cache_entry *entry) {
  header header = {.key = {key[0], key[1]},
                   .n_proven = entry->n_proven,
                   .size = entry->size,
                   .hash = hash_entry(entry)};
  memcpy(header.magic, magic, sizeof magic);
  return header;
}

void cache_entry_append(text *to, const uint64_t key[2], const cache_entry *entry) {
  const header header = header_of(key, entry);
  text_append(to, (const char *)&header, sizeof header);
  if (entry->n_proven)
    text_append(to, (const char *)entry->proven, entry->n_proven * sizeof *entry->proven);
  text_append(to, (const char *)entry->data, entry->size);
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
  const bool good = cache_entry_read(map.data, map.size, key, out);
  out->map = map;
  if (good) {
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* marks the entry as used, for trimming; may fail */
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

static clave_status opencl_cache_write_entry(const char *path, const header *header,
                                             const cache_entry *entry) {
  file_writer *writer;
  TRY(file_writer_create(path, &writer));
  clave_status st = file_writer_append(writer, header, sizeof *header);
  if (!st && entry->n_proven)
    st = file_writer_append(writer, entry->proven, entry->n_proven * sizeof *entry->proven);
  if (!st) st = file_writer_append(writer, entry->data, entry->size);
  if (!st) st = file_writer_commit(writer);
  file_writer_destroy(writer);
  return st;
}

clave_status cache_save(const char *folder, const uint64_t key[2], const cache_entry *entry) {
  const header header = header_of(key, entry);
  char *path = entry_path(folder, key), *lock_path = path_join(folder, lock_name);
  file_lock *lock = NULL;
  clave_status st = path && lock_path ? NULL : status_no_memory();
  if (!st && !file_lock_take(lock_path, LOCK_TIMEOUT_MS, &lock))
    st = status_new(STATUS_IO, "cannot lock %s", lock_path);
  if (!st) st = opencl_cache_write_entry(path, &header, entry);
  uint64_t removed;
  if (!st) st = trim_entries(folder, CACHE_LIMIT_BYTES, &removed);
  file_lock_release(lock);
  free(path);
  free(lock_path);
  return st;
}
