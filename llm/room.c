/* The state of a conversation: pages of a pool; or a session of its own, whose caches, if they may
 * be of any length, grow as it does, twofold. */
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "llm/pages.h"

enum { ROWS_AXIS = 2 }; /* of a cache */

static int open_axis(const clave_tensor_info *t) {
  int axis = 0;
  while (axis < t->rank && t->dims[axis] != CLAVE_DYNAMIC) axis++;
  return axis;
}

/* The size that stands for the context in the shapes of state. */
clave_status llm_room_find(clave_llm *l) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(l->program, &info));
  for (uint32_t i = 0; i < info.n_state; i++) {
    clave_tensor_info t = {.size = sizeof t};
    TRY(clave_program_state(l->program, i, &t));
    int axis = open_axis(&t);
    if (axis == t.rank) continue;
    if (l->room_name && strcmp(l->room_name, t.dim_names[axis]) != 0)
      return INVALID("its state has two sizes that sessions choose, '%s' and '%s'", l->room_name,
                     t.dim_names[axis]);
    l->room_name = t.dim_names[axis];
    l->most_room = t.max_dims[axis];
  }
  return NULL;
}

/* ---------------------------------------------------------------- a session of its own */

static clave_status set_room(clave_llm_conversation *c, int64_t room) {
  if (!c->llm->room_name || room == c->room) return NULL;
  TRY(clave_session_resize(c->session, c->llm->room_name, room));
  c->room = room;
  return NULL;
}

static clave_status make_room(clave_llm_conversation *c, size_t n) {
  int64_t room = LLM_FIRST_TOKENS, most = c->llm->most_room;
  if (!c->llm->room_name || (int64_t)n <= c->room) return NULL;
  while (room < (int64_t)n) room *= 2;
  return set_room(c, room < most ? room : most);
}

static clave_status clear_room(clave_llm_conversation *c) {
  int64_t most = c->llm->most_room;
  return set_room(c, most < LLM_FIRST_TOKENS ? most : LLM_FIRST_TOKENS);
}

/* ---------------------------------------------------------------- either */

clave_status conversation_open_state(clave_llm_conversation *c) {
  if (c->llm->paged) return page_pool_take(c->llm, c->options.session, &c->shared);
  TRY(clave_session_create(c->llm->program, c->llm->device, c->options.session, &c->session));
  return clear_room(c);
}

void conversation_close_state(clave_llm_conversation *c) {
  if (c->shared) {
    conversation_lock(c);
    pages_keep(c, 0);
    conversation_unlock(c);
  }
  page_pool_give(c->llm, c->shared);
  clave_session_destroy(c->session);
  free(c->pages);
}

void conversation_lock(const clave_llm_conversation *c) {
  if (c->shared) mutex_lock(c->shared->lock);
}

void conversation_unlock(const clave_llm_conversation *c) {
  if (c->shared) mutex_unlock(c->shared->lock);
}

clave_session *conversation_session(const clave_llm_conversation *c) {
  return c->shared ? c->shared->session : c->session;
}

clave_status conversation_make_room(clave_llm_conversation *c, size_t from, size_t to) {
  if (c->state_lags) TRY(conversation_reset_session(c));
  return c->shared ? pages_make_room(c, from, to) : make_room(c, to);
}

clave_status conversation_reset_session(clave_llm_conversation *c) {
  c->n_run = c->n_written = c->n_logits = 0;
  c->state_lags = true;
  TRY(clave_session_reset(c->session));
  c->state_lags = false;
  return NULL;
}

clave_status conversation_clear_state(clave_llm_conversation *c) {
  if (c->shared) return conversation_cut_state(c, 0);
  TRY(clear_room(c));
  return conversation_reset_session(c);
}

clave_status conversation_cut_state(clave_llm_conversation *c, size_t count) {
  if (!c->shared) return llm_states_go_back(c->llm, c->n_written, count);
  conversation_lock(c);
  pages_keep(c, count);
  conversation_unlock(c);
  return NULL;
}

clave_status conversation_share_state(const clave_llm_conversation *from,
                                      clave_llm_conversation *to) {
  if (!to->shared) {
    to->room = from->room;
    to->state_lags = from->state_lags;
    return clave_session_copy_state(to->session, from->session);
  }
  conversation_lock(to);
  clave_status st = pages_share(from, to);
  conversation_unlock(to);
  return st;
}

/* ---------------------------------------------------------------- in files */

clave_status conversation_state(const clave_llm_conversation *c, uint32_t i, clave_tensor_info *t) {
  TRY(clave_program_state(c->llm->program, i, t));
  if (c->shared) {
    t->dims[ROWS_AXIS] = c->n_run ? (int64_t)c->n_run : 1;
    return NULL;
  }
  int axis = open_axis(t);
  if (axis == t->rank) return NULL;
  t->dims[axis] = c->llm->room_name ? c->room : t->max_dims[axis];
  return NULL;
}

clave_status conversation_file_state(const clave_llm_conversation *c, uint32_t i,
                                     clave_tensor_info *t) {
  TRY(clave_program_state(c->llm->program, i, t));
  if (!c->shared) return NULL;
  t->dims[ROWS_AXIS] = CLAVE_DYNAMIC;
  t->min_dims[ROWS_AXIS] = 1;
  return NULL;
}

clave_status conversation_read_state(const clave_llm_conversation *c, uint32_t i,
                                     const clave_tensor *t, size_t bytes) {
  if (c->state_lags) TRY(clave_session_reset(c->session));
  if (!c->shared) return clave_session_read_state(c->session, i, t->data, bytes);
  conversation_lock(c);
  clave_status st = pages_read(c, i, (size_t)t->dims[ROWS_AXIS], t->data);
  conversation_unlock(c);
  return st;
}

clave_status conversation_accept_state(clave_llm_conversation *c, int64_t rows, size_t n_run) {
  if (!c->shared) return set_room(c, rows);
  conversation_lock(c);
  clave_status st = pages_make_room(c, 0, n_run);
  conversation_unlock(c);
  return st;
}

clave_status conversation_write_state(clave_llm_conversation *c, uint32_t i, const clave_tensor *t,
                                      size_t bytes) {
  if (!c->shared) return clave_session_write_state(c->session, i, t->data, bytes);
  conversation_lock(c);
  clave_status st = pages_write(c, i, c->n_run, (size_t)t->dims[ROWS_AXIS], t->data);
  conversation_unlock(c);
  return st;
}
