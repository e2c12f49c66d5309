/* Conversations in files: the ids, the model's state and the chat, as safetensors.
 *
 *   conversation  I64 (6): the facts, in the order of their enum
 *   ids           I64 (n)
 *   logits        F32 (V): of the last run
 *   messages      U8 (m): the chat's history, JSON
 *   turns         I64 (t, 6): of each the fields of chat_turn, in their order
 *   state.N       state tensor N of the program
 *   check         I64 (1): XXH3 of the contents of all of the above, in this order
 *
 * The program's part is a hash of what its methods, constants and state are, with the beginning of
 * each constant, so that a file fits the program whether it is a .clv or a .json. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/float_env.h"
#include "base/hash.h"
#include "clave_files.h"
#include "json/json.h"
#include "llm/conversation.h"

enum { VERSION = 2, HASHED_BYTES = 4096, NAME_SIZE = 24, TURN_FIELDS = 6 };
enum {
  FACT_VERSION,
  FACT_N_RUN,   /* ids that the model has run over */
  FACT_DRAWS,   /* random numbers drawn */
  FACT_PROGRAM, /* its hash */
  FACT_WRITTEN, /* the most ids that it had run over */
  FACT_LOGITS,  /* ids that the logits are of */
  FACTS
};
/* The tensors of a file; behind the state the check. */
enum { CONVERSATION, IDS, LOGITS, MESSAGES, TURNS, FIRST_STATE, FIXED };

/* 0: there are none, or too many to be counted. */
static size_t bytes_of(const clave_tensor *t) {
  size_t bytes = clave_dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++) {
    if (!mul_size(bytes, (uint64_t)t->dims[i], &bytes)) return 0;
  }
  return bytes;
}

/* ---------------------------------------------------------------- which program */

static void hash_slot(hash_state *h, const clave_tensor_info *t) {
  hash_update(h, t->name, strlen(t->name) + 1);
  hash_update(h, &t->dtype, sizeof t->dtype);
  hash_update(h, t->dims, (size_t)t->rank * sizeof *t->dims);
}

static clave_status hash_constants(hash_state *h, const clave_program *p, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    clave_tensor_info info = {.size = sizeof info};
    clave_tensor t;
    TRY(clave_program_slot(p, i, &info));
    TRY(clave_program_constant(p, i, &t));
    size_t bytes = bytes_of(&t);
    hash_slot(h, &info);
    if (bytes) hash_update(h, t.data, bytes < HASHED_BYTES ? bytes : HASHED_BYTES);
  }
  return NULL;
}

static clave_status hash_parts(hash_state *h, const clave_program *p) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(p, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    clave_method_info m = {.size = sizeof m};
    TRY(clave_program_method(p, i, &m));
    hash_update(h, m.name, strlen(m.name) + 1);
    hash_update(h, &m.n_nodes, sizeof m.n_nodes);
  }
  for (uint32_t i = 0; i < info.n_state; i++) {
    clave_tensor_info t = {.size = sizeof t};
    TRY(clave_program_state(p, i, &t));
    hash_slot(h, &t);
  }
  return hash_constants(h, p, info.n_constants);
}

static clave_status hash_program(const clave_program *p, int64_t *out) {
  hash_state *h = hash_create();
  if (!h) return status_no_memory();
  clave_status st = hash_parts(h, p);
  *out = (int64_t)hash_value(h);
  hash_destroy(h);
  return st;
}

/* ---------------------------------------------------------------- the tensors of a file */

typedef struct contents {
  uint32_t n; /* with `check`, the last one */
  clave_tensor *tensors;
  const char **names;
  char (*state_names)[NAME_SIZE];
  void **state; /* owned, (n_state) */
  uint32_t n_state;
  int64_t *ids, *turns; /* owned */
  int64_t facts[FACTS], check;
  int64_t room; /* tokens that its caches hold; 0: what the program says */
} contents;

static void free_contents(contents *c) {
  for (uint32_t i = 0; c->state && i < c->n_state; i++) free(c->state[i]);
  free(c->state);
  free(c->state_names);
  free(c->names);
  free(c->tensors);
  free(c->ids);
  free(c->turns);
}

static clave_status create_contents(const clave_program *p, size_t n_ids, size_t n_turns,
                                    contents *c) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(p, &info));
  *c = (contents){.n = info.n_state + FIXED, .n_state = info.n_state};
  c->tensors = calloc(c->n, sizeof *c->tensors);
  c->names = calloc(c->n, sizeof *c->names);
  c->state_names = calloc((size_t)c->n_state + 1, sizeof *c->state_names);
  c->state = calloc((size_t)c->n_state + 1, sizeof *c->state);
  c->ids = calloc(n_ids + 1, sizeof *c->ids);
  c->turns = calloc(n_turns + 1, TURN_FIELDS * sizeof *c->turns);
  bool good = c->tensors && c->names && c->state_names && c->state && c->ids && c->turns;
  return good ? NULL : status_no_memory();
}

static clave_status hash_contents(const clave_tensor *tensors, uint32_t n, int64_t *out) {
  hash_state *h = hash_create();
  if (!h) return status_no_memory();
  for (uint32_t i = 0; i + 1 < n; i++) hash_update(h, tensors[i].data, bytes_of(&tensors[i]));
  *out = (int64_t)hash_value(h);
  hash_destroy(h);
  return NULL;
}

static void name_tensors(contents *c) {
  c->names[CONVERSATION] = "conversation";
  c->names[IDS] = "ids";
  c->names[LOGITS] = "logits";
  c->names[MESSAGES] = "messages";
  c->names[TURNS] = "turns";
  for (uint32_t i = 0; i < c->n_state; i++) {
    (void)snprintf(c->state_names[i], NAME_SIZE, "state.%" PRIu32, i);
    c->names[FIRST_STATE + i] = c->state_names[i];
  }
  c->names[c->n - 1] = "check";
}

/* ---------------------------------------------------------------- saving */

/* A dynamic length is saved as that of the rows that are kept. */
static clave_status read_state(const clave_llm_conversation *v, contents *c) {
  int64_t rows = v->state->rows_in_file(v);
  for (uint32_t i = 0; i < c->n_state; i++) {
    clave_tensor_info info = {.size = sizeof info};
    TRY(v->state->describe(v, i, &info));
    for (int k = 0; k < info.rank; k++)
      if (info.dims[k] == CLAVE_DYNAMIC) info.dims[k] = rows ? rows : info.max_dims[k];
    clave_tensor *t = &c->tensors[FIRST_STATE + i];
    *t = clave_tensor_make(info.dtype, info.rank, info.dims, NULL);
    size_t bytes = bytes_of(t);
    t->data = c->state[i] = malloc(bytes ? bytes : 1);
    if (!t->data) return status_no_memory();
    v->state->lock(v);
    clave_status st = v->state->read(v, i, t, bytes);
    v->state->unlock(v);
    TRY(st);
  }
  return NULL;
}

static void fill_turns(const chat_memory *m, int64_t *out) {
  for (size_t i = 0; i < m->n_turns; i++) {
    const chat_turn *t = &m->turns[i];
    const int64_t fields[TURN_FIELDS] = {(int64_t)t->ids_before,     (int64_t)t->ids,
                                         (int64_t)t->history_before, (int64_t)t->history,
                                         (int64_t)t->rendered,       (int64_t)t->rendered_hash};
    memcpy(out + i * TURN_FIELDS, fields, sizeof fields);
  }
}

static void fill_facts(const clave_llm_conversation *v, int64_t facts[FACTS]) {
  facts[FACT_VERSION] = VERSION;
  facts[FACT_N_RUN] = (int64_t)v->n_run;
  facts[FACT_DRAWS] = (int64_t)sampler_draws(v->sampler);
  facts[FACT_WRITTEN] = (int64_t)v->n_written;
  facts[FACT_LOGITS] = (int64_t)v->n_logits;
}

static clave_status fill(const clave_llm_conversation *v, contents *c) {
  const chat_memory *m = &v->chat;
  const int64_t one = 1, facts = FACTS, n_ids = (int64_t)v->ids.count;
  const int64_t n_vocab = v->llm->info.n_vocab, n_bytes = (int64_t)m->history.size;
  const int64_t turns[] = {(int64_t)m->n_turns, TURN_FIELDS};
  fill_facts(v, c->facts);
  TRY(hash_program(v->llm->program, &c->facts[FACT_PROGRAM]));
  for (size_t i = 0; i < v->ids.count; i++) c->ids[i] = v->ids.items[i];
  fill_turns(m, c->turns);
  c->tensors[CONVERSATION] = clave_tensor_make(CLAVE_I64, 1, &facts, c->facts);
  c->tensors[IDS] = clave_tensor_make(CLAVE_I64, 1, &n_ids, c->ids);
  c->tensors[LOGITS] = clave_tensor_make(CLAVE_F32, 1, &n_vocab, v->logits);
  c->tensors[MESSAGES] = clave_tensor_make(CLAVE_U8, 1, &n_bytes, m->history.data);
  c->tensors[TURNS] = clave_tensor_make(CLAVE_I64, 2, turns, c->turns);
  c->tensors[c->n - 1] = clave_tensor_make(CLAVE_I64, 1, &one, &c->check);
  TRY(read_state(v, c));
  return hash_contents(c->tensors, c->n, &c->check);
}

clave_status clave_llm_save(const clave_llm_conversation *v, const char *path) {
  OWN_FLOAT_ENV;
  contents c;
  static const char *const metadata[] = {"format", "clave conversation"};
  clave_status st = create_contents(v->llm->program, v->ids.count, v->chat.n_turns, &c);
  if (!st) name_tensors(&c);
  if (!st) st = fill(v, &c);
  if (!st) st = clave_tensors_save(path, c.names, c.tensors, c.n, metadata, 1);
  free_contents(&c);
  return st;
}

/* ---------------------------------------------------------------- restoring */

/* count: -1 for any. */
static clave_status find_list(const clave_tensors *file, const char *name, clave_dtype dtype,
                              int64_t count, clave_tensor *out) {
  if (!clave_tensors_find(file, name, out))
    return INVALID("not a conversation: it has no tensor '%s'", name);
  if (out->dtype == dtype && out->rank == 1 && (count < 0 || out->dims[0] == count)) return NULL;
  return INVALID("tensor '%s' is not a list of %s of the right length", name,
                 clave_dtype_name(dtype));
}

/* An open dimension is of any size that the program allows, and the same in all of state: *room, 0
 * before the first. */
static bool fits(int64_t n, const clave_tensor_info *t, int axis, int64_t *room) {
  if (t->dims[axis] != CLAVE_DYNAMIC) return n == t->dims[axis];
  if (*room) return n == *room;
  *room = n;
  return n >= t->min_dims[axis] && n <= t->max_dims[axis];
}

static clave_status find_state(const clave_tensors *file, const clave_llm_conversation *v,
                               uint32_t index, const char *name, int64_t *room, clave_tensor *out) {
  clave_tensor_info info = {.size = sizeof info};
  TRY(v->state->describe(v, index, &info));
  if (!clave_tensors_find(file, name, out)) return INVALID("it has no tensor '%s'", name);
  bool same = out->dtype == info.dtype && out->rank == info.rank;
  for (int k = 0; same && k < info.rank; k++) same = fits(out->dims[k], &info, k, room);
  return same ? NULL : INVALID("tensor '%s' is not shaped as the program's %s", name, info.name);
}

/* Tensors of a file need not be aligned. */
static clave_status copy_list(const clave_tensor *t, size_t n, int64_t **out) {
  free(*out);
  *out = calloc(n + 1, sizeof **out);
  if (!*out) return status_no_memory();
  if (n) memcpy(*out, t->data, n * sizeof **out);
  return NULL;
}

static clave_status copy_integers(contents *c) {
  TRY(copy_list(&c->tensors[IDS], (size_t)c->tensors[IDS].dims[0], &c->ids));
  TRY(copy_list(&c->tensors[TURNS], (size_t)c->tensors[TURNS].dims[0] * TURN_FIELDS, &c->turns));
  memcpy(c->facts, c->tensors[CONVERSATION].data, sizeof c->facts);
  memcpy(&c->check, c->tensors[c->n - 1].data, sizeof c->check);
  return NULL;
}

static clave_status check_facts(const clave_llm_conversation *v, const contents *c) {
  const int64_t *f = c->facts;
  int64_t n = c->tensors[IDS].dims[0], program;
  TRY(hash_program(v->llm->program, &program));
  if (c->facts[FACT_PROGRAM] != program)
    return INVALID("it is a conversation with another program");
  if (n > v->llm->info.max_context || c->facts[FACT_N_RUN] < 0 || c->facts[FACT_N_RUN] > n)
    return INVALID("%" PRId64 " ids, of which %" PRId64 " were run, in a context of %u", n,
                   c->facts[FACT_N_RUN], v->llm->info.max_context);
  if (f[FACT_WRITTEN] < f[FACT_N_RUN] || f[FACT_WRITTEN] > v->llm->info.max_context ||
      f[FACT_LOGITS] < 0 || f[FACT_LOGITS] > f[FACT_N_RUN])
    return INVALID("%" PRId64 " ids were written and logits are of %" PRId64 ", where %" PRId64
                   " were run",
                   f[FACT_WRITTEN], f[FACT_LOGITS], f[FACT_N_RUN]);
  for (int64_t i = 0; i < n; i++) {
    if (c->ids[i] < 0 || c->ids[i] >= v->llm->info.n_vocab)
      return INVALID("id %" PRId64 " is not one of the model's", c->ids[i]);
  }
  return NULL;
}

/* Turns follow each other, within the ids and the messages. */
static clave_status check_turns(const contents *c) {
  int64_t n = c->tensors[TURNS].dims[0], at = 0, byte = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t *t = c->turns + i * TURN_FIELDS;
    if (t[0] < at || t[1] < t[0] || t[2] < byte || t[3] < t[2] || t[4] < 0)
      return INVALID("turn %" PRId64 " of its chat does not follow the one before", i);
    at = t[1];
    byte = t[3];
  }
  if (at <= c->tensors[IDS].dims[0] && (n == 0 || byte == c->tensors[MESSAGES].dims[0]))
    return NULL;
  return INVALID("its chat is not that of its ids");
}

static clave_status check_chat(const clave_llm *l, const contents *c) {
  const clave_tensor *t = &c->tensors[MESSAGES];
  text array = {0};
  TRY(check_turns(c));
  if (t->dims[0] && !l->tokenizer) return INVALID("it is a chat, which needs a tokenizer");
  text_puts(&array, "[");
  text_append(&array, t->data, (size_t)t->dims[0]);
  text_puts(&array, "]");
  clave_status st = text_status(&array);
  if (!st) st = status_while(json_walk(array.data, array.size, 0, NULL, NULL), "its messages");
  text_free(&array);
  return st;
}

/* Another version has other tensors. */
static clave_status check_version(const clave_tensors *file) {
  clave_tensor t;
  int64_t version;
  if (!clave_tensors_find(file, "conversation", &t) || t.dtype != CLAVE_I64 || bytes_of(&t) < 8)
    return INVALID("not a conversation: it has no tensor 'conversation'");
  memcpy(&version, t.data, sizeof version);
  if (version == VERSION) return NULL;
  return INVALID("conversation: expected version %d, got %" PRId64, VERSION, version);
}

static clave_status find_turns(const clave_tensors *file, clave_tensor *out) {
  if (!clave_tensors_find(file, "turns", out)) return INVALID("it has no tensor 'turns'");
  bool good = out->dtype == CLAVE_I64 && out->rank == 2 && out->dims[1] == TURN_FIELDS;
  return good ? NULL : INVALID("tensor 'turns' is not I64 (t, %d)", TURN_FIELDS);
}

/* Everything in `c` is the file's, and as it should be. */
static clave_status read_contents(const clave_llm_conversation *v, const clave_tensors *file,
                                  contents *c) {
  int64_t check;
  TRY(check_version(file));
  TRY(find_list(file, "conversation", CLAVE_I64, FACTS, &c->tensors[CONVERSATION]));
  TRY(find_list(file, "ids", CLAVE_I64, -1, &c->tensors[IDS]));
  TRY(find_list(file, "messages", CLAVE_U8, -1, &c->tensors[MESSAGES]));
  TRY(find_turns(file, &c->tensors[TURNS]));
  TRY(find_list(file, "check", CLAVE_I64, 1, &c->tensors[c->n - 1]));
  TRY(copy_integers(c));
  TRY(check_facts(v, c));
  TRY(check_chat(v->llm, c));
  TRY(find_list(file, "logits", CLAVE_F32, v->llm->info.n_vocab, &c->tensors[LOGITS]));
  for (uint32_t i = 0; i < c->n_state; i++)
    TRY(find_state(file, v, i, c->names[FIRST_STATE + i], &c->room, &c->tensors[FIRST_STATE + i]));
  if (c->room && c->facts[FACT_N_RUN] > c->room)
    return INVALID("%" PRId64 " ids were run, but its caches hold %" PRId64, c->facts[FACT_N_RUN],
                   c->room);
  TRY(hash_contents(c->tensors, c->n, &check));
  if (c->check == check) return NULL;
  return INVALID("its contents are damaged: they do not have the hash that they were saved with");
}

static clave_status take_chat(const contents *c, chat_memory *m) {
  size_t n = (size_t)c->tensors[TURNS].dims[0];
  text_append(&m->history, c->tensors[MESSAGES].data, (size_t)c->tensors[MESSAGES].dims[0]);
  TRY(text_status(&m->history));
  if (!array_reserve(&m->turns, &m->capacity, n, sizeof *m->turns)) return status_no_memory();
  for (size_t i = 0; i < n; i++) {
    const int64_t *t = c->turns + i * TURN_FIELDS;
    m->turns[i] = (chat_turn){(size_t)t[0], (size_t)t[1], (size_t)t[2],
                              (size_t)t[3], (size_t)t[4], (uint64_t)t[5]};
  }
  m->n_turns = n;
  return NULL;
}

static clave_status take_contents(clave_llm_conversation *v, const contents *c) {
  size_t n = (size_t)c->tensors[IDS].dims[0];
  uint32_t *list = calloc(n + 1, sizeof *list);
  if (!list) return status_no_memory();
  for (size_t i = 0; i < n; i++) list[i] = (uint32_t)c->ids[i];
  clave_status st = conversation_take_ids(v, list, n, (size_t)c->facts[FACT_N_RUN]);
  free(list);
  v->state->lock(v);
  if (!st) st = v->state->accept_file(v, c->room, v->n_run);
  for (uint32_t i = 0; i < c->n_state && !st; i++) {
    const clave_tensor *t = &c->tensors[FIRST_STATE + i];
    st = v->state->write(v, i, t, bytes_of(t));
  }
  v->state->unlock(v);
  if (!st) st = take_chat(c, &v->chat);
  if (st) return st;
  memcpy(v->logits, c->tensors[LOGITS].data, bytes_of(&c->tensors[LOGITS]));
  v->n_written = (size_t)c->facts[FACT_WRITTEN];
  v->n_logits = (size_t)c->facts[FACT_LOGITS];
  sampler_set_draws(v->sampler, (uint64_t)c->facts[FACT_DRAWS]);
  return NULL;
}

/* What is there is dropped only when the file has proved good. */
static clave_status restore_from(clave_llm_conversation *v, const clave_tensors *file) {
  contents c;
  clave_status st = create_contents(v->llm->program, 0, 0, &c);
  if (!st) name_tensors(&c);
  if (!st) st = read_contents(v, file, &c);
  bool good = !st;
  if (good) st = clave_llm_reset(v);
  if (!st) st = take_contents(v, &c);
  if (good && st) clave_status_free(clave_llm_reset(v));
  free_contents(&c);
  return st;
}

clave_status clave_llm_restore(clave_llm_conversation *v, const char *path) {
  OWN_FLOAT_ENV;
  clave_tensors *file;
  TRY(clave_tensors_load(path, &file));
  clave_status st = status_while(restore_from(v, file), "%s", path);
  clave_status cut = clave_tensors_check(file);
  clave_tensors_destroy(file);
  if (!cut) return st;
  if (!st) st = clave_llm_reset(v); /* it may have taken zeros */
  clave_status_free(st);
  return cut;
}
