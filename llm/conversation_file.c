/* Saves and restores conversations as safetensors files: the ids, the model's state and the chat.
 *
 *    conversation  I64 (6): numbers, in the order of the enum FACT_*
 *    ids           I64 (n)
 *    logits        F32 (V): from the last run
 *    messages      U8 (m): the chat's history, JSON
 *    turns         I64 (t, 6): the fields of each chat_turn, in order
 *    state.N       state tensor N of the program
 *    check         I64 (1): XXH3 of the contents of all of the above, in this order
 *
 * The program is identified by a hash of its methods, constants and state, including the beginning
 * of each constant. So a file fits the program both as a .clv and as a .json. */
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
  FACT_N_RUN,   /* ids that have run */
  FACT_DRAWS,   /* random numbers drawn */
  FACT_PROGRAM, /* hash of the program */
  FACT_WRITTEN, /* maximum of FACT_N_RUN so far */
  FACT_LOGITS,  /* number of ids after which the logits were computed */
  FACTS
};
/* The tensors of a file; the check follows the state. */
enum { CONVERSATION, IDS, LOGITS, MESSAGES, TURNS, FIRST_STATE, FIXED };

/* Returns the size of a tensor in bytes; 0 if it is empty or the size overflows. */
static size_t conversation_file_bytes_of(const clave_tensor *tensor) {
  size_t bytes = clave_dtype_size(tensor->dtype);
  for (int i = 0; i < tensor->rank; i++) {
    if (!mul_size(bytes, (uint64_t)tensor->dims[i], &bytes)) return 0;
  }
  return bytes;
}

/* ---------------------------------------------------------------- identity of the program */

static void hash_slot(hash_state *hash, const clave_tensor_info *info) {
  hash_update(hash, info->name, strlen(info->name) + 1);
  hash_update(hash, &info->dtype, sizeof info->dtype);
  hash_update(hash, info->dims, (size_t)info->rank * sizeof *info->dims);
}

static clave_status conversation_file_hash_constants(hash_state *hash, const clave_program *program,
                                                     uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    clave_tensor_info info = {.size = sizeof info};
    clave_tensor tensor;
    TRY(clave_program_slot(program, i, &info));
    TRY(clave_program_constant(program, i, &tensor));
    size_t bytes = conversation_file_bytes_of(&tensor);
    hash_slot(hash, &info);
    if (bytes) hash_update(hash, tensor.data, bytes < HASHED_BYTES ? bytes : HASHED_BYTES);
  }
  return NULL;
}

static clave_status hash_parts(hash_state *hash, const clave_program *program) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(program, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    clave_method_info method_info = {.size = sizeof method_info};
    TRY(clave_program_method(program, i, &method_info));
    hash_update(hash, method_info.name, strlen(method_info.name) + 1);
    hash_update(hash, &method_info.n_nodes, sizeof method_info.n_nodes);
  }
  for (uint32_t i = 0; i < info.n_state; i++) {
    clave_tensor_info tensor_info = {.size = sizeof tensor_info};
    TRY(clave_program_state(program, i, &tensor_info));
    hash_slot(hash, &tensor_info);
  }
  return conversation_file_hash_constants(hash, program, info.n_constants);
}

static clave_status hash_program(const clave_program *program, int64_t *out) {
  hash_state *hash = hash_create();
  if (!hash) return status_no_memory();
  clave_status st = hash_parts(hash, program);
  *out = (int64_t)hash_value(hash);
  hash_destroy(hash);
  return st;
}

/* ---------------------------------------------------------------- the tensors of a file */

typedef struct contents {
  uint32_t n; /* including `check`, the last one */
  clave_tensor *tensors;
  const char **names;
  char (*state_names)[NAME_SIZE];
  void **state; /* owned, (n_state) */
  uint32_t n_state;
  int64_t *ids, *turns; /* owned */
  int64_t facts[FACTS], check;
  int64_t capacity; /* capacity of its caches in tokens; 0: fixed by the program */
} contents;

static void free_contents(contents *contents) {
  for (uint32_t i = 0; contents->state && i < contents->n_state; i++) free(contents->state[i]);
  free(contents->state);
  free(contents->state_names);
  free(contents->names);
  free(contents->tensors);
  free(contents->ids);
  free(contents->turns);
}

static clave_status create_contents(const clave_program *program, size_t n_ids, size_t n_turns,
                                    contents *content) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(program, &info));
  *content = (contents){.n = info.n_state + FIXED, .n_state = info.n_state};
  content->tensors = calloc(content->n, sizeof *content->tensors);
  content->names = calloc(content->n, sizeof *content->names);
  content->state_names = calloc((size_t)content->n_state + 1, sizeof *content->state_names);
  content->state = calloc((size_t)content->n_state + 1, sizeof *content->state);
  content->ids = calloc(n_ids + 1, sizeof *content->ids);
  content->turns = calloc(n_turns + 1, TURN_FIELDS * sizeof *content->turns);
  bool good = content->tensors && content->names && content->state_names && content->state &&
              content->ids && content->turns;
  return good ? NULL : status_no_memory();
}

static clave_status hash_contents(const clave_tensor *tensors, uint32_t n, int64_t *out) {
  hash_state *hash = hash_create();
  if (!hash) return status_no_memory();
  for (uint32_t i = 0; i + 1 < n; i++)
    hash_update(hash, tensors[i].data, conversation_file_bytes_of(&tensors[i]));
  *out = (int64_t)hash_value(hash);
  hash_destroy(hash);
  return NULL;
}

static void name_tensors(contents *contents) {
  contents->names[CONVERSATION] = "conversation";
  contents->names[IDS] = "ids";
  contents->names[LOGITS] = "logits";
  contents->names[MESSAGES] = "messages";
  contents->names[TURNS] = "turns";
  for (uint32_t i = 0; i < contents->n_state; i++) {
    (void)snprintf(contents->state_names[i], NAME_SIZE, "state.%" PRIu32, i);
    contents->names[FIRST_STATE + i] = contents->state_names[i];
  }
  contents->names[contents->n - 1] = "check";
}

/* ---------------------------------------------------------------- saving */

/* Reads the state; a dynamic length is saved as the number of rows that are kept. */
static clave_status conversation_file_read_state(const clave_llm_conversation *conversation,
                                                 contents *contents) {
  int64_t rows = conversation->state->rows_in_file(conversation);
  for (uint32_t i = 0; i < contents->n_state; i++) {
    clave_tensor_info info = {.size = sizeof info};
    TRY(conversation->state->describe(conversation, i, &info));
    for (int k = 0; k < info.rank; k++)
      if (info.dims[k] == CLAVE_DYNAMIC) info.dims[k] = rows ? rows : info.max_dims[k];
    clave_tensor *tensor = &contents->tensors[FIRST_STATE + i];
    *tensor = clave_tensor_make(info.dtype, info.rank, info.dims, NULL);
    size_t bytes = conversation_file_bytes_of(tensor);
    tensor->data = contents->state[i] = malloc(bytes ? bytes : 1);
    if (!tensor->data) return status_no_memory();
    conversation->state->lock(conversation);
    clave_status st = conversation->state->read(conversation, i, tensor, bytes);
    conversation->state->unlock(conversation);
    TRY(st);
  }
  return NULL;
}

static void fill_turns(const chat_memory *memory, int64_t *out) {
  for (size_t i = 0; i < memory->n_turns; i++) {
    const chat_turn *turn = &memory->turns[i];
    const int64_t fields[TURN_FIELDS] = {
        (int64_t)turn->ids_before, (int64_t)turn->ids,      (int64_t)turn->history_before,
        (int64_t)turn->history,    (int64_t)turn->rendered, (int64_t)turn->rendered_hash};
    memcpy(out + i * TURN_FIELDS, fields, sizeof fields);
  }
}

static void fill_facts(const clave_llm_conversation *conversation, int64_t facts[FACTS]) {
  facts[FACT_VERSION] = VERSION;
  facts[FACT_N_RUN] = (int64_t)conversation->n_run;
  facts[FACT_DRAWS] = (int64_t)sampler_draws(conversation->sampler);
  facts[FACT_WRITTEN] = (int64_t)conversation->n_written;
  facts[FACT_LOGITS] = (int64_t)conversation->n_logits;
}

static clave_status conversation_file_fill(const clave_llm_conversation *conversation,
                                           contents *contents) {
  const chat_memory *memory = &conversation->chat;
  const int64_t one = 1, facts = FACTS, n_ids = (int64_t)conversation->ids.count;
  const int64_t n_vocab = conversation->llm->info.n_vocab, n_bytes = (int64_t)memory->history.size;
  const int64_t turns[] = {(int64_t)memory->n_turns, TURN_FIELDS};
  fill_facts(conversation, contents->facts);
  TRY(hash_program(conversation->llm->program, &contents->facts[FACT_PROGRAM]));
  for (size_t i = 0; i < conversation->ids.count; i++)
    contents->ids[i] = conversation->ids.items[i];
  fill_turns(memory, contents->turns);
  contents->tensors[CONVERSATION] = clave_tensor_make(CLAVE_I64, 1, &facts, contents->facts);
  contents->tensors[IDS] = clave_tensor_make(CLAVE_I64, 1, &n_ids, contents->ids);
  contents->tensors[LOGITS] = clave_tensor_make(CLAVE_F32, 1, &n_vocab, conversation->logits);
  contents->tensors[MESSAGES] = clave_tensor_make(CLAVE_U8, 1, &n_bytes, memory->history.data);
  contents->tensors[TURNS] = clave_tensor_make(CLAVE_I64, 2, turns, contents->turns);
  contents->tensors[contents->n - 1] = clave_tensor_make(CLAVE_I64, 1, &one, &contents->check);
  TRY(conversation_file_read_state(conversation, contents));
  return hash_contents(contents->tensors, contents->n, &contents->check);
}

clave_status clave_llm_save(const clave_llm_conversation *conversation, const char *path) {
  OWN_FLOAT_ENV;
  contents contents;
  static const char *const metadata[] = {"format", "clave conversation"};
  clave_status st = create_contents(conversation->llm->program, conversation->ids.count,
                                    conversation->chat.n_turns, &contents);
  if (!st) name_tensors(&contents);
  if (!st) st = conversation_file_fill(conversation, &contents);
  if (!st) st = clave_tensors_save(path, contents.names, contents.tensors, contents.n, metadata, 1);
  free_contents(&contents);
  return st;
}

/* ---------------------------------------------------------------- restoring */

/* Finds a list of `count` elements, or of any number if count is -1. */
static clave_status find_list(const clave_tensors *file, const char *name, clave_dtype dtype,
                              int64_t count, clave_tensor *out) {
  if (!clave_tensors_find(file, name, out))
    return INVALID("not a conversation file: the tensor '%s' is missing", name);
  if (out->dtype == dtype && out->rank == 1 && (count < 0 || out->dims[0] == count)) return NULL;
  return INVALID("tensor '%s' is not a list of %s of the right length", name,
                 clave_dtype_name(dtype));
}

/* True if size n fits the axis. A dynamic axis may have any size that the program allows, but the
 * same one in all state tensors: *capacity, which is 0 before the first. */
static bool conversation_file_fits(int64_t n, const clave_tensor_info *info, int axis,
                                   int64_t *capacity) {
  if (info->dims[axis] != CLAVE_DYNAMIC) return n == info->dims[axis];
  if (*capacity) return n == *capacity;
  *capacity = n;
  return n >= info->min_dims[axis] && n <= info->max_dims[axis];
}

static clave_status conversation_file_find_state(const clave_tensors *file,
                                                 const clave_llm_conversation *conversation,
                                                 uint32_t index, const char *name,
                                                 int64_t *capacity, clave_tensor *out) {
  clave_tensor_info info = {.size = sizeof info};
  TRY(conversation->state->describe(conversation, index, &info));
  if (!clave_tensors_find(file, name, out)) return INVALID("the file has no tensor '%s'", name);
  bool same = out->dtype == info.dtype && out->rank == info.rank;
  for (int k = 0; same && k < info.rank; k++)
    same = conversation_file_fits(out->dims[k], &info, k, capacity);
  return same ? NULL
              : INVALID("tensor '%s' differs in dtype or shape from the program's %s", name,
                        info.name);
}

/* Copies a list, because tensors of a file need not be aligned. */
static clave_status copy_list(const clave_tensor *tensor, size_t n, int64_t **out) {
  free(*out);
  *out = calloc(n + 1, sizeof **out);
  if (!*out) return status_no_memory();
  if (n) memcpy(*out, tensor->data, n * sizeof **out);
  return NULL;
}

static clave_status copy_integers(contents *contents) {
  TRY(copy_list(&contents->tensors[IDS], (size_t)contents->tensors[IDS].dims[0], &contents->ids));
  TRY(copy_list(&contents->tensors[TURNS], (size_t)contents->tensors[TURNS].dims[0] * TURN_FIELDS,
                &contents->turns));
  memcpy(contents->facts, contents->tensors[CONVERSATION].data, sizeof contents->facts);
  memcpy(&contents->check, contents->tensors[contents->n - 1].data, sizeof contents->check);
  return NULL;
}

static clave_status check_facts(const clave_llm_conversation *conversation,
                                const contents *contents) {
  const int64_t *from = contents->facts;
  int64_t n = contents->tensors[IDS].dims[0], program;
  TRY(hash_program(conversation->llm->program, &program));
  if (contents->facts[FACT_PROGRAM] != program)
    return INVALID("the conversation belongs to another program");
  if (n > conversation->llm->info.max_context || contents->facts[FACT_N_RUN] < 0 ||
      contents->facts[FACT_N_RUN] > n)
    return INVALID("the counts are invalid: %" PRId64 " ids, of which %" PRId64
                   " were run, in a context of %u tokens",
                   n, contents->facts[FACT_N_RUN], conversation->llm->info.max_context);
  if (from[FACT_WRITTEN] < from[FACT_N_RUN] ||
      from[FACT_WRITTEN] > conversation->llm->info.max_context || from[FACT_LOGITS] < 0 ||
      from[FACT_LOGITS] > from[FACT_N_RUN])
    return INVALID("the counts are invalid: %" PRId64
                   " ids were written, and logits were computed after %" PRId64 " ids, but %" PRId64
                   " were run",
                   from[FACT_WRITTEN], from[FACT_LOGITS], from[FACT_N_RUN]);
  for (int64_t i = 0; i < n; i++) {
    if (contents->ids[i] < 0 || contents->ids[i] >= conversation->llm->info.n_vocab)
      return INVALID("id %" PRId64 " is out of range for the model's vocabulary", contents->ids[i]);
  }
  return NULL;
}

/* Checks that turns follow each other, within the ids and the messages. */
static clave_status check_turns(const contents *contents) {
  int64_t n = contents->tensors[TURNS].dims[0], at = 0, byte = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t *to = contents->turns + i * TURN_FIELDS;
    if (to[0] < at || to[1] < to[0] || to[2] < byte || to[3] < to[2] || to[4] < 0)
      return INVALID("turn %" PRId64 " of the chat does not follow the turn before it", i);
    at = to[1];
    byte = to[3];
  }
  if (at <= contents->tensors[IDS].dims[0] &&
      (n == 0 || byte == contents->tensors[MESSAGES].dims[0]))
    return NULL;
  return INVALID("the messages of the chat do not belong to its ids");
}

static clave_status conversation_file_check_chat(const clave_llm *llm, const contents *contents) {
  const clave_tensor *tensor = &contents->tensors[MESSAGES];
  text array = {0};
  TRY(check_turns(contents));
  if (tensor->dims[0] && !llm->tokenizer)
    return INVALID("the conversation is a chat, and the model has no tokenizer");
  text_puts(&array, "[");
  text_append(&array, tensor->data, (size_t)tensor->dims[0]);
  text_puts(&array, "]");
  clave_status st = text_status(&array);
  if (!st)
    st = status_while(json_walk(array.data, array.size, 0, NULL, NULL),
                      "the messages of the conversation");
  text_free(&array);
  return st;
}

/* Rejects other versions, which have other tensors. */
static clave_status check_version(const clave_tensors *file) {
  clave_tensor tensor;
  int64_t version;
  if (!clave_tensors_find(file, "conversation", &tensor) || tensor.dtype != CLAVE_I64 ||
      conversation_file_bytes_of(&tensor) < 8)
    return INVALID("not a conversation file: the tensor 'conversation' is missing");
  memcpy(&version, tensor.data, sizeof version);
  if (version == VERSION) return NULL;
  return INVALID("conversation file: expected version %d, got %" PRId64, VERSION, version);
}

static clave_status find_turns(const clave_tensors *file, clave_tensor *out) {
  if (!clave_tensors_find(file, "turns", out)) return INVALID("the file has no tensor 'turns'");
  bool good = out->dtype == CLAVE_I64 && out->rank == 2 && out->dims[1] == TURN_FIELDS;
  return good ? NULL : INVALID("tensor 'turns': expected I64 (t, %d)", TURN_FIELDS);
}

/* Fills `contents` from the file and checks all of it. */
static clave_status read_contents(const clave_llm_conversation *conversation,
                                  const clave_tensors *file, contents *contents) {
  int64_t check;
  TRY(check_version(file));
  TRY(find_list(file, "conversation", CLAVE_I64, FACTS, &contents->tensors[CONVERSATION]));
  TRY(find_list(file, "ids", CLAVE_I64, -1, &contents->tensors[IDS]));
  TRY(find_list(file, "messages", CLAVE_U8, -1, &contents->tensors[MESSAGES]));
  TRY(find_turns(file, &contents->tensors[TURNS]));
  TRY(find_list(file, "check", CLAVE_I64, 1, &contents->tensors[contents->n - 1]));
  TRY(copy_integers(contents));
  TRY(check_facts(conversation, contents));
  TRY(conversation_file_check_chat(conversation->llm, contents));
  TRY(find_list(file, "logits", CLAVE_F32, conversation->llm->info.n_vocab,
                &contents->tensors[LOGITS]));
  for (uint32_t i = 0; i < contents->n_state; i++)
    TRY(conversation_file_find_state(file, conversation, i, contents->names[FIRST_STATE + i],
                                     &contents->capacity, &contents->tensors[FIRST_STATE + i]));
  if (contents->capacity && contents->facts[FACT_N_RUN] > contents->capacity)
    return INVALID("%" PRId64 " ids were run, but the caches have a capacity of %" PRId64,
                   contents->facts[FACT_N_RUN], contents->capacity);
  TRY(hash_contents(contents->tensors, contents->n, &check));
  if (contents->check == check) return NULL;
  return INVALID("the contents are damaged (hash)");
}

static clave_status take_chat(const contents *contents, chat_memory *memory) {
  size_t n = (size_t)contents->tensors[TURNS].dims[0];
  text_append(&memory->history, contents->tensors[MESSAGES].data,
              (size_t)contents->tensors[MESSAGES].dims[0]);
  TRY(text_status(&memory->history));
  if (!array_reserve(&memory->turns, &memory->capacity, n, sizeof *memory->turns))
    return status_no_memory();
  for (size_t i = 0; i < n; i++) {
    const int64_t *to = contents->turns + i * TURN_FIELDS;
    memory->turns[i] = (chat_turn){(size_t)to[0], (size_t)to[1], (size_t)to[2],
                                   (size_t)to[3], (size_t)to[4], (uint64_t)to[5]};
  }
  memory->n_turns = n;
  return NULL;
}

static clave_status take_contents(clave_llm_conversation *conversation, const contents *contents) {
  size_t n = (size_t)contents->tensors[IDS].dims[0];
  uint32_t *list = calloc(n + 1, sizeof *list);
  if (!list) return status_no_memory();
  for (size_t i = 0; i < n; i++) list[i] = (uint32_t)contents->ids[i];
  clave_status st =
      conversation_replace_ids(conversation, list, n, (size_t)contents->facts[FACT_N_RUN]);
  free(list);
  conversation->state->lock(conversation);
  if (!st)
    st = conversation->state->accept_file(conversation, contents->capacity, conversation->n_run);
  for (uint32_t i = 0; i < contents->n_state && !st; i++) {
    const clave_tensor *tensor = &contents->tensors[FIRST_STATE + i];
    st = conversation->state->write(conversation, i, tensor, conversation_file_bytes_of(tensor));
  }
  conversation->state->unlock(conversation);
  if (!st) st = take_chat(contents, &conversation->chat);
  if (st) return st;
  memcpy(conversation->logits, contents->tensors[LOGITS].data,
         conversation_file_bytes_of(&contents->tensors[LOGITS]));
  conversation->n_written = (size_t)contents->facts[FACT_WRITTEN];
  conversation->n_logits = (size_t)contents->facts[FACT_LOGITS];
  sampler_set_draws(conversation->sampler, (uint64_t)contents->facts[FACT_DRAWS]);
  return NULL;
}

/* Drops the current contents only after the file has proved valid. */
static clave_status restore_from(clave_llm_conversation *conversation, const clave_tensors *file) {
  contents contents;
  clave_status st = create_contents(conversation->llm->program, 0, 0, &contents);
  if (!st) name_tensors(&contents);
  if (!st) st = read_contents(conversation, file, &contents);
  bool good = !st;
  if (good) st = clave_llm_reset(conversation);
  if (!st) st = take_contents(conversation, &contents);
  if (good && st) clave_status_free(clave_llm_reset(conversation));
  free_contents(&contents);
  return st;
}

clave_status clave_llm_restore(clave_llm_conversation *conversation, const char *path) {
  OWN_FLOAT_ENV;
  clave_tensors *file;
  TRY(clave_tensors_load(path, &file));
  clave_status st = status_while(restore_from(conversation, file), "%s", path);
  clave_status check = clave_tensors_check(file);
  clave_tensors_destroy(file);
  if (!check) return st;
  if (!st) st = clave_llm_reset(conversation); /* it may have read zeros */
  clave_status_free(st);
  return check;
}
