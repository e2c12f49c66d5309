/* .clv files. The hashes are corrected first, or else almost every input would be refused. */
#include "base/hash.h"
#include "test/fuzz/round_trip.h"

enum { HEADER = 64, SECTION = 32, MAX_SECTIONS = 64 };

static void put_u64(uint8_t *at, uint64_t v) { memcpy(at, &v, sizeof v); }

static uint64_t get_u64(const uint8_t *at) {
  uint64_t v;
  memcpy(&v, at, sizeof v);
  return v;
}

static void fix_hashes(uint8_t *bytes, size_t size) {
  uint32_t n;
  if (size < HEADER) return;
  memcpy(&n, bytes + 24, sizeof n);
  if (n > MAX_SECTIONS || size < HEADER + (size_t)n * SECTION) return;
  put_u64(bytes + 16, size);
  for (uint32_t i = 0; i < n; i++) {
    uint8_t *s = bytes + HEADER + (size_t)i * SECTION;
    uint64_t offset = get_u64(s + 8), bytes_of = get_u64(s + 16);
    if (memcmp(s, "CONS", 4) == 0 || offset > size || bytes_of > size - offset) continue;
    put_u64(s + 24, hash_bytes(bytes + offset, (size_t)bytes_of));
  }
  put_u64(bytes + 32, 0);
  put_u64(bytes + 32, hash_bytes(bytes, HEADER + (size_t)n * SECTION));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *bytes = aligned_alloc(64, (size + 64) / 64 * 64);
  program *program = NULL;
  require(bytes && !program_new(&program));
  memcpy(bytes, data, size);
  fix_hashes(bytes, size);
  clave_status st = clv_read(program, bytes, size);
  if (!st) st = program_check_hashes(program);
  (void)is_good(st);
  program_destroy(program);
  free(bytes);
  return 0;
}
