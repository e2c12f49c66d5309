/* Bundles: files that carry the kernel binaries of a cache to other machines with the same devices
 * and drivers. A bundle is a header, the entries of binaries_append, and an end mark. An import
 * checks everything except the binaries themselves, which the driver executes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program/binaries.h"
#include "base/memory.h"

typedef struct bundle_header {
  char magic[8];
  char version[24]; /* CLAVE_VERSION of the writer; for messages */
} bundle_header;
typedef struct bundle_end {
  uint64_t size; /* 0, which is not the size of an entry */
  uint64_t count;
} bundle_end;
static const char magic[8] = "clvkern1";
enum { MAGIC_STEM = 7 };                     /* the prefix that all formats share */
enum { MAX_GROUPS = 256 };                   /* maximum devices and drivers in a bundle */
static const uint64_t NO_STAMP = UINT64_MAX; /* the stamp of no driver */

/* The entries of one device and driver in the bundle. */
typedef struct group {
  uint64_t platform[2];
  char texts[3][256]; /* platform, device, driver */
  kernel_group shown;
} group;

typedef struct bundle {
  const char *folder;
  file_writer *writer; /* export: the file */
  text packed;         /* one entry */
  group *groups;       /* owned */
  size_t n_groups, capacity;
  uint64_t count;
} bundle;

static void bundle_free(bundle *bundle) {
  text_free(&bundle->packed);
  file_writer_destroy(bundle->writer);
  free(bundle->groups);
}

/* ---------------------------------------------------------------- groups */

/* Sets is_present if a device of this machine has the group's platform key. */
static clave_status find_device(group *group) {
  const backend_info *infos;
  const char *reason;
  int n;
  TRY(opencl_devices(&infos, &n, &reason));
  for (int i = 0; i < n && !group->shown.is_present; i++) {
    uint64_t key[2];
    TRY(device_platform_key(&infos[i], key));
    group->shown.is_present = memcmp(key, group->platform, sizeof key) == 0;
  }
  return NULL;
}

static clave_status add_group(bundle *bundle, const cache_entry *entry) {
  if (bundle->n_groups == MAX_GROUPS)
    return INVALID("kernel binaries of more than %d devices and drivers", (int)MAX_GROUPS);
  if (!array_reserve(&bundle->groups, &bundle->capacity, bundle->n_groups + 1,
                     sizeof *bundle->groups))
    return status_no_memory();
  group *added = &bundle->groups[bundle->n_groups];
  *added = (group){0};
  memcpy(added->platform, entry->origin.platform, sizeof added->platform);
  for (int i = 0; i < 3; i++)
    cache_entry_line(entry, ABOUT_PLATFORM + i, added->texts[i], sizeof added->texts[i]);
  if (!bundle->writer) TRY(find_device(added));
  bundle->n_groups++;
  return NULL;
}

/* Counts the entry in its group. *out is valid until the next call. */
static clave_status count_entry(bundle *bundle, const cache_entry *entry, kernel_group **out) {
  size_t i = 0;
  while (i < bundle->n_groups && memcmp(bundle->groups[i].platform, entry->origin.platform,
                                        sizeof entry->origin.platform) != 0)
    i++;
  if (i == bundle->n_groups) TRY(add_group(bundle, entry));
  *out = &bundle->groups[i].shown;
  (*out)->kernels++;
  (*out)->bytes += entry->size;
  bundle->count++;
  return NULL;
}

static void report_groups(const bundle *bundle, kernel_report report, void *ctx) {
  for (size_t i = 0; i < bundle->n_groups && report; i++) {
    kernel_group shown = bundle->groups[i].shown;
    shown.platform = bundle->groups[i].texts[0];
    shown.device = bundle->groups[i].texts[1];
    shown.driver = bundle->groups[i].texts[2];
    report(ctx, &shown);
  }
}

/* ---------------------------------------------------------------- export */

static clave_status export_entry(void *ctx, const cache_entry *entry) {
  bundle *bundle = ctx;
  kernel_group *group;
  cache_entry plain = *entry;
  plain.driver = 0; /* the stamp is that of a file on this machine */
  text_clear(&bundle->packed);
  binaries_append(&bundle->packed, &plain);
  TRY(text_status(&bundle->packed));
  TRY(count_entry(bundle, entry, &group));
  return file_writer_append(bundle->writer, bundle->packed.data, bundle->packed.size);
}

static clave_status write_bundle(bundle *bundle, const char *path) {
  bundle_header header = {0};
  memcpy(header.magic, magic, sizeof magic);
  (void)snprintf(header.version, sizeof header.version, "%s", CLAVE_VERSION);
  TRY(file_writer_create(path, &bundle->writer));
  TRY(file_writer_append(bundle->writer, &header, sizeof header));
  TRY(cache_each(bundle->folder, export_entry, bundle));
  const bundle_end end = {.count = bundle->count};
  TRY(file_writer_append(bundle->writer, &end, sizeof end));
  return file_writer_commit(bundle->writer);
}

clave_status cache_export(const char *folder, const char *path, kernel_report report, void *ctx) {
  bundle bundle = {.folder = folder};
  clave_status st = write_bundle(&bundle, path);
  if (!st) report_groups(&bundle, report, ctx);
  bundle_free(&bundle);
  return st;
}

/* ---------------------------------------------------------------- import */

/* Calls `visit` for each entry. Fails if the file differs in any way from what exports write. */
static clave_status read_bundle(const file_map *map, cache_visit visit, void *ctx) {
  bundle_header header;
  bundle_end end;
  const uint8_t *data;
  uint64_t bytes, count = 0;
  size_t at = sizeof header;
  if (map->size < sizeof header + sizeof end || memcmp(map->data, magic, MAGIC_STEM) != 0)
    return INVALID("expected kernel binaries that clave cache --export wrote");
  memcpy(&header, map->data, sizeof header);
  if (memcmp(header.magic, magic, sizeof magic) != 0 || header.version[sizeof header.version - 1])
    return INVALID("the kernel binaries are in a format of another version of clave");
  for (;; count++) {
    cache_entry entry;
    if (!binaries_next(map->data, map->size, &at, &data, &bytes))
      return INVALID("the kernel binaries are cut short at byte %zu of %zu", at, map->size);
    if (!bytes) break;
    if (!cache_entry_read(data, (size_t)bytes, &entry) || !entry.size)
      return INVALID("kernel binary %llu is damaged, or of another version of clave (%s)",
                     (unsigned long long)count, header.version);
    TRY(visit(ctx, &entry));
  }
  memcpy(&end.count, map->data + map->size - sizeof end.count, sizeof end.count);
  if (map->size - at == sizeof end.count && end.count == count) return NULL;
  return INVALID("the kernel binaries end after %llu at byte %zu of %zu, not as they were written",
                 (unsigned long long)count, at, map->size);
}

static clave_status check_entry(void *ctx, const cache_entry *entry) {
  kernel_group *group;
  return count_entry(ctx, entry, &group);
}

/* Saves an entry for a device of this machine, unless the cache has it. The key in its file name is
 * computed anew. No driver of this machine has tried it yet. */
static clave_status import_entry(void *ctx, const cache_entry *entry) {
  bundle *bundle = ctx;
  kernel_group *group;
  uint64_t key[2];
  cache_entry saved = *entry;
  TRY(count_entry(bundle, entry, &group));
  cache_key(&entry->origin, key);
  if (!group->is_present || cache_has(bundle->folder, key)) return NULL;
  saved.driver = NO_STAMP;
  TRY(cache_save(bundle->folder, &saved));
  group->added++;
  return NULL;
}

/* Checks the whole file before anything is saved. */
static clave_status import_map(bundle *bundle, const char *path, const file_map *map) {
  struct bundle checked = {0};
  clave_status st = read_bundle(map, check_entry, &checked);
  bundle_free(&checked);
  if (!st) st = file_map_check(map, path, NULL);
  if (st) return status_while(st, "%s", path);
  TRY(cache_open(bundle->folder));
  TRY(read_bundle(map, import_entry, bundle));
  return file_map_check(map, path, NULL);
}

clave_status cache_import(const char *folder, const char *path, kernel_report report, void *ctx) {
  bundle bundle = {.folder = folder};
  file_map map;
  TRY(file_map_open(path, &map));
  clave_status st = import_map(&bundle, path, &map);
  file_map_close(&map);
  if (!st) report_groups(&bundle, report, ctx);
  bundle_free(&bundle);
  return st;
}
