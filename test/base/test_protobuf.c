/* Tests of the reader of protocol buffers: groups that are skipped, and repeated numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/protobuf.h"

/* Reads the only field of a message. Returns the message of the error, or "" without one. */
static const char *read_all(const char *bytes, size_t size, int *fields, proto_field *last) {
  static char message[200];
  proto_reader reader = {{bytes, size}, 0};
  proto_field field;
  bool more = true;
  *fields = 0;
  message[0] = 0;
  while (more) {
    clave_status st = proto_next(&reader, &field, &more);
    if (st) {
      (void)snprintf(message, sizeof message, "%s", status_message(st));
      status_free(st);
      return message;
    }
    *fields += more;
    if (more) *last = field;
  }
  return message;
}

static void test_groups(void **state) {
  (void)state;
  proto_field last = {0};
  int fields;
  /* group 1 with a varint and a group 2 in it, then field 3 = 7 */
  assert_string_equal(read_all("\x0B\x08\x05\x13\x14\x0C\x18\x07", 8, &fields, &last), "");
  assert_int_equal(fields, 1);
  assert_int_equal(last.number, 3);
  assert_int_equal(last.value, 7);
  assert_string_equal(read_all("\x0B\x14", 2, &fields, &last), "group 1 ends as group 2; byte 2");
  assert_string_equal(read_all("\x0B\x08\x05", 3, &fields, &last),
                      "the file ends within a field; byte 3 of a message of 3 bytes");
  assert_string_equal(read_all("\x0C", 1, &fields, &last),
                      "field 1 has the unsupported wire type 4; byte 1");
}

static void test_deep_groups(void **state) {
  (void)state;
  proto_field last = {0};
  int fields;
  char bytes[130];
  for (int depth = 64; depth <= 65; depth++) {
    memset(bytes, 0x0B, (size_t)depth);
    memset(bytes + depth, 0x0C, (size_t)depth);
    const char *message = read_all(bytes, 2 * (size_t)depth, &fields, &last);
    assert_int_equal(strstr(message, "nested deeper") != NULL, depth == 65);
  }
}

typedef struct numbers {
  uint64_t items[8];
  int count;
} numbers;

static clave_status add(void *ctx, uint64_t number) {
  numbers *numbers = ctx;
  if (numbers->count == 8) return INVALID("too many");
  numbers->items[numbers->count++] = number;
  return NULL;
}

static void test_numbers(void **state) {
  (void)state;
  numbers found = {0};
  proto_field field = {.number = 1, .wire = PROTO_BYTES, .bytes = {"\x05\x80\x01", 3}};
  assert_null(proto_each_number(&field, PROTO_VARINT, add, &found));
  assert_int_equal(found.count, 2);
  assert_int_equal(found.items[1], 128);
  field = (proto_field){.number = 1, .wire = PROTO_FIXED32, .value = 9};
  assert_null(proto_each_number(&field, PROTO_FIXED32, add, &found));
  assert_int_equal(found.items[2], 9);
  clave_status st = proto_each_number(&field, PROTO_VARINT, add, &found);
  assert_string_equal(status_message(st), "field 1: expected wire type 0, got 5");
  status_free(st);
  field = (proto_field){.number = 1, .wire = PROTO_BYTES, .bytes = {"\1\0\0\0\2\0", 6}};
  st = proto_each_number(&field, PROTO_FIXED32, add, &found);
  assert_non_null(st);
  assert_int_equal(found.count, 4);
  status_free(st);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups),
                                     cmocka_unit_test(test_deep_groups),
                                     cmocka_unit_test(test_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
