/* The state tensors of a language model: how its methods write them, and so whether they can go
 * back to fewer tokens. What a token wrote to a row of its own is hidden from those before it and
 * written anew by another at the same position; what is made of itself (recurrent) is gone. */
#include <stdlib.h>
#include <string.h>

#include "llm/language_model.h"

/* How a state tensor is written: whether it can go back to fewer tokens. */
typedef struct llm_state {
  const char *name; /* borrowed from the program */
  int64_t rows;     /* the token at p is row p, or p mod rows; 0: it is not written by position */
  int64_t window;   /* tokens that one sees, itself included; 0: all */
} llm_state;

enum { FIRST_CACHE = 4, LAST_CACHE = 7, CACHE_AXIS = 2 }; /* operands of attention_cached */

/* The number behind "key=" in a node's attributes; 0: it is not there, or no number. */
static int64_t attribute(const char *detail, const char *key) {
  size_t n = strlen(key);
  for (const char *at = detail; (at = strstr(at, key)); at += n) {
    bool begins = at == detail || at[-1] == ' ';
    if (begins && at[n] == '=') return strtoll(at + n + 1, NULL, 10);
  }
  return 0;
}

/* Slots that follow from where the tokens stand. */
static bool follows(const bool *positions, const clave_node_info *n) {
  for (uint32_t i = 0; i < n->n_reads && i < CLAVE_MAX_OPERANDS; i++) {
    if (positions[n->reads[i]]) return true;
  }
  return false;
}

static llm_state *find_state(llm_state *states, const uint32_t *slots, uint32_t n, uint32_t slot) {
  for (uint32_t i = 0; i < n; i++) {
    if (slots[i] == slot) return &states[i];
  }
  return NULL;
}

typedef struct reader {
  const clave_program *program;
  const llm_method *method;
  llm_state *states;     /* (n_states): as this method writes them */
  const uint32_t *slots; /* (n_states): theirs */
  uint32_t n_states;
  bool *positions; /* (slots of the program) */
} reader;

static clave_status note_rows(const reader *r, uint32_t slot, int64_t axis, int64_t window) {
  clave_tensor_info t = {.size = sizeof t};
  llm_state *s = find_state(r->states, r->slots, r->n_states, slot);
  if (!s) return NULL;
  TRY(clave_program_slot(r->program, slot, &t));
  s->rows = axis >= 0 && axis < t.rank && t.max_dims[axis] > 0 ? t.max_dims[axis] : 0;
  s->window = window;
  return NULL;
}

static clave_status read_node(const reader *r, const clave_node_info *n) {
  bool by_index = strcmp(n->op, "index_copy") == 0, cached = strcmp(n->op, "attention_cached") == 0;
  if (by_index && n->n_reads > 1 && r->positions[n->reads[1]])
    TRY(note_rows(r, n->reads[0], attribute(n->detail, "axis"), 0));
  for (uint32_t i = FIRST_CACHE; cached && i <= LAST_CACHE && i < n->n_reads; i++)
    TRY(note_rows(r, n->reads[i], CACHE_AXIS, attribute(n->detail, "window")));
  if (!follows(r->positions, n)) return NULL;
  for (uint32_t i = 0; i < n->n_writes && i < CLAVE_MAX_OPERANDS; i++)
    r->positions[n->writes[i]] = true;
  return NULL;
}

static clave_status read_method(const reader *r) {
  clave_tensor_info position = {.size = sizeof position};
  clave_node_info n = {.size = sizeof n};
  clave_method_info m = {.size = sizeof m};
  clave_program_info p = {.size = sizeof p};
  bool found;
  TRY(clave_program_get_info(r->program, &p));
  memset(r->positions, 0, p.n_slots * sizeof *r->positions);
  TRY(clave_program_input(r->program, r->method->name, 1, &position));
  if (!position.is_scalar) r->positions[position.slot] = true;
  TRY(llm_find_method(r->program, r->method->name, &m, &found));
  for (uint32_t i = 0; i < m.n_nodes; i++) {
    TRY(clave_program_node(r->program, r->method->name, i, &n));
    TRY(read_node(r, &n));
  }
  return NULL;
}

/* The fewest rows and the widest window that a method needs are what counts. */
static void join_states(llm_state *all, const llm_state *one, uint32_t n, bool first) {
  for (uint32_t i = 0; i < n; i++) {
    if (first || one[i].rows < all[i].rows) all[i].rows = one[i].rows;
    if (one[i].window > all[i].window) all[i].window = one[i].window;
  }
}

static clave_status read_methods(reader *r, const llm_method *methods, int count, llm_state *all) {
  for (int i = 0; i < count; i++) {
    r->method = &methods[i];
    memset(r->states, 0, r->n_states * sizeof *r->states);
    TRY(read_method(r));
    join_states(all, r->states, r->n_states, i == 0);
  }
  return NULL;
}

/* states: in the pool, (n_state of the program). */
static clave_status read_states(const clave_llm *l, mem_pool *pool, llm_state **states,
                                uint32_t *n_states) {
  clave_program_info p = {.size = sizeof p};
  TRY(clave_program_get_info(l->program, &p));
  size_t n = (size_t)p.n_state + 1;
  *states = mem_pool_alloc(pool, n, sizeof **states);
  uint32_t *slots = mem_pool_alloc(pool, n, sizeof *slots);
  reader r = {.program = l->program,
              .states = mem_pool_alloc(pool, n, sizeof *r.states),
              .slots = slots,
              .n_states = p.n_state,
              .positions = mem_pool_alloc(pool, (size_t)p.n_slots + 1, sizeof *r.positions)};
  if (!*states || !slots || !r.states || !r.positions) return status_no_memory();
  *n_states = p.n_state;
  for (uint32_t i = 0; i < p.n_state; i++) {
    clave_tensor_info t = {.size = sizeof t};
    TRY(clave_program_state(l->program, i, &t));
    (*states)[i].name = t.name;
    slots[i] = t.slot;
  }
  return read_methods(&r, l->methods, l->n_methods, *states);
}

/* ---------------------------------------------------------------- going back */

static clave_status check_state(const llm_state *s, size_t written, size_t count) {
  if (!s->rows)
    return UNSUPPORTED("state %s cannot go back: it is not written token by token", s->name);
  /* The last of those that stay is run again where its logits are wanted: it sees these. */
  size_t window = (size_t)s->window, first = window && count > window ? count - window : 0;
  if (written <= first + (size_t)s->rows) return NULL;
  return UNSUPPORTED("state %s cannot go back to %zu tokens: of %zu it holds the last %lld",
                     s->name, count, written, (long long)s->rows);
}

clave_status llm_states_go_back(const clave_llm *l, size_t written, size_t count) {
  mem_pool *pool;
  llm_state *states;
  uint32_t n_states = 0;
  TRY(mem_pool_create(&pool));
  clave_status st = read_states(l, pool, &states, &n_states);
  for (uint32_t i = 0; i < n_states && !st; i++) st = check_state(&states[i], written, count);
  mem_pool_destroy(pool);
  return st;
}
