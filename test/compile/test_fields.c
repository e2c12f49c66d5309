/* Tests structs that are written as initialisers, and strings as literals. */
#include "compile/fields.h"

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/conv/conv_integer.h"
#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/cpu/kernels/pad.h"

static bool write_place(void *ctx, size_t at, text *to) {
  if (at != *(const size_t *)ctx) return false;
  text_puts(to, "HERE");
  return true;
}

static const struct_info *args_of(const kernel_desc *desc) {
  int i = 0;
  while (kernel_infos[i].kernel != desc) i++;
  return kernel_infos[i].args;
}

/* Expects this text for a struct. pointer: offset of the pointer in the struct. */
static void expect(const kernel_desc *desc, const void *args, size_t pointer, const char *want) {
  text text = {0};
  write_struct(&text, args_of(desc), args, &(pointer_writer){write_place, &pointer});
  assert_string_equal(text.data, want);
  text_free(&text);
}

static void test_what_is_zero_is_left_out(void **state) {
  (void)state;
  const pad_args none = {0};
  expect(&kernel_pad, &none, SIZE_MAX, "{0}");
  expect(&kernel_pad, &none, offsetof(pad_args, out), "{\n      .out = {.data = HERE}}");
  const pad_args some = {
      .mode = KPAD_CIRCULAR, .x = {.type = DTYPE_F64, .rank = 1}, .before = {0, -2}, .value = 5};
  expect(&kernel_pad, &some, SIZE_MAX,
         "{\n      .mode = KPAD_CIRCULAR,\n      .x = {.type = DTYPE_F64, .rank = 1},\n"
         "      .before = {0, -2},\n      .value = 5u}");
}

static void test_numbers_are_read_again(void **state) {
  (void)state;
  const short_elementwise_args args = {
      .head = {.n = INT64_MIN},
      .steps = {{.operand_type = 200}, {.constants = {{0}, {.f = -0.0}}}}};
  expect(&kernel_short_elementwise, &args, SIZE_MAX,
         "{\n      .head = {.n = INT64_MIN},\n      .steps = {{.operand_type = 200u}, "
         "{.constants = {{0}, {.i = INT64_MIN}}}}}");
  const conv_integer_args own = {.conv = {.transposed = true, .dims = {{0}, {.in = 3}}}};
  expect(&kernel_conv_integer, &own, SIZE_MAX,
         "{\n      .conv = {.transposed = true, .dims = {{0}, {.in = 3}}}}");
}

static void test_floats(void **state) {
  (void)state;
  static const struct {
    double value;
    const char *want;
  } rows[] = {{1, "1.0"},      {-0.0, "-0.0"},           {0.1, "0.10000000000000001"},
              {1e22, "1e+22"}, {-INFINITY, "-INFINITY"}, {NAN, "NAN"}};
  static const struct_field field = {"x", 0, sizeof(double), 0, FIELD_F64, NULL, NULL, 0};
  static const struct_info info = {"s", &field, 1};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    text text = {0}, want = {0};
    write_struct(&text, &info, &rows[i].value, &(pointer_writer){0});
    text_printf(&want, "{\n      .x = %s}", rows[i].want);
    assert_string_equal(text.data, want.data);
    text_free(&text);
    text_free(&want);
  }
}

static void test_strings_hold_no_code(void **state) {
  (void)state;
  text text = {0};
  write_string(&text, "a\"b\\c\?\?/\n\xc3\xa9*/");
  assert_string_equal(text.data, "\"a\\042b\\134c\\077\\077/\\012\\303\\251*/\"");
  text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_zero_is_left_out),
      cmocka_unit_test(test_numbers_are_read_again),
      cmocka_unit_test(test_floats),
      cmocka_unit_test(test_strings_hold_no_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
