/* Out of memory at the Nth allocation of a tokenizer's life, for all N: an error without a leak, or
 * the right ids and text. */
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

typedef struct life {
  clave_tokenizer *tokenizer;
  clave_text_stream *stream;
  clave_ids ids;
  char *back;
  size_t size;
} life;

static clave_status live(life *life, const char *path) {
  clave_encode_options options = {.size = sizeof options, .bos = true, .eos = true};
  const char *part;
  size_t n;
  TRY(clave_tokenizer_load(path, NULL, &life->tokenizer));
  TRY(clave_tokenizer_encode(life->tokenizer, text, sizeof text - 1, &options, &life->ids));
  TRY(clave_tokenizer_decode(life->tokenizer, life->ids.items, life->ids.count, false, &life->back,
                             &life->size));
  TRY(clave_text_stream_create(life->tokenizer, false, &life->stream));
  for (size_t i = 0; i < life->ids.count; i++) {
    TRY(clave_text_stream_next(life->stream, life->ids.items[i], &part, &n));
  }
  return clave_text_stream_finish(life->stream, &part, &n);
}

static void end(life *alive) {
  clave_text_stream_destroy(alive->stream);
  clave_text_free(alive->back);
  clave_ids_free(&alive->ids);
  clave_tokenizer_destroy(alive->tokenizer);
  *alive = (life){0};
}

static void check_same(const life *left, const life *right) {
  assert_int_equal(left->ids.count, right->ids.count);
  assert_memory_equal(left->ids.items, right->ids.items, left->ids.count * sizeof *left->ids.items);
  assert_int_equal(left->size, right->size);
  assert_memory_equal(left->back, right->back, left->size);
}

static void fail_each(const char *path) {
  life good = {0};
  clave_status st = live(&good, path);
  if (st) { /* some of the corpus are wrong, or their texts are not for them */
    clave_status_free(st);
    end(&good);
    return;
  }
  bool came = true;
  for (long n = 0; came && n < MAX_FAULTS; n++) {
    long before = fault_live;
    life life = {0};
    fault_arm(n);
    st = live(&life, path);
    came = fault_disarm();
    assert_true(came || !st);
    if (st) {
      if (clave_status_code(st) != CLAVE_NO_MEMORY) {
        print_error("%s, allocation %ld: %s\n", path, n, clave_status_message(st));
      }
      assert_int_equal(clave_status_code(st), CLAVE_NO_MEMORY);
    } else {
      check_same(&life, &good);
    }
    clave_status_free(st);
    end(&life);
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
