/* Tests the order of devices: GPUs with their own memory, other GPUs, accelerators, CPUs, software
 * renderers. Within each class, an estimate of speed decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "api/internal.h"

static void test_order(void **state) {
  (void)state;
  static const backend_info best_first[] = {
      {.type = "GPU", .name = "with memory", .speed = 6},
      {.type = "GPU", .name = "with memory, slower", .speed = 5},
      {.type = "GPU", .name = "of a laptop", .speed = UINT64_MAX, .shares_host_memory = true},
      {.type = "GPU", .name = "of a phone", .speed = 1, .shares_host_memory = true},
      {.type = "accelerator", .name = "one", .speed = 9},
      {.type = "CPU", .name = "fast", .speed = 9, .shares_host_memory = true},
      {.type = "CPU", .name = "slow", .speed = 0, .shares_host_memory = true},
      {.type = "GPU", .name = "llvmpipe (LLVM 15)", .speed = 99},
  };
  const size_t n = sizeof best_first / sizeof *best_first;
  for (size_t i = 1; i < n; i++)
    assert_true(device_rank(&best_first[i - 1]) > device_rank(&best_first[i]));
  for (size_t i = 0; i < n; i++) assert_true(device_outranks_cpus(&best_first[i]) == (i < 5));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
