/* Files of kernel binaries from another machine are refused with one line, or read as they were
 * written. There is no OpenCL, so that an import saves nothing. */
#include "backend/opencl/program/cache.h"
#include "test/fuzz/files.h"

enum { HEADER = 32, SIZE = 8, ENTRY_HEADER = 144, ABOUT = 40, AT_DRIVER = 128 };

typedef struct counts {
  uint64_t groups, kernels;
} counts;

static void count(void *ctx, const kernel_group *group) {
  counts *counts = ctx;
  require(group->kernels && group->bytes && !group->is_present && !group->added);
  require(!strchr(group->device, '\n') && strlen(group->driver) < 256);
  counts->groups++;
  counts->kernels += group->kernels;
}

/* Imports the bytes into a folder that does not exist. Returns the number of kernels, or -1. */
static int import(const uint8_t *bytes, size_t size) {
  char folder[128];
  counts counts = {0};
  (void)snprintf(folder, sizeof folder, "%s/none", open_fuzz_folder());
  const int good = is_good(cache_import(folder, input_file(bytes, size), count, &counts));
  require(good || !counts.groups);
  (void)rmdir(folder);
  return good ? (int)counts.kernels : -1;
}

/* Exports an entry with the input as its binary, and returns the file. */
static uint8_t *export_one(const uint8_t *data, size_t size, size_t *total) {
  static const char about[] = "platform\ndevice\ndriver\nkernel\noptions..\n";
  const char *folder = open_fuzz_folder();
  const cache_entry entry = {
      .data = data, .size = size, .about = about, .n_about = sizeof about - 1};
  char path[128];
  uint64_t key[2];
  (void)snprintf(path, sizeof path, "%s/exported", folder);
  require(is_good(cache_save(folder, &entry)));
  require(is_good(cache_export(folder, path, NULL, NULL)));
  cache_key(&entry.origin, key);
  cache_remove(folder, key);
  FILE *file = fopen(path, "rb");
  require(file && fseek(file, 0, SEEK_END) == 0);
  *total = (size_t)ftell(file);
  uint8_t *bytes = malloc(*total);
  rewind(file);
  require(bytes && fread(bytes, 1, *total, file) == *total && fclose(file) == 0);
  return bytes;
}

/* Changes a bit of the entry, or truncates the file. */
static void damage(uint8_t *bytes, size_t total, const uint8_t *data, size_t size) {
  const size_t places = ENTRY_HEADER + ABOUT + size,
               at = HEADER + SIZE + (data[0] * 251u + size) % places;
  bytes[at] ^= 1 << data[0] % 8;
  const size_t driver = HEADER + SIZE + AT_DRIVER; /* an import replaces this stamp */
  require(import(bytes, total) < 0 || (at >= driver && at < driver + 8));
  bytes[at] ^= 1 << data[0] % 8;
  require(import(bytes, data[0] * 7919u % total) < 0);
  require(import(bytes, total) == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t total;
  require(setenv("CLAVE_OPENCL_LIBRARY", "off", 1) == 0);
  (void)import(data, size);
  uint8_t *bytes = export_one(data, size, &total);
  require(import(bytes, total) == (size > 0));
  if (size) damage(bytes, total, data, size);
  free(bytes);
  return 0;
}
