/* JSON programs: syntax check, decoder, writers, verifier. */
#include "test/fuzz/round_trip.h"

static clave_status decode(const uint8_t *data, size_t size, mem_pool *pool, ir_program *out) {
  return decode_json((const char *)data, size, pool, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_program(data, size, decode);
}
