/* Cached kernel binaries, as they are and with a corrected hash: either found damaged and removed,
 * or returned as they were written. */
#include <inttypes.h>

#include "backend/opencl/program/cache.h"
#include "base/hash.h"
#include "test/fuzz/files.h"

enum { HEADER = 48, AT_KEY = 8, AT_PROVEN = 24, AT_SIZE = 32, AT_HASH = 40 };

static const uint64_t key[2] = {1, 0x123456789abcdef0};

static void load(const char *folder, const uint8_t *bytes, size_t size, int right) {
  char path[128];
  cache_entry entry;
  bool damaged;
  (void)snprintf(path, sizeof path, "%s/%016" PRIx64 "%016" PRIx64 ".clbin", folder, key[0],
                 key[1]);
  put_file(path, bytes, size);
  bool loaded = cache_load(folder, key, &entry, &damaged);
  /* an entry of another version is neither loaded nor damaged */
  require(!(loaded && damaged) && loaded == (access(path, F_OK) == 0) && (loaded || !right));
  if (loaded) {
    size_t proven = entry.n_proven * sizeof *entry.proven;
    require(entry.size == size - HEADER - proven &&
            memcmp(entry.data, bytes + HEADER + proven, entry.size) == 0);
  }
  file_map_close(&entry.map);
}

/* Writes an entry, reads it again, then trims it away. */
static void keep(const char *folder, const uint8_t *bytes, size_t size) {
  const uint64_t proven[3] = {1, 2, UINT64_MAX};
  const cache_entry binary = {.data = bytes, .size = size, .proven = proven, .n_proven = size % 4};
  cache_entry entry;
  cache_stats stats;
  bool damaged;
  uint64_t removed;
  require(is_good(cache_save(folder, key, &binary)) && cache_load(folder, key, &entry, &damaged));
  require(entry.size == size && (size == 0 || memcmp(entry.data, bytes, size) == 0));
  require(entry.n_proven == binary.n_proven &&
          memcmp(entry.proven, proven, entry.n_proven * sizeof *proven) == 0);
  file_map_close(&entry.map);
  require(is_good(cache_info(folder, &stats)) && stats.files == 1);
  require(is_good(cache_trim(folder, 0, &removed)) && removed >= stats.bytes);
}

/* Makes a valid entry of any bytes after the header, with as many proven classes as fit, at most
 * the number that the header has. */
static void put_right(uint8_t *bytes, size_t size) {
  uint64_t rest = size - HEADER, n_proven;
  memcpy(&n_proven, bytes + AT_PROVEN, sizeof n_proven);
  n_proven %= rest / sizeof n_proven + 1;
  uint64_t proven_bytes = n_proven * sizeof n_proven, binary = rest - proven_bytes;
  uint64_t both[2] = {hash_bytes(bytes + HEADER, proven_bytes),
                      hash_bytes(bytes + HEADER + proven_bytes, binary)};
  uint64_t hash = hash_bytes(both, sizeof both);
  memcpy(bytes, "clvbin4", 8);
  memcpy(bytes + AT_KEY, key, sizeof key);
  memcpy(bytes + AT_PROVEN, &n_proven, sizeof n_proven);
  memcpy(bytes + AT_SIZE, &binary, sizeof binary);
  memcpy(bytes + AT_HASH, &hash, sizeof hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = open_fuzz_folder();
  load(folder, data, size, 0);
  if (size >= HEADER) {
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
