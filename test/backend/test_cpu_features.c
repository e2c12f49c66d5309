/* Tests the processor features that kernels see: the real ones, or those that a thread pretends to
 * have. */
#include "backend/cpu/kernels/support/features.h"

#include <cmocka.h>

#include "backend/cpu/recorded.h"
#include "backend/cpu_levels.h"
#include "base/threads.h"

static int count_features(void) {
  return cpu_has_avx2() + cpu_has_avx512() + cpu_has_avx512_vnni() + cpu_has_avx512_bf16() +
         cpu_has_dotprod() + cpu_has_i8mm() + cpu_has_arm_bf16();
}

/* Each kind has the features of the one before, and more. */
static void test_kinds(void **state) {
  (void)state;
  const int own = count_features();
  int before = -1;
  for (int kind = KIND_PORTABLE; kind <= KIND_ALL; kind++) {
    cpu_pretend((cpu_kind)kind);
    assert_true(count_features() >= before);
    before = count_features();
    if (kind == KIND_PORTABLE) assert_int_equal(before, 0);
  }
#if KERNEL_X86
  assert_int_equal(before, 4);
#elif KERNEL_ARM
  assert_int_equal(before, 3);
#endif
  cpu_pretend(KIND_OWN);
  assert_int_equal(count_features(), own);
}

static void count_elsewhere(void *ctx) { *(int *)ctx = count_features(); }

static void test_other_threads_do_not_pretend(void **state) {
  (void)state;
  const int own = count_features();
  int there = -1;
  thread *thread;
  cpu_pretend(KIND_PORTABLE);
  assert_null(thread_create(count_elsewhere, &there, &thread));
  thread_join(thread);
  assert_int_equal(count_features(), 0);
  cpu_pretend(KIND_OWN);
  assert_int_equal(there, own);
}

/* Each level that a loop visits has more features than the one before, none is left out, and after
 * the last level kernels use all features. */
static void test_levels(void **state) {
  (void)state;
  int counts[CPU_AMX + 1], visited = 0;
  bool is_new[CPU_AMX + 1] = {false};
  for (int level = CPU_PORTABLE; level <= CPU_AMX; level++) {
    counts[level] = count_instruction_sets((cpu_level)level);
    is_new[level] = level == CPU_PORTABLE || counts[level] > counts[level - 1];
  }
  assert_int_equal(counts[CPU_PORTABLE], 0);
  for (cpu_level level = CPU_PORTABLE; level <= CPU_AMX; level = next_level(level)) {
    assert_true(is_new[level]);
    is_new[level] = false;
    visited++;
  }
  for (int level = CPU_PORTABLE; level <= CPU_AMX; level++) assert_false(is_new[level]);
  assert_true(visited >= 1);
  assert_int_equal(count_features() + cpu_has_amx(), counts[CPU_AMX]);
}

static size_t scratch_of_kind(const kernel_context *ctx, const void *args) {
  (void)args;
  return (size_t)(cpu_has_avx512() ? 100 : cpu_has_avx2() ? 300 : 200) * (size_t)ctx->n_threads;
}

/* Scratch memory suffices for every kind of processor, or for the named level. */
static void test_scratch_memory(void **state) {
  (void)state;
  const kernel_desc desc = {.name = "some", .scratch = scratch_of_kind}, none = {.name = "none"};
  const cpu_command command = {.desc = &desc}, other = {.desc = &none};
#if KERNEL_X86
  assert_int_equal(cpu_command_scratch(&command, 1, NULL), 300);
  assert_int_equal(cpu_command_scratch(&command, 2, NULL), 600);
  assert_int_equal(cpu_command_scratch(&command, 1, "portable"), 200);
  assert_int_equal(cpu_command_scratch(&command, 1, "x86-64 avx2"), 300);
  assert_int_equal(cpu_command_scratch(&command, 1, "x86-64 avx512"), 100);
  assert_int_equal(cpu_command_scratch(&command, 1, "aarch64"), 0);
#else
  assert_int_equal(cpu_command_scratch(&command, 1, NULL), 200);
#endif
  assert_int_equal(cpu_command_scratch(&other, 1, NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_other_threads_do_not_pretend),
      cmocka_unit_test(test_levels),
      cmocka_unit_test(test_scratch_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
