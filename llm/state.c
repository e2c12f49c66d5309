/* The state tensors of a language model: how its methods write them, and so whether they can go
 * back to fewer tokens. A row written for one token is masked for earlier ones, and is overwritten
 * by another token at the same position. Recurrent state, which is computed from its previous
 * value, cannot go back. */
#include <stdlib.h>
#include <string.h>

#include "llm/language_model.h"

/* The way a state tensor is written, which decides whether it can go back to fewer tokens. */
typedef struct llm_state {
  const char *name; /* borrowed from the program */
  int64_t rows;     /* the token at p is written to row p, or p mod rows; 0 if it is not written by
                       position */
  int64_t window;   /* number of tokens that a token attends to, itself included; 0: all */
} llm_state;

enum { FIRST_CACHE = 4, LAST_CACHE = 7, CACHE_AXIS = 2 }; /* operands of attention_cached */
enum { NAME_BYTES = 64 };

/* Returns the number after "key=" in a node's attributes; 0 if it is absent or not a number. */
static int64_t attribute(const char *detail, const char *key) {
  size_t n = strlen(key);
  for (const char *at = detail; (at = strstr(at, key)); at += n) {
    bool begins = at == detail || at[-1] == ' ';
    if (begins && at[n] == '=') return strtoll(at + n + 1, NULL, 10);
  }
  return 0;
}

/* True if the node reads a slot that depends on the token positions. */
static bool llm_state_reads_position(const bool *positions, const clave_node_info *info) {
  for (uint32_t i = 0; i < info->n_reads && i < CLAVE_MAX_OPERANDS; i++) {
    if (positions[info->reads[i]]) return true;
  }
  return false;
}

static llm_state *llm_state_find(llm_state *states, const uint32_t *slots, uint32_t n,
                                 uint32_t slot) {
  for (uint32_t i = 0; i < n; i++) {
    if (slots[i] == slot) return &states[i];
  }
  return NULL;
}

typedef struct reader {
  const clave_program *program;
  const llm_method *method;
  llm_state *states;     /* (n_states): how this method writes them */
  const uint32_t *slots; /* (n_states): their slots */
  uint32_t n_states;
  bool *positions; /* (slots of the program): true if the slot depends on the positions */
  char *first; /* (NAME_BYTES): the name of the number that is read from the position; "": none */
} reader;

static clave_status note_rows(const reader *reader, uint32_t slot, int64_t axis, int64_t window) {
  clave_tensor_info info = {.size = sizeof info};
  llm_state *state = llm_state_find(reader->states, reader->slots, reader->n_states, slot);
  if (!state) return NULL;
  TRY(clave_program_slot(reader->program, slot, &info));
  state->rows = axis >= 0 && axis < info.rank && info.max_dims[axis] > 0 ? info.max_dims[axis] : 0;
  state->window = window;
  return NULL;
}

/* Copies the text after "key=" in a node's attributes; "" if it is absent. */
static void attribute_text(const char *detail, const char *key, char *out) {
  const char *at = strstr(detail, key);
  const size_t n = at ? strcspn(at + strlen(key), " ") : 0;
  memset(out, 0, NAME_BYTES);
  if (n < NAME_BYTES && n) memcpy(out, at + strlen(key), n);
}

/* True if the node writes rows from the first token's position on. */
static bool writes_at_position(const reader *reader, const clave_node_info *info) {
  char start[NAME_BYTES];
  if (strcmp(info->op, "slice_update") != 0) return false;
  attribute_text(info->detail, "start=", start);
  return *start && strcmp(start, reader->first) == 0;
}

static clave_status llm_state_read_node(const reader *reader, const clave_node_info *info) {
  bool by_index = strcmp(info->op, "index_copy") == 0,
       cached = strcmp(info->op, "attention_cached") == 0;
  if (by_index && info->n_reads > 1 && reader->positions[info->reads[1]])
    TRY(note_rows(reader, info->reads[0], attribute(info->detail, "axis"), 0));
  if (strcmp(info->op, "item") == 0 && reader->positions[info->reads[0]])
    attribute_text(info->detail, "out=", reader->first);
  if (writes_at_position(reader, info))
    TRY(note_rows(reader, info->reads[0], attribute(info->detail, "axis"), 0));
  for (uint32_t i = FIRST_CACHE; cached && i <= LAST_CACHE && i < info->n_reads; i++)
    TRY(note_rows(reader, info->reads[i], CACHE_AXIS, attribute(info->detail, "window")));
  if (!llm_state_reads_position(reader->positions, info)) return NULL;
  for (uint32_t i = 0; i < info->n_writes && i < CLAVE_MAX_OPERANDS; i++)
    reader->positions[info->writes[i]] = true;
  return NULL;
}

static clave_status llm_state_read_method(const reader *reader) {
  clave_tensor_info position = {.size = sizeof position};
  clave_node_info info = {.size = sizeof info};
  clave_method_info method_info = {.size = sizeof method_info};
  clave_program_info program_info = {.size = sizeof program_info};
  bool found;
  TRY(clave_program_get_info(reader->program, &program_info));
  *reader->first = 0;
  memset(reader->positions, 0, program_info.n_slots * sizeof *reader->positions);
  TRY(clave_program_input(reader->program, reader->method->name, 1, &position));
  if (!position.is_scalar) reader->positions[position.slot] = true;
  TRY(llm_find_method(reader->program, reader->method->name, &method_info, &found));
  for (uint32_t i = 0; i < method_info.n_nodes; i++) {
    TRY(clave_program_node(reader->program, reader->method->name, i, &info));
    TRY(llm_state_read_node(reader, &info));
  }
  return NULL;
}

/* Combines methods: the fewest rows and the widest window of any method apply. */
static void join_states(llm_state *all, const llm_state *one, uint32_t n, bool first) {
  for (uint32_t i = 0; i < n; i++) {
    if (first || one[i].rows < all[i].rows) all[i].rows = one[i].rows;
    if (one[i].window > all[i].window) all[i].window = one[i].window;
  }
}

static clave_status read_methods(reader *reader, const llm_method *methods, int count,
                                 llm_state *all) {
  for (int i = 0; i < count; i++) {
    reader->method = &methods[i];
    memset(reader->states, 0, reader->n_states * sizeof *reader->states);
    TRY(llm_state_read_method(reader));
    join_states(all, reader->states, reader->n_states, i == 0);
  }
  return NULL;
}

/* states: in pool, (n_state of the program). */
static clave_status llm_state_read_states(const clave_llm *llm, mem_pool *pool, llm_state **states,
                                          uint32_t *n_states) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(llm->program, &info));
  size_t n = (size_t)info.n_state + 1;
  *states = mem_pool_alloc(pool, n, sizeof **states);
  uint32_t *slots = mem_pool_alloc(pool, n, sizeof *slots);
  reader reader = {
      .program = llm->program,
      .states = mem_pool_alloc(pool, n, sizeof *reader.states),
      .slots = slots,
      .n_states = info.n_state,
      .first = mem_pool_alloc(pool, NAME_BYTES, 1),
      .positions = mem_pool_alloc(pool, (size_t)info.n_slots + 1, sizeof *reader.positions)};
  if (!*states || !slots || !reader.states || !reader.positions || !reader.first)
    return status_no_memory();
  *n_states = info.n_state;
  for (uint32_t i = 0; i < info.n_state; i++) {
    clave_tensor_info tensor_info = {.size = sizeof tensor_info};
    TRY(clave_program_state(llm->program, i, &tensor_info));
    (*states)[i].name = tensor_info.name;
    slots[i] = tensor_info.slot;
  }
  return read_methods(&reader, llm->methods, llm->n_methods, *states);
}

/* ---------------------------------------------------------------- going back */

static clave_status check_state(const llm_state *state, size_t n_written, size_t count) {
  if (!state->rows)
    return UNSUPPORTED("state %s cannot be rewound, because it is not written token by token",
                       state->name);
  /* The last remaining token may run again for its logits, and then sees these tokens. */
  size_t window = (size_t)state->window, first = window && count > window ? count - window : 0;
  if (n_written <= first + (size_t)state->rows) return NULL;
  return UNSUPPORTED(
      "state %s cannot be rewound to %zu tokens: of %zu tokens, it stores the last %lld",
      state->name, count, n_written, (long long)state->rows);
}

clave_status llm_states_check_rewind(const clave_llm *llm, size_t n_written, size_t count) {
  mem_pool *pool;
  llm_state *states;
  uint32_t n_states = 0;
  TRY(mem_pool_create(&pool));
  clave_status st = llm_state_read_states(llm, pool, &states, &n_states);
  for (uint32_t i = 0; i < n_states && !st; i++) st = check_state(&states[i], n_written, count);
  mem_pool_destroy(pool);
  return st;
}
