/* Which kernels can be parts of joined ones (isolate.c): all but those that are named here, each
 * with the reason. Needs no device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/opencl/device.h"

/* Kernels whose work-items share the memory of a group, or share a file with such. */
static const char *const of_groups[] = {"amx_probe",
                                        "attention_groups",
                                        "attention_team",
                                        "attention_team_token",
                                        "conv_depthwise_lanes",
                                        "conv_groups",
                                        "broadcast_bias",
                                        "conv_groups_depthwise",
                                        "copy_tiles",
                                        "gemm",
                                        "gemm_codes",
                                        "gemm_dots",
                                        "gemm_encoded",
                                        "gemm_local",
                                        "gemm_mma",
                                        "gemm_pack",
                                        "gemm_panels",
                                        "gemv_codes",
                                        "gemv_column_lanes",
                                        "gemv_columns",
                                        "gemv_dots",
                                        "gemv_encoded",
                                        "gemv_row_lanes",
                                        "gemv_rows",
                                        "matmul",
                                        "matmul_dots",
                                        "matmul_encoded",
                                        "mma_probe",
                                        "subgroups_probe",
                                        "winograd_products"};
/* Those of which a macro, where it is set, puts the sums in the memory of a group, or that share a
 * file with such. */
static const char *const of_sums[] = {
    "conv_lanes",       "conv_lanes_words", "conv_pointwise",
    "conv_tiles",       "conv_tiles_pack",  "conv_tiles_row_words",
    "conv_tiles_words", "winograd",         "winograd_factors"};
/* Those one of whose functions asks for the work-item. */
static const char *const of_place[] = {"attention_row", "attention_token"};

#define IS_IN(list, name) is_in(list, sizeof(list) / sizeof *(list), name)

static bool is_in(const char *const *list, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(list[i], name)) return true;
  return false;
}

static bool stays_apart(const char *kernel) {
  return IS_IN(of_groups, kernel) || IS_IN(of_sums, kernel) || IS_IN(of_place, kernel);
}

/* Functions of a text whose names do not begin with `prefix`. */
static int count_bare(const kernel_signature *g, const char *code, const char *prefix) {
  int bare = 0;
  static const char head[] = "static inline ";
  for (const char *at = code; (at = strstr(at, head));) {
    at += sizeof head - 1;
    const char *open = at + strcspn(at, "(\n"), *name = open;
    if (*open != '(') continue;
    while (name > at && name[-1] != ' ' && name[-1] != '*') name--;
    if (strncmp(name, prefix, strlen(prefix)) == 0) continue;
    print_error("%s: %.*s\n", g->kernel, (int)(open - name), name);
    bare++;
  }
  return bare;
}

/* What is wrong with it. */
static int isolate(const cl_device *d, const kernel_signature *g, const char *builtins) {
  static const char prefix[] = "part7_";
  text source = {0}, out = {0};
  bool has_groups = false;
  assert_null(source_of_kernel(d, g, &source));
  const isolated_kernel k = {.source = source.data,
                             .kernel = g->kernel,
                             .options = "",
                             .left_out = builtins,
                             .behind = ""};
  assert_null(source_isolate(&k, prefix, &out, &has_groups));
  int wrong = has_groups ? 0 : count_bare(g, out.data, prefix);
  if (has_groups != stays_apart(g->kernel)) {
    print_error("%s.cl %s: %s\n", g->stem, g->kernel, has_groups ? "stays apart" : "can be joined");
    wrong++;
  }
  text_free(&source);
  text_free(&out);
  return wrong;
}

static void test_kernels(void **state) {
  (void)state;
  const cl_device d = {0};
  text builtins = {0};
  assert_null(source_of_header(&d, "builtins.h", &builtins));
  int wrong = 0;
  for (int i = 0; i < N_KERNELS; i++) wrong += isolate(&d, &kernel_signatures[i], builtins.data);
  text_free(&builtins);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
