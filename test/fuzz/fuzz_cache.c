/* Cached kernel binaries, unchanged and with a corrected hash, are found damaged and removed, or
 * returned as they were written. */
#include <inttypes.h>

#include "backend/opencl/program/cache.h"
#include "base/hash.h"
#include "test/fuzz/files.h"

enum { HEADER = 144, AT_ORIGIN = 8, AT_PROVEN = 104, AT_SIZE = 112, AT_HASH = 120, AT_ABOUT = 136 };

enum { LINES = 14, ABOUT = 16 }; /* offsets of the description and of the data after it */
static const char lines[ABOUT] = "p\nd\nv\nkernel\n\n";

static void load(const char *folder, const uint8_t *bytes, size_t size, int right) {
  char path[128];
  cache_entry entry;
  cache_origin origin = {0};
  uint64_t key[2];
  bool damaged;
  if (size >= HEADER) memcpy(&origin, bytes + AT_ORIGIN, sizeof origin);
  cache_key(&origin, key);
  (void)snprintf(path, sizeof path, "%s/%016" PRIx64 "%016" PRIx64 ".clbin", folder, key[0],
                 key[1]);
  put_file(path, bytes, size);
  bool loaded = cache_load(folder, key, &entry, &damaged);
  /* an entry of another version is neither loaded nor damaged */
  require(!(loaded && damaged) && loaded == (access(path, F_OK) == 0) && (loaded || !right));
  if (loaded) {
    size_t before = (entry.n_about + 7) / 8 * 8 + entry.n_proven * sizeof *entry.proven;
    char line[16];
    for (int i = 0; i < ABOUT_LINES; i++) cache_entry_line(&entry, i, line, sizeof line);
    require(entry.size == size - HEADER - before &&
            memcmp(entry.data, bytes + HEADER + before, entry.size) == 0);
  }
  file_map_close(&entry.map);
  cache_remove(folder, key);
}

/* Writes an entry, reads it, and removes it by trimming the cache. */
static void keep(const char *folder, const uint8_t *bytes, size_t size) {
  const uint64_t proven[3] = {1, 2, UINT64_MAX};
  const cache_entry binary = {.origin = {.source = {size, 1}},
                              .about = lines,
                              .n_about = LINES,
                              .data = bytes,
                              .size = size,
                              .proven = proven,
                              .n_proven = size % 4};
  uint64_t key[2];
  cache_entry entry;
  cache_stats stats;
  bool damaged;
  uint64_t removed;
  cache_key(&binary.origin, key);
  require(is_good(cache_save(folder, &binary)) && cache_load(folder, key, &entry, &damaged));
  require(entry.size == size && (size == 0 || memcmp(entry.data, bytes, size) == 0));
  require(entry.n_proven == binary.n_proven &&
          memcmp(entry.proven, proven, entry.n_proven * sizeof *proven) == 0);
  file_map_close(&entry.map);
  require(is_good(cache_info(folder, &stats)) && stats.files == 1);
  require(is_good(cache_trim(folder, 0, &removed)) && removed >= stats.bytes);
}

/* Makes a valid entry of any bytes after the header and the description, with as many proven
 * classes as fit, at most the number that the header has. */
static void put_right(uint8_t *bytes, size_t size) {
  const uint64_t n_about = LINES;
  uint64_t rest = size - HEADER - ABOUT, n_proven;
  memcpy(&n_proven, bytes + AT_PROVEN, sizeof n_proven);
  n_proven %= rest / sizeof n_proven + 1;
  uint64_t proven_bytes = n_proven * sizeof n_proven, binary = rest - proven_bytes;
  uint64_t all[] = {hash_bytes(bytes + AT_ORIGIN, sizeof(cache_origin)), hash_bytes(lines, n_about),
                    hash_bytes(bytes + HEADER + ABOUT, proven_bytes),
                    hash_bytes(bytes + HEADER + ABOUT + proven_bytes, binary)};
  uint64_t hash = hash_bytes(all, sizeof all);
  memcpy(bytes, "clvbin6", 8);
  memcpy(bytes + AT_ABOUT, &n_about, sizeof n_about);
  memcpy(bytes + HEADER, lines, ABOUT);
  memcpy(bytes + AT_PROVEN, &n_proven, sizeof n_proven);
  memcpy(bytes + AT_SIZE, &binary, sizeof binary);
  memcpy(bytes + AT_HASH, &hash, sizeof hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = open_fuzz_folder();
  load(folder, data, size, 0);
  if (size >= HEADER + ABOUT) {
    uint8_t *bytes = malloc(size);
    require(bytes != NULL);
    memcpy(bytes, data, size);
    put_right(bytes, size);
    load(folder, bytes, size, 1);
    free(bytes);
  }
  keep(folder, data, size);
  return 0;
}
