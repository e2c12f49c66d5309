/* How long the caches of a conversation are: they grow as it does, twofold. */
#include <string.h>

#include "llm/conversation.h"

enum { FIRST_ROOM = 256 }; /* tokens */

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

clave_status conversation_set_room(clave_llm_conversation *c, int64_t room) {
  if (!c->llm->room_name || room == c->room) return NULL;
  TRY(clave_session_resize(c->session, c->llm->room_name, room));
  c->room = room;
  return NULL;
}

clave_status conversation_make_room(clave_llm_conversation *c, size_t n) {
  int64_t room = FIRST_ROOM, most = c->llm->most_room;
  if (!c->llm->room_name || (int64_t)n <= c->room) return NULL;
  while (room < (int64_t)n) room *= 2;
  return conversation_set_room(c, room < most ? room : most);
}

clave_status conversation_clear_room(clave_llm_conversation *c) {
  int64_t most = c->llm->most_room;
  return conversation_set_room(c, most < FIRST_ROOM ? most : FIRST_ROOM);
}

clave_status conversation_state(const clave_llm_conversation *c, uint32_t i, clave_tensor_info *t) {
  TRY(clave_program_state(c->llm->program, i, t));
  int axis = open_axis(t);
  if (axis == t->rank) return NULL;
  t->dims[axis] = c->llm->room_name ? c->room : t->max_dims[axis];
  return NULL;
}
