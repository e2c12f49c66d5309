/* Reads tuning tables, unchanged and with a corrected hash. A damaged table is refused. An accepted
 * one can be used, and stays the same when it is written and read again. */
#include <inttypes.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/tuning.h"
#include "test/fuzz/files.h"

static const char device[] = "device";

static void use(const tuning *tuning) {
  tuning_row row, found;
  for (size_t i = 0; tuning_get(tuning, i, &row); i++) {
    require(tuning_find(tuning, row.family, row.key, &found) &&
            strcmp(found.variant, row.variant) == 0);
    require(*row.family && *row.key && *row.variant && !strpbrk(row.key, "\t\n"));
  }
}

/* Reads a table, writes it over the existing file, and reads it again. */
static void load(const char *path, const uint8_t *bytes, size_t size) {
  tuning *tuning, *again = NULL;
  const char *why;
  put_file(path, bytes, size);
  require(is_good(tuning_create(&tuning)) && is_good(tuning_create(&again)));
  require(is_good(tuning_load(tuning, path, device, &why)));
  require(!why || tuning_count(tuning) == 0);
  use(tuning);
  size_t n = tuning_count(tuning);
  clave_status st = n < TUNING_MAX ? tuning_put(tuning, "family", "a key of its own", "v") : NULL;
  require(is_good(st) && is_good(tuning_save(tuning, open_fuzz_folder(), device)));
  require(is_good(tuning_load(again, path, device, &why)) && !why);
  use(again);
  require(tuning_count(again) >= n);
  tuning_destroy(tuning);
  tuning_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *path = tuning_path(open_fuzz_folder(), device);
  uint8_t *right = malloc(size + 32);
  require(path && right);
  load(path, data, size);
  memcpy(right, data, size);
  int n = snprintf((char *)right + size, 32, "hash %016" PRIx64 "\n", hash_bytes(data, size));
  load(path, right, size + (size_t)n);
  free(right);
  free(path);
  return 0;
}
