/* Tests headers of .npy files, which are written and read again. */
#include "base/npy.h"

#include <cmocka.h>
#include <string.h>

static void test_headers(void **state) {
  (void)state;
  static const dtype types[] = {DTYPE_F32, DTYPE_F16,     DTYPE_BF16,    DTYPE_F64, DTYPE_I8,
                                DTYPE_U8,  DTYPE_I64,     DTYPE_BOOL,    DTYPE_U16, DTYPE_U64,
                                DTYPE_I16, DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_I32, DTYPE_U32};
  static const int64_t dims[8] = {2, 1, 3, 1, 1, 1, 1, 2};
  char file[NPY_HEADER_BYTES + 12 * 8];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    for (int rank = 0; rank <= 8; rank++) {
      npy_array array;
      size_t bytes = dtype_size(types[i]), n = npy_write_header(types[i], rank, dims, file);
      for (int d = 0; d < rank; d++) bytes *= (size_t)dims[d];
      memset(file + n, 1, bytes);
      assert_int_equal(n % 64, 0);
      assert_null(npy_read("a.npy", file, n + bytes, &array));
      assert_true(array.type == types[i] && array.rank == rank && array.bytes == bytes &&
                  !array.is_fortran);
      assert_memory_equal(array.dims, dims, (size_t)rank * sizeof *dims);
      assert_ptr_equal(array.data, file + n);
    }
  }
}

static void test_the_longest_header_fits(void **state) {
  (void)state;
  const int64_t most = INT64_MAX;
  const int64_t dims[8] = {most, most, most, most, most, most, most, most};
  char file[NPY_HEADER_BYTES];
  assert_true(npy_write_header(DTYPE_F8_E4M3, 8, dims, file) <= sizeof file);
}

static void test_elements_in_row_major_order(void **state) {
  (void)state;
  const int16_t columns[6] = {1, 4, 2, 5, 3, 6}, want[6] = {1, 2, 3, 4, 5, 6};
  int16_t rows[6];
  const npy_array array = {.type = DTYPE_I16,
                           .rank = 2,
                           .dims = {2, 3},
                           .strides = {1, 2},
                           .is_fortran = true,
                           .data = columns,
                           .bytes = sizeof columns};
  npy_copy(&array, rows);
  assert_memory_equal(rows, want, sizeof want);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_headers),
                                     cmocka_unit_test(test_the_longest_header_fits),
                                     cmocka_unit_test(test_elements_in_row_major_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
