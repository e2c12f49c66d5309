#ifndef TEST_FUZZ_ROUND_TRIP_H
#define TEST_FUZZ_ROUND_TRIP_H
/* Round trips that each decoded program must survive: both writers, their readers, the verifier. */
#include "serialize/decode.h"
#include "serialize/encode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"
#include "test/fuzz/target.h"

/* The decoder refuses strings that JSON cannot represent, so each decoded program can be written
 * and read again. */
static inline void check_round_trip(const ir_program *ir) {
  mem_pool *pool;
  ir_program a = {0}, b = {0};
  text lines = {0}, first = {0}, second = {0};
  require(!mem_pool_create(&pool));
  require(!encode_flatbuffer(ir, &first));
  require(!decode_flatbuffer(first.data, first.size, pool, &a));
  require(!encode_json(&a, &lines));
  require(!decode_json(lines.data, lines.size, pool, &b));
  require(!encode_flatbuffer(&b, &second));
  require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
  text_free(&lines);
  text_free(&first);
  text_free(&second);
  mem_pool_destroy(pool);
}

/* Decodes with `decode`. A decoded program is written, read and verified. */
static inline int fuzz_program(const uint8_t *data, size_t size,
                               clave_status (*decode)(const uint8_t *, size_t, mem_pool *,
                                                      ir_program *)) {
  program *program;
  require(!program_new(&program));
  clave_status st = decode(data, size, program->pool, &program->ir);
  if (!st && size < 20000) check_round_trip(&program->ir);
  if (!st) st = verify_program(program);
  (void)is_good(st);
  program_destroy(program);
  return 0;
}

#endif
