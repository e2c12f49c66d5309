/* The cuts of products that are worth trying. */
#include "backend/cpu/cut.h"

/* parameters: columns and rows of a task, as in gemm_cut. Rejects what is larger than the product.
 */
static bool cuts_something(const void *sizes, const kernel_variant *variant) {
  const cut_sizes *z = sizes;
  const int64_t columns = variant->parameters[0], rows = variant->parameters[1];
  return columns < 2 * z->n && rows < z->m && (!rows || !z->a_is_packed);
}

static const kernel_variant cuts[] = {{.name = "rule"},
                                      {"columns 64", cuts_something, .parameters = {64, 0}},
                                      {"columns 128", cuts_something, .parameters = {128, 0}},
                                      {"columns 512", cuts_something, .parameters = {512, 0}},
                                      {"columns 2048", cuts_something, .parameters = {2048, 0}},
                                      {"rows 96", cuts_something, .parameters = {0, 96}},
                                      {"rows 192", cuts_something, .parameters = {0, 192}}};

gemm_cut choose_cut(cpu_recorder *r, const cut_sizes *z) {
  tuning_key k = cpu_key(r);
  if (!k.is_wanted || z->k == 0) return (gemm_cut){0};
  tuning_key_text(&k, "op", z->op);
  tuning_key_text(&k, "type", dtype_name(z->type));
  tuning_key_text(&k, "b", dtype_name(z->b_type));
  tuning_key_encoding(&k, "encoding", &z->encoding);
  tuning_key_int(&k, "batches", z->batches);
  tuning_key_int(&k, "m", z->m);
  tuning_key_int(&k, "n", z->n);
  tuning_key_int(&k, "k", z->k);
  tuning_key_int(&k, "packed", (z->a_is_packed ? 1 : 0) + (z->b_is_packed ? 2 : 0));
  const variants all = {
      .family = "gemm cut", .rows = cuts, .n = sizeof cuts / sizeof *cuts, .problem = z};
  const int64_t *cut = cpu_choose(r, &all, &k)->parameters;
  return (gemm_cut){.columns = (int32_t)cut[0], .rows = (int32_t)cut[1]};
}
