/* Rules of attention over caches and pages: accepted ops, and messages for the others. */
#include "ops/fixture.h"

static void cached_attention(void **state) {
  (void)state;
  fixture_reset();
  uint32_t q = slot(DTYPE_F16, 4, 2, 8, -1, 16), k = slot(DTYPE_F16, 4, 2, 2, -1, 16),
           v = slot(DTYPE_F16, 4, 2, 2, -1, 12), keys = slot(DTYPE_I8, 4, 2, 2, 9, 16),
           values = slot(DTYPE_I8, 4, 2, 2, 9, 12), scale = slot(DTYPE_F32, 3, 2, 2, 9);
  ir_attention_cached a = {.q = q,
                           .k = k,
                           .v = v,
                           .position = slot(DTYPE_I64, 0),
                           .key_cache = keys,
                           .value_cache = values,
                           .key_scale = scale,
                           .value_scale = scale,
                           .out = slot(DTYPE_F16, 4, 2, 8, -1, 12),
                           .key_cache_out = keys,
                           .value_cache_out = values,
                           .key_scale_out = scale,
                           .value_scale_out = scale,
                           .sinks = IR_NONE};
  expect_good(IR_OP_ATTENTION_CACHED, &a);
  a.sinks = slot(DTYPE_F32, 1, 8);
  expect_good(IR_OP_ATTENTION_CACHED, &a);
  a.sinks = slot(DTYPE_F32, 1, 2);
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "sinks: expected F32 (8), got F32 (2)");
  a.sinks = IR_NONE;
  a.window = (ir_opt_i64){10, true};
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "window: expected 1 to the cache's 9 rows, got 10");
  a.window.value = 9;
  expect_good(IR_OP_ATTENTION_CACHED, &a);
  a.softcap = (ir_opt_f64){0, true};
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "softcap: expected a finite positive number, got 0");
  a.softcap.present = false, a.value_scale_out = IR_NONE;
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "value_scale_out is missing for a cache of I8");
  a.value_cache = a.value_cache_out = slot(DTYPE_I8, 4, 2, 2, 8, 12);
  expect_bad(IR_OP_ATTENTION_CACHED, &a,
             "value_cache: expected I8 (2, 2, 9, 12), got I8 (2, 2, 8, 12)");
  a.position = slot(DTYPE_I32, 0);
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "position: expected one I64, got I32 ()");
  a.position = slot(DTYPE_I64, 1, 2);
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "position: expected one I64, got I64 (2)");
  a.position = slot(DTYPE_I64, 1, 1),
  a.key_cache = a.key_cache_out = slot(DTYPE_F32, 4, 2, 2, 9, 16);
  a.value_cache = a.value_cache_out = slot(DTYPE_F32, 4, 2, 2, 9, 12);
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "key_scale is given for a cache of F32");
  a.key_scale = a.value_scale = a.key_scale_out = a.value_scale_out = IR_NONE;
  expect_good(IR_OP_ATTENTION_CACHED, &a);
  a.window.present = false, a.k = slot(DTYPE_F16, 4, 2, 2, 10, 16);
  a.v = slot(DTYPE_F16, 4, 2, 2, 10, 12);
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "10 new rows do not fit into a cache of 9");
  a.q = slot(DTYPE_F64, 4, 2, 8, -1, 16);
  expect_bad(IR_OP_ATTENTION_CACHED, &a, "q: expected F32, F16 or BF16, got F64");
}

static void paged_attention(void **state) {
  (void)state;
  fixture_reset();
  uint32_t q = slot(DTYPE_F16, 4, 1, 8, -1, 16), k = slot(DTYPE_F16, 4, 1, 2, -1, 16),
           keys = slot(DTYPE_F32, 4, 7, 2, 32, 16), of_each = slot(DTYPE_I64, 1, -1);
  ir_attention_paged a = {.q = q,
                          .k = k,
                          .v = k,
                          .position = of_each,
                          .sequence = slot(DTYPE_I32, 1, -1),
                          .page_table = slot(DTYPE_I32, 2, -1, -1),
                          .key_cache = keys,
                          .value_cache = keys,
                          .key_scale = IR_NONE,
                          .value_scale = IR_NONE,
                          .out = slot(DTYPE_F16, 4, 1, 8, -1, 16),
                          .key_cache_out = keys,
                          .value_cache_out = keys,
                          .key_scale_out = IR_NONE,
                          .value_scale_out = IR_NONE,
                          .sinks = IR_NONE};
  expect_good(IR_OP_ATTENTION_PAGED, &a);
  a.window = (ir_opt_i64){0, true};
  expect_bad(IR_OP_ATTENTION_PAGED, &a, "window: expected 1 or more, got 0");
  a.window.value = 1000, a.sequence = of_each;
  expect_bad(IR_OP_ATTENTION_PAGED, &a, "sequence: expected I32 (?), got I64");
  a.sequence = slot(DTYPE_I32, 1, -1), a.page_table = slot(DTYPE_I32, 1, 7);
  expect_bad(IR_OP_ATTENTION_PAGED, &a, "page_table: expected I32 (?, ?), got I32 (7)");
  a.page_table = slot(DTYPE_I32, 2, 3, 4);
  for (int64_t rows = 8; rows <= 24; rows += 16) {
    a.key_cache = a.value_cache = a.key_cache_out = a.value_cache_out =
        slot(DTYPE_F32, 4, 7, 2, (int)rows, 16);
    expect_bad(IR_OP_ATTENTION_PAGED, &a, "pages: expected a power of two from 16 to 65536");
  }
  a.q = slot(DTYPE_F16, 4, 2, 8, -1, 16);
  expect_bad(IR_OP_ATTENTION_PAGED, &a, "q: expected 1 batch, got 2");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cached_attention),
                                     cmocka_unit_test(paged_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
