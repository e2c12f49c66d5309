/* Tests structs that begin with their size. Exactly the bytes of the caller's struct are read and
 * written, and a size that is not set is an error. Blocks have exactly the struct's size, so that
 * the sanitizer sees other accesses. Run from the project's root. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_debug.h"
#include "clave_files.h"
#include "clave_llm.h"
#include "clave_tune.h"
#include "test/api/expect.h"

#define MNIST "examples/mnist/mnist.clv"
#define TINYLM "examples/tinylm/tinylm.clv"
#define FIRST(type, last) (offsetof(type, last) + sizeof((type *)0)->last)

typedef struct objects {
  clave_device *device;
  clave_program *program, *packed;
  clave_session *session;
  clave_llm *llm;
  clave_placement *places;
} objects;

static clave_status get_device(const objects *objects, void *info) {
  return clave_device_get_info(objects->device, info);
}
static clave_status get_listed(const objects *objects, void *info) {
  (void)objects;
  return clave_devices_get(0, info);
}
static clave_status get_program(const objects *objects, void *info) {
  return clave_program_get_info(objects->program, info);
}
static clave_status get_method(const objects *objects, void *info) {
  return clave_program_method(objects->program, 0, info);
}
static clave_status get_input(const objects *objects, void *info) {
  return clave_program_input(objects->program, NULL, 0, info);
}
static clave_status get_output(const objects *objects, void *info) {
  return clave_program_output(objects->program, NULL, 0, info);
}
static clave_status get_slot(const objects *objects, void *info) {
  return clave_program_slot(objects->program, 0, info);
}
static clave_status get_node(const objects *objects, void *info) {
  return clave_program_node(objects->program, NULL, 0, info);
}
static clave_status get_memory(const objects *objects, void *info) {
  return clave_session_memory(objects->session, info);
}
static clave_status get_form(const objects *objects, void *info) {
  return clave_program_packed_weight(objects->packed, 0, info);
}
static clave_status get_place(const objects *objects, void *info) {
  return clave_placement_get(objects->places, NULL, 0, info);
}
static clave_status get_block(const objects *objects, void *info) {
  return clave_session_block(objects->session, NULL, 0, info);
}
static clave_status get_cache(const objects *objects, void *info) {
  (void)objects;
  return clave_cache_get_info(info);
}
static clave_status get_tuning(const objects *objects, void *info) {
  clave_tuning_row row = {.size = sizeof row};
  good(clave_tuning_put(objects->device, "family", "key", "variant"));
  good(clave_tuning_get(objects->device, 0, &row));
  for (size_t i = strlen(row.variant); i < sizeof row.variant; i++)
    assert_int_equal(row.variant[i], 0);
  return clave_tuning_get(objects->device, 0, info);
}
static clave_status get_tokenizer(const objects *objects, void *info) {
  clave_llm_info llm = {.size = sizeof llm};
  good(clave_llm_get_info(objects->llm, &llm));
  return clave_tokenizer_get_info(llm.tokenizer, info);
}
static clave_status get_llm(const objects *objects, void *info) {
  return clave_llm_get_info(objects->llm, info);
}

/* first: bytes of the first version. size: bytes of the struct in the header. */
static const struct getter {
  const char *type;
  clave_status (*get)(const objects *, void *);
  size_t first, size;
} getters[] = {
    {"clave_device_info", get_device, FIRST(clave_device_info, index), sizeof(clave_device_info)},
    {"clave_device_info", get_listed, FIRST(clave_device_info, index), sizeof(clave_device_info)},
    {"clave_program_info", get_program, FIRST(clave_program_info, state_bytes),
     sizeof(clave_program_info)},
    {"clave_packed_weight_info", get_form, FIRST(clave_packed_weight_info, bytes),
     sizeof(clave_packed_weight_info)},
    {"clave_method_info", get_method, FIRST(clave_method_info, n_nodes), sizeof(clave_method_info)},
    {"clave_tensor_info", get_input, FIRST(clave_tensor_info, encoding), sizeof(clave_tensor_info)},
    {"clave_tensor_info", get_output, FIRST(clave_tensor_info, encoding),
     sizeof(clave_tensor_info)},
    {"clave_tensor_info", get_slot, FIRST(clave_tensor_info, encoding), sizeof(clave_tensor_info)},
    {"clave_node_info", get_node, FIRST(clave_node_info, writes), sizeof(clave_node_info)},
    {"clave_memory_info", get_memory, FIRST(clave_memory_info, constant_bytes_in_place),
     sizeof(clave_memory_info)},
    {"clave_placement_info", get_place, FIRST(clave_placement_info, supported),
     sizeof(clave_placement_info)},
    {"clave_block_info", get_block, FIRST(clave_block_info, node), sizeof(clave_block_info)},
    {"clave_cache_info", get_cache, FIRST(clave_cache_info, limit_bytes), sizeof(clave_cache_info)},
    {"clave_tuning_row", get_tuning, FIRST(clave_tuning_row, variant), sizeof(clave_tuning_row)},
    {"clave_tokenizer_info", get_tokenizer, FIRST(clave_tokenizer_info, eos),
     sizeof(clave_tokenizer_info)},
    {"clave_llm_info", get_llm, FIRST(clave_llm_info, chat_template), sizeof(clave_llm_info)},
};
enum { GETTERS = sizeof getters / sizeof *getters, BEYOND = 64 };

static void expect_refused(clave_status st) {
  assert_int_equal(clave_status_code(st), CLAVE_INVALID);
  clave_status_free(st);
}

/* Checks the blocks of a session. Constants are stored elsewhere, so no block holds one. */
static void check_blocks(const clave_session *session, uint32_t blocks, uint32_t commands) {
  for (uint32_t i = 0; i < blocks; i++) {
    clave_block_info info = {.size = sizeof info};
    good(clave_session_block(session, NULL, i, &info));
    assert_int_not_equal(info.kind, CLAVE_SLOT_CONSTANT);
    assert_true(info.bytes > 0 && info.first <= info.last && info.last < commands);
    assert_string_equal(info.device, "cpu");
  }
}

static void run_once(clave_session *session) {
  static float image[28 * 28];
  const clave_tensor tensor =
      clave_tensor_make(CLAVE_F32, 4, (const int64_t[]){1, 1, 28, 28}, image);
  clave_block_info none = {.size = sizeof none};
  uint32_t blocks, commands;
  expect_refused(clave_session_count_blocks(session, NULL, &blocks, &commands));
  good(clave_session_set_input(session, NULL, 0, &tensor));
  good(clave_session_run(session, NULL));
  good(clave_session_count_blocks(session, NULL, &blocks, &commands));
  assert_true(blocks > 2 && commands > 2);
  check_blocks(session, blocks, commands);
  expect_refused(clave_session_block(session, NULL, blocks, &none));
}

static objects open_objects(void) {
  objects objects;
  good(clave_device_open("cpu", NULL, &objects.device));
  good(clave_program_load(MNIST, NULL, &objects.program));
  good(clave_program_load(MNIST, NULL, &objects.packed));
  good(clave_program_pack(objects.packed, objects.device, NULL));
  good(clave_session_create(objects.program, objects.device, NULL, &objects.session));
  run_once(objects.session);
  good(clave_session_placement(objects.session, &objects.places));
  good(clave_llm_load(TINYLM, objects.device, NULL, &objects.llm));
  return objects;
}

static void close_objects(objects *objects) {
  clave_llm_destroy(objects->llm);
  clave_placement_destroy(objects->places);
  clave_session_destroy(objects->session);
  clave_program_destroy(objects->program);
  clave_program_destroy(objects->packed);
  clave_device_destroy(objects->device);
}

/* Returns a struct of `size` bytes, filled with a pattern, whose size member is `size`. */
static uint8_t *make_struct(size_t size) {
  uint8_t *bytes = malloc(size);
  assert_non_null(bytes);
  memset(bytes, 0xa5, size);
  memcpy(bytes, &size, sizeof size);
  return bytes;
}

/* Expects equal first and last fields of the first version; there may be padding between them. */
static void expect_same_ends(const uint8_t *small, const uint8_t *large, size_t first) {
  assert_memory_equal(small + sizeof(size_t), large + sizeof(size_t), 8);
  size_t last = first % 4 ? 1 : 4; /* size of the last field: a bool, or part of a wider one */
  assert_memory_equal(small + first - last, large + first - last, last);
}

static void test_info_sizes(void **state) {
  (void)state;
  objects objects = open_objects();
  for (size_t i = 0; i < GETTERS; i++) {
    const struct getter *getter = &getters[i];
    uint8_t *small = make_struct(getter->first), *large = make_struct(getter->size + BEYOND);
    good(getter->get(&objects, small));
    good(getter->get(&objects, large));
    expect_same_ends(small, large, getter->first);
    assert_memory_equal(small, &getter->first, sizeof(size_t)); /* the caller's size stands */
    for (size_t k = getter->size; k < getter->size + BEYOND; k++) assert_int_equal(large[k], 0xa5);
    free(small);
    free(large);
  }
  close_objects(&objects);
}

static void test_info_too_small(void **state) {
  (void)state;
  objects objects = open_objects();
  for (size_t i = 0; i < GETTERS; i++) {
    const struct getter *getter = &getters[i];
    const size_t sizes[] = {0, sizeof(size_t), getter->first - 1};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      uint8_t *bytes = make_struct(getter->first), *before = make_struct(getter->first);
      memcpy(bytes, &sizes[k], sizeof *sizes);
      memcpy(before, &sizes[k], sizeof *sizes);
      expect_too_small(getter->get(&objects, bytes), getter->type, sizes[k]);
      assert_memory_equal(bytes, before, getter->first);
      free(bytes);
      free(before);
    }
  }
  close_objects(&objects);
}

static void test_options_too_small(void **state) {
  (void)state;
  objects objects = open_objects(), made = {0};
  clave_program_options program = {0};
  clave_device_options device = {.size = sizeof(size_t)};
  clave_session_options session = {.size = FIRST(clave_session_options, seed) - 1};
  clave_llm_options llm = {.size = 1};
  clave_llm_conversation_options talk = {.size = sizeof talk, .session = &session};
  clave_llm_conversation *conversation;
  clave_sampler *sampler;
  clave_tokenizer *tokenizer;
  expect_invalid(clave_program_load(MNIST, &program, &made.program), "clave_program_options: size");
  expect_too_small(clave_device_open("cpu", &device, &made.device), "clave_device_options",
                   sizeof(size_t));
  expect_invalid(clave_session_create(objects.program, objects.device, &session, &made.session),
                 "clave_session_options: size");
  expect_too_small(clave_llm_load(TINYLM, objects.device, &llm, &made.llm), "clave_llm_options", 1);
  expect_invalid(clave_llm_conversation_create(objects.llm, &talk, &conversation),
                 "clave_session_options: size");
  talk.size = 0;
  expect_too_small(clave_llm_conversation_create(objects.llm, &talk, &conversation),
                   "clave_llm_conversation_options", 0);
  expect_too_small(clave_sampler_create(&(clave_sampler_options){.top_k = 1}, &sampler),
                   "clave_sampler_options", 0);
  expect_too_small(clave_tokenizer_create("x", 1, &(clave_tokenizer_options){0}, &tokenizer),
                   "clave_tokenizer_options", 0);
  assert_true(!made.program && !made.device && !made.session && !made.llm && !conversation);
  assert_true(!sampler && !tokenizer);
  close_objects(&objects);
}

/* The options of a caller of a later version are longer. Their known part is used. */
static void test_longer_options(void **state) {
  (void)state;
  clave_device *device;
  uint8_t *longer = make_struct(sizeof(clave_device_options) + BEYOND);
  clave_device_options options = {.size = sizeof options + BEYOND, .n_threads = -3};
  memcpy(longer, &options, sizeof options);
  expect_invalid(clave_device_open("cpu", (const void *)longer, &device), "got -3");
  free(longer);
}

/* A language model keeps its device. */
static void test_llm_outlives_device(void **state) {
  (void)state;
  objects objects = {0};
  clave_llm_conversation *talk;
  clave_llm_token token;
  const uint32_t prompt[] = {1, 2};
  good(clave_device_open("cpu", NULL, &objects.device));
  good(clave_llm_load(TINYLM, objects.device, NULL, &objects.llm));
  clave_device_destroy(objects.device);
  good(clave_llm_conversation_create(objects.llm, NULL, &talk));
  clave_llm_destroy(objects.llm);
  good(clave_llm_prompt(talk, prompt, 2));
  good(clave_llm_next(talk, &token));
  clave_llm_conversation_destroy(talk);
}

static void test_device_list(void **state) {
  (void)state;
  int count, defaults = 0;
  clave_device_info info = {.size = sizeof info};
  good(clave_devices_count(&count));
  assert_true(count >= 1);
  for (int i = 0; i < count; i++) {
    good(clave_devices_get(i, &info));
    assert_int_equal(info.index, i + 1 < count ? i : -1);
    defaults += info.is_default;
  }
  assert_int_equal(defaults, 1);
  assert_string_equal(info.kind, "cpu");
  char expected[96];
  (void)snprintf(expected, sizeof expected, "index %d is out of range: there are %d devices", count,
                 count);
  expect_invalid(clave_devices_get(count, &info), expected);
  expect_invalid(clave_devices_get(-1, &info), "index -1 is out of range");
}

static void test_encoding(void **state) {
  (void)state;
  objects objects = open_objects();
  clave_tensor_info info = {.size = sizeof info, .encoding = (clave_encoding)7};
  good(clave_program_slot(objects.program, 0, &info));
  assert_int_equal(info.kind, CLAVE_SLOT_CONSTANT);
  assert_int_equal(info.encoding, CLAVE_ENCODING_PLAIN);
  close_objects(&objects);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_info_sizes),          cmocka_unit_test(test_info_too_small),
      cmocka_unit_test(test_options_too_small),   cmocka_unit_test(test_longer_options),
      cmocka_unit_test(test_device_list),         cmocka_unit_test(test_encoding),
      cmocka_unit_test(test_llm_outlives_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
