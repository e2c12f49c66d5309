/* The cuts of products that are worth trying. */
#include "backend/cpu/cut.h"

static const struct cut_variant {
  const char *name;
  gemm_cut cut;
} cuts[] = {{"rule", {0, 0}},          {"columns 64", {64, 0}},     {"columns 128", {128, 0}},
            {"columns 512", {512, 0}}, {"columns 2048", {2048, 0}}, {"rows 96", {0, 96}},
            {"rows 192", {0, 192}}};

/* One that is larger than the product is another's. */
static bool cuts_something(const void *ctx, int i) {
  const cut_sizes *z = ctx;
  return cuts[i].cut.columns < 2 * z->n && cuts[i].cut.rows < z->m &&
         (!cuts[i].cut.rows || !z->a_is_packed);
}

gemm_cut choose_cut(cpu_recorder *r, const cut_sizes *z) {
  tuning_key k = cpu_key(r);
  if (!k.is_wanted || z->k == 0) return cuts[0].cut;
  tuning_key_text(&k, "op", z->op);
  tuning_key_text(&k, "type", dtype_name(z->type));
  tuning_key_text(&k, "b", dtype_name(z->b_type));
  tuning_key_encoding(&k, "encoding", &z->encoding);
  tuning_key_int(&k, "batches", z->batches);
  tuning_key_int(&k, "m", z->m);
  tuning_key_int(&k, "n", z->n);
  tuning_key_int(&k, "k", z->k);
  tuning_key_int(&k, "packed", (z->a_is_packed ? 1 : 0) + (z->b_is_packed ? 2 : 0));
  const variants all = {.family = "gemm cut",
                        .rows = cuts,
                        .row_size = sizeof *cuts,
                        .n = sizeof cuts / sizeof *cuts,
                        .is_usable = cuts_something,
                        .ctx = z};
  return cuts[cpu_choose(r, &all, &k, 0)].cut;
}
