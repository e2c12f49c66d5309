/* A language model's program over pages, made by the pass page_cache: the inputs of its methods
 * and the layout of its pages. */
#include "clave_builder.h"
#include "llm/language_model.h"

static void note_applied(void *ctx, const clave_pass_info *info) {
  *(bool *)ctx = *(bool *)ctx || info->applied > 0;
}

static clave_status paging_read_states(clave_llm *llm) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(llm->paged, &info));
  llm->n_page_states = info.n_state;
  llm->page_states = mem_pool_alloc(llm->pool, info.n_state, sizeof *llm->page_states);
  if (!llm->page_states) return status_no_memory();
  for (uint32_t i = 0; i < info.n_state; i++) {
    clave_tensor_info tensor_info = {.size = sizeof tensor_info};
    TRY(clave_program_state(llm->paged, i, &tensor_info));
    size_t row = clave_dtype_size(tensor_info.dtype);
    for (int k = 3; k < tensor_info.rank; k++) row *= (size_t)tensor_info.dims[k];
    llm->page_states[i] = (llm_page_state){(size_t)tensor_info.dims[1], row};
    llm->info.page_rows = (uint32_t)tensor_info.dims[2];
  }
  return NULL;
}

/* After tokens and positions the methods have the inputs sequences and page table, and perhaps
 * rows. */
static clave_status paging_read_inputs(clave_llm *llm) {
  for (int i = 0; i < llm->n_methods; i++) {
    clave_method_info info = {.size = sizeof info};
    bool found;
    TRY(llm_find_method(llm->paged, llm->methods[i].name, &info, &found));
    if (!found)
      return INVALID("the program with a paged cache has no method '%s'", llm->methods[i].name);
    llm->methods[i].name = info.name;
    llm->methods[i].accepts_rows = info.n_inputs == 5;
  }
  return NULL;
}

clave_status llm_page(clave_llm *llm) {
  static const char *const passes[] = {"page_cache"};
  bool applied = false;
  clave_optimize_options options = {.size = sizeof options,
                                    .passes = passes,
                                    .n_passes = 1,
                                    .report = note_applied,
                                    .report_ctx = &applied};
  clave_program *made;
  TRY(clave_program_optimize(llm->program, &options, &made));
  if (!applied) {
    clave_program_destroy(made);
    return NULL;
  }
  llm->paged = made;
  TRY(paging_read_states(llm));
  return paging_read_inputs(llm);
}
