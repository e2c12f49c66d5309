/* Cached kernel binaries, as they are and with their hash put right: found damaged and removed, or
 * given back as they were written. */
#include <inttypes.h>

#include "backend/opencl/cache.h"
#include "base/hash.h"
#include "test/fuzz/files.h"

enum { HEADER = 56, AT_KEY = 8, AT_SIZE = 40, AT_HASH = 48 };

static const uint64_t key[2] = {1, 0x123456789abcdef0};

static void load(const char *folder, const uint8_t *bytes, size_t size, int right) {
  char path[128];
  cache_entry e;
  bool damaged;
  (void)snprintf(path, sizeof path, "%s/%016" PRIx64 "%016" PRIx64 ".clbin", folder, key[0],
                 key[1]);
  put_file(path, bytes, size);
  bool loaded = cache_load(folder, key, &e, &damaged);
  require(loaded != damaged && loaded == (access(path, F_OK) == 0) && (loaded || !right));
  if (loaded) require(e.size == size - HEADER && memcmp(e.data, bytes + HEADER, e.size) == 0);
  file_map_close(&e.map);
}

/* Written and read again, then trimmed away. */
static void keep(const char *folder, const uint8_t *bytes, size_t size) {
  cache_entry e;
  cache_stats stats;
  bool damaged;
  uint64_t removed;
  require(is_good(cache_save(folder, key, bytes, size, 3, 1)) &&
          cache_load(folder, key, &e, &damaged));
  require(e.size == size && e.variants == 3 && e.proven == 1 &&
          (size == 0 || memcmp(e.data, bytes, size) == 0));
  file_map_close(&e.map);
  require(is_good(cache_info(folder, &stats)) && stats.files == 1);
  require(is_good(cache_trim(folder, 0, &removed)) && removed == stats.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = open_fuzz_folder();
  load(folder, data, size, 0);
  if (size >= HEADER) {
    uint8_t *bytes = malloc(size);
    uint64_t rest = size - HEADER, hash = hash_bytes(data + HEADER, size - HEADER);
    require(bytes != NULL);
    memcpy(bytes, data, size);
    memcpy(bytes, "clvbin2", 8);
    memcpy(bytes + AT_KEY, key, sizeof key);
    memcpy(bytes + AT_SIZE, &rest, sizeof rest);
    memcpy(bytes + AT_HASH, &hash, sizeof hash);
    load(folder, bytes, size, 1);
    free(bytes);
  }
  keep(folder, data, size);
  return 0;
}
