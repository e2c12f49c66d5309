/* The state of a conversation in its own session. Caches whose length the session chooses double
 * as the conversation grows. */
#include <string.h>

#include "llm/conversation.h"

clave_status llm_capacity_find(clave_llm *llm) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(llm->program, &info));
  for (uint32_t i = 0; i < info.n_state; i++) {
    clave_tensor_info state = {.size = sizeof state};
    TRY(clave_program_state(llm->program, i, &state));
    int axis = 0;
    while (axis < state.rank && state.dims[axis] != CLAVE_DYNAMIC) axis++;
    if (axis == state.rank) continue;
    if (llm->capacity_name && strcmp(llm->capacity_name, state.dim_names[axis]) != 0)
      return INVALID("the state has two open sizes, '%s' and '%s': expected at most one",
                     llm->capacity_name, state.dim_names[axis]);
    llm->capacity_name = state.dim_names[axis];
    llm->max_capacity = state.max_dims[axis];
  }
  return NULL;
}

static clave_status set_capacity(clave_llm_conversation *self, int64_t capacity) {
  const char *name = self->llm->capacity_name;
  if (!name || capacity == self->capacity) return NULL;
  TRY(clave_session_resize(self->session, name, capacity));
  self->capacity = capacity;
  return NULL;
}

/* `from` is ignored: all rows belong to this conversation. */
static clave_status own_session_reserve_capacity(clave_llm_conversation *self, size_t from,
                                                 size_t to) {
  int64_t capacity = LLM_FIRST_TOKENS, most = self->llm->max_capacity;
  (void)from;
  if (self->state_is_stale) TRY(conversation_reset_session(self));
  if (!self->llm->capacity_name || (int64_t)to <= self->capacity) return NULL;
  while (capacity < (int64_t)to) capacity *= 2;
  return set_capacity(self, capacity < most ? capacity : most);
}

static clave_status reset_capacity(clave_llm_conversation *self) {
  int64_t most = self->llm->max_capacity;
  return set_capacity(self, most < LLM_FIRST_TOKENS ? most : LLM_FIRST_TOKENS);
}

static clave_status own_session_open(clave_llm_conversation *self) {
  const clave_llm *llm = self->llm;
  TRY(clave_session_create(llm->program, llm->device, self->options.session, &self->session));
  return reset_capacity(self);
}

static void close_session(clave_llm_conversation *self) { clave_session_destroy(self->session); }

/* No other conversation uses the session. */
static void do_not_lock(const clave_llm_conversation *self) { (void)self; }

static clave_status share_session(const clave_llm_conversation *from, clave_llm_conversation *to) {
  to->capacity = from->capacity;
  to->state_is_stale = from->state_is_stale;
  return clave_session_copy_state(to->session, from->session);
}

/* ---------------------------------------------------------------- running, going back */

static clave_status run_session(const llm_method *method, const run_chunk *chunks,
                                size_t n_chunks) {
  const clave_llm_conversation *self = chunks[0].conversation;
  (void)n_chunks; /* always 1 */
  return llm_method_run(method, self->session, self->ids.items + self->n_run, chunks[0].n,
                        self->n_run);
}

clave_status conversation_reset_session(clave_llm_conversation *self) {
  self->n_run = self->n_written = self->n_logits = 0;
  self->state_is_stale = true;
  TRY(clave_session_reset(self->session));
  self->state_is_stale = false;
  return NULL;
}

static clave_status clear_session(clave_llm_conversation *self) {
  TRY(reset_capacity(self));
  return conversation_reset_session(self);
}

static clave_status rewind_session(clave_llm_conversation *self, size_t count) {
  return llm_states_check_rewind(self->llm, self->n_written, count);
}

static clave_status own_session_run_again(clave_llm_conversation *self, size_t first) {
  clave_status st = rewind_session(self, first);
  if (st) {
    status_free(st);
    return conversation_reset_session(self);
  }
  self->n_run = first;
  return NULL;
}

/* ---------------------------------------------------------------- state in files */

static clave_status own_session_describe_state(const clave_llm_conversation *self, uint32_t index,
                                               clave_tensor_info *info) {
  return clave_program_state(self->llm->program, index, info);
}

static int64_t own_session_rows_in_file(const clave_llm_conversation *self) {
  return self->capacity;
}

static clave_status own_session_read_state(const clave_llm_conversation *self, uint32_t index,
                                           const clave_tensor *tensor, size_t size) {
  if (self->state_is_stale) TRY(clave_session_reset(self->session));
  return clave_session_read_state(self->session, index, tensor->data, size);
}

static clave_status own_session_accept_file(clave_llm_conversation *self, int64_t rows,
                                            size_t n_run) {
  (void)n_run;
  return set_capacity(self, rows);
}

static clave_status own_session_write_state(clave_llm_conversation *self, uint32_t index,
                                            const clave_tensor *tensor, size_t size) {
  return clave_session_write_state(self->session, index, tensor->data, size);
}

const state_vtable own_session_state = {
    .open = own_session_open,
    .close = close_session,
    .lock = do_not_lock,
    .unlock = do_not_lock,
    .reserve_capacity = own_session_reserve_capacity,
    .run = run_session,
    .run_again = own_session_run_again,
    .clear = clear_session,
    .rewind = rewind_session,
    .share = share_session,
    .describe = own_session_describe_state,
    .rows_in_file = own_session_rows_in_file,
    .read = own_session_read_state,
    .accept_file = own_session_accept_file,
    .write = own_session_write_state,
};
