/* Random sequences of calls, right and wrong (calls.h): CLAVE_TEST_SEQUENCES of them, 1,000 if that
 * is not set. Run from the project's root. */
#include "test/delegate/calls.h"
#include "test/delegate/plugin.h"

enum { LONGEST = 400 };

static void test_calls(void **state) {
  (void)state;
  size_t size;
  void *library = load_plugin(), *clv = read_file("test/fuzz/corpus/clv/valid", &size);
  const char *given = getenv("CLAVE_TEST_SEQUENCES"), *turn = getenv("CLAVE_TEST_TURN");
  const long n = given ? atol(given) : 1000;
  uint64_t random = 1;
  for (; turn && *turn; turn++) random = random * 31 + (unsigned char)*turn;
  long n_good = 0, n_results = 0;
  uint8_t bytes[LONGEST];
  for (long i = 0; i < n; i++) {
    const uint64_t seed = random;
    for (int k = 0; k < LONGEST; k++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      bytes[k] = (uint8_t)(random >> 56);
    }
    if (getenv("CLAVE_TEST_SEEDS")) print_message("%llu\n", (unsigned long long)seed);
    const calls calls = run_calls(&d, clv, size, bytes, 20 + random % (LONGEST - 20));
    n_good += calls.n_good;
    n_results += calls.n_results;
  }
  assert_true(n_good > n / 2 && n_results > n / 4);
  print_message("%ld good runs, %ld results\n", n_good, n_results);
  print_message("%ld sequences\n", n);
  free(clv);
  assert_int_equal(dlclose(library), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
