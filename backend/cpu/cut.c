/* The cuts of products among which the tuner chooses. */
#include "backend/cpu/cut.h"

/* parameters: columns and rows of a task, as in gemm_cut. False if it exceeds the product. */
static bool cuts_something(const void *sizes, const kernel_variant *variant) {
  const cut_sizes *cut_sizes = sizes;
  const int64_t columns = variant->parameters[0], rows = variant->parameters[1];
  return columns < 2 * cut_sizes->n && rows < cut_sizes->m && (!rows || !cut_sizes->a_is_packed);
}

static const kernel_variant cuts[] = {{.name = "rule"},
                                      {"columns 64", cuts_something, .parameters = {64, 0}},
                                      {"columns 128", cuts_something, .parameters = {128, 0}},
                                      {"columns 512", cuts_something, .parameters = {512, 0}},
                                      {"columns 2048", cuts_something, .parameters = {2048, 0}},
                                      {"rows 96", cuts_something, .parameters = {0, 96}},
                                      {"rows 192", cuts_something, .parameters = {0, 192}}};

gemm_cut choose_cut(cpu_recorder *recorder, const cut_sizes *sizes) {
  tuning_key key = cpu_key(recorder);
  if (!key.is_wanted || sizes->k == 0) return (gemm_cut){0};
  tuning_key_text(&key, "op", sizes->op);
  tuning_key_text(&key, "type", dtype_name(sizes->type));
  tuning_key_text(&key, "b", dtype_name(sizes->b_type));
  tuning_key_encoding(&key, "encoding", &sizes->encoding);
  tuning_key_int(&key, "batches", sizes->batches);
  tuning_key_int(&key, "m", sizes->m);
  tuning_key_int(&key, "n", sizes->n);
  tuning_key_int(&key, "k", sizes->k);
  tuning_key_int(&key, "packed", (sizes->a_is_packed ? 1 : 0) + (sizes->b_is_packed ? 2 : 0));
  const variants all = {
      .family = "gemm cut", .rows = cuts, .n = sizeof cuts / sizeof *cuts, .problem = sizes};
  const int64_t *cut = cpu_choose(recorder, &all, &key)->parameters;
  return (gemm_cut){.columns = (int32_t)cut[0], .rows = (int32_t)cut[1]};
}
