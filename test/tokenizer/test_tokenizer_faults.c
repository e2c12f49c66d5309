/* Fails the Nth allocation of a tokenizer's scenario, for all N: an error without a leak, or the
 * right ids and text. */
#include "test/fault_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "clave_tokenizer.h"

enum { MAX_FAULTS = 20000 };

static const char text[] = " the \xE2\x96\x81 ab <s>e\xCC\x81 1234 \xFF don't";
static const char *const folders[] = {"test/fuzz/corpus/tokenizer_json",
                                      "test/fuzz/corpus/tiktoken",
                                      "test/fuzz/corpus/sentencepiece"};

typedef struct scenario {
  clave_tokenizer *tokenizer;
  clave_text_stream *stream;
  clave_ids ids;
  char *back;
  size_t size;
} scenario;

static clave_status run_scenario(scenario *scenario, const char *path) {
  clave_encode_options options = {.size = sizeof options, .bos = true, .eos = true};
  const char *part;
  size_t n;
  TRY(clave_tokenizer_load(path, NULL, &scenario->tokenizer));
  TRY(clave_tokenizer_encode(scenario->tokenizer, text, sizeof text - 1, &options, &scenario->ids));
  TRY(clave_tokenizer_decode(scenario->tokenizer, scenario->ids.items, scenario->ids.count, false,
                             &scenario->back, &scenario->size));
  TRY(clave_text_stream_create(scenario->tokenizer, false, &scenario->stream));
  for (size_t i = 0; i < scenario->ids.count; i++) {
    TRY(clave_text_stream_next(scenario->stream, scenario->ids.items[i], &part, &n));
  }
  return clave_text_stream_finish(scenario->stream, &part, &n);
}

static void end(scenario *alive) {
  clave_text_stream_destroy(alive->stream);
  clave_text_free(alive->back);
  clave_ids_free(&alive->ids);
  clave_tokenizer_destroy(alive->tokenizer);
  *alive = (scenario){0};
}

static void check_same(const scenario *left, const scenario *right) {
  assert_int_equal(left->ids.count, right->ids.count);
  assert_memory_equal(left->ids.items, right->ids.items, left->ids.count * sizeof *left->ids.items);
  assert_int_equal(left->size, right->size);
  assert_memory_equal(left->back, right->back, left->size);
}

static void fail_each(const char *path) {
  scenario good = {0};
  clave_status st = run_scenario(&good, path);
  if (st) { /* some files of the corpus are invalid, or cannot encode the texts */
    clave_status_free(st);
    end(&good);
    return;
  }
  bool came = true;
  for (long n = 0; came && n < MAX_FAULTS; n++) {
    long before = fault_live;
    scenario scenario = {0};
    fault_arm(n);
    st = run_scenario(&scenario, path);
    came = fault_disarm();
    assert_true(came || !st);
    if (st) {
      if (clave_status_code(st) != CLAVE_NO_MEMORY) {
        print_error("%s, allocation %ld: %s\n", path, n, clave_status_message(st));
      }
      assert_int_equal(clave_status_code(st), CLAVE_NO_MEMORY);
    } else {
      check_same(&scenario, &good);
    }
    clave_status_free(st);
    end(&scenario);
    assert_int_equal(fault_live, before);
  }
  end(&good);
}

static void test_folder(const char *folder) {
  folder_entry *entries;
  size_t n;
  assert_null(folder_list(folder, &entries, &n));
  assert_true(n > 0);
  for (size_t i = 0; i < n; i++) {
    char *path = path_join(folder, entries[i].name);
    assert_non_null(path);
    if (entries[i].size < 3000) fail_each(path);
    free(path);
  }
  folder_list_free(entries, n);
}

static void test_out_of_memory(void **state) {
  (void)state;
  if (!fault_alloc_works()) skip();
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) test_folder(folders[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
