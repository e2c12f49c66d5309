/* A language model's program over pages, which the pass page_cache makes of it: what its methods
 * take then, and how its pages are shaped. */
#include "clave_builder.h"
#include "llm/language_model.h"

static void note_applied(void *ctx, const clave_pass_info *info) {
  *(bool *)ctx = *(bool *)ctx || info->applied > 0;
}

static clave_status read_states(clave_llm *l) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(l->paged, &info));
  l->n_page_states = info.n_state;
  l->page_states = mem_pool_alloc(l->pool, info.n_state, sizeof *l->page_states);
  if (!l->page_states) return status_no_memory();
  for (uint32_t i = 0; i < info.n_state; i++) {
    clave_tensor_info t = {.size = sizeof t};
    TRY(clave_program_state(l->paged, i, &t));
    size_t row = clave_dtype_size(t.dtype);
    for (int k = 3; k < t.rank; k++) row *= (size_t)t.dims[k];
    l->page_states[i] = (llm_page_state){(size_t)t.dims[1], row};
    l->info.page_rows = (uint32_t)t.dims[2];
  }
  return NULL;
}

/* They take, behind tokens and positions, sequences and page table; and rows, if they choose. */
static clave_status read_inputs(clave_llm *l) {
  for (int i = 0; i < l->n_methods; i++) {
    clave_method_info m = {.size = sizeof m};
    bool found;
    TRY(llm_find_method(l->paged, l->methods[i].name, &m, &found));
    if (!found) return INVALID("the program in pages has no method '%s'", l->methods[i].name);
    l->methods[i].name = m.name;
    l->methods[i].takes_rows = m.n_inputs == 5;
  }
  return NULL;
}

clave_status llm_page(clave_llm *l) {
  static const char *const passes[] = {"page_cache"};
  bool applied = false;
  clave_optimize_options o = {.size = sizeof o,
                              .passes = passes,
                              .n_passes = 1,
                              .report = note_applied,
                              .report_ctx = &applied};
  clave_program *made;
  TRY(clave_program_optimize(l->program, &o, &made));
  if (!applied) {
    clave_program_destroy(made);
    return NULL;
  }
  l->paged = made;
  TRY(read_states(l));
  return read_inputs(l);
}
