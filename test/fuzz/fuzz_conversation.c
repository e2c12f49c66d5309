/* Conversation files with corrected hashes: an error leaves the conversation unchanged; else it
 * continues and can be saved. */
#include <math.h>

#include "base/hash.h"
#include "clave_llm.h"
#include "serialize/safetensors.h"
#include "test/fuzz/files.h"

enum { FACT_PROGRAM = 3, FACTS = 6, CONTEXT = 4, N_VOCAB = 5 };

static clave_llm *llm; /* test/fuzz/talk.clv, written by make_programs.py */
static int64_t program_hash;
static const uint32_t prompt[2] = {3, 1};

static const char *saved_file(void) {
  static char path[64];
  (void)snprintf(path, sizeof path, "%s/saved", open_fuzz_folder());
  return path;
}

static clave_llm_conversation *new_talk(void) {
  static clave_llm_conversation *talk;
  if (!talk) require(is_good(clave_llm_conversation_create(llm, NULL, &talk)));
  require(is_good(clave_llm_reset(talk)) && is_good(clave_llm_prompt(talk, prompt, 2)));
  return talk;
}

static void read_program_hash(void) {
  tensor_file *file;
  clave_llm_conversation *talk = new_talk();
  require(is_good(clave_llm_save(talk, saved_file())));
  require(is_good(tensor_file_open(saved_file(), &file)));
  program_hash = ((const int64_t *)tensor_file_find(file, "conversation")->data)[FACT_PROGRAM];
  tensor_file_destroy(file);
}

static void load_model(void) {
  static clave_device *device;
  clave_device_options options = {.size = sizeof options, .n_threads = 1};
  if (llm) return;
  require(is_good(clave_device_open("cpu", &options, &device)));
  require(is_good(clave_llm_load("test/fuzz/talk.clv", device, NULL, &llm)));
  read_program_hash();
}

/* Returns the tensor's bytes in the input, or NULL if it is missing or too short. */
static uint8_t *find_bytes(const tensor_file *file, const char *name, size_t bytes, uint8_t *input,
                           size_t size) {
  const tensor_entry *entry = tensor_file_find(file, name);
  if (!entry || entry->bytes < bytes) return NULL;
  uint8_t *at = (uint8_t *)(uintptr_t)entry->data;
  return at >= input && at < input + size ? at : NULL;
}

/* Sets the program's identity and the right checksum in the file. */
static void put_right(uint8_t *bytes, size_t size) {
  static const char *const parts[] = {"conversation", "ids",     "logits", "messages",
                                      "turns",        "state.0", "state.1"};
  tensor_file *file;
  if (!is_good(tensor_file_parse(bytes, size, &file))) return;
  uint8_t *facts = find_bytes(file, "conversation", FACTS * sizeof(int64_t), bytes, size);
  uint8_t *check = find_bytes(file, "check", sizeof(int64_t), bytes, size);
  hash_state *hash = hash_create();
  require(hash != NULL);
  if (facts) memcpy(facts + FACT_PROGRAM * sizeof(int64_t), &program_hash, sizeof program_hash);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const tensor_entry *entry = tensor_file_find(file, parts[i]);
    if (entry && entry->bytes) hash_update(hash, entry->data, entry->bytes);
  }
  uint64_t value = hash_value(hash);
  if (check) memcpy(check, &value, sizeof value);
  hash_destroy(hash);
  tensor_file_destroy(file);
}

/* The conversation's messages must be JSON that can be read again, and its turns can be undone. */
static void use_chat(clave_llm_conversation *talk) {
  clave_template_inputs in = {.size = sizeof in,
                              .messages = "[{\"role\":\"user\",\"content\":\"\\u0002\"}]"};
  char *messages;
  require(is_good(clave_llm_messages(talk, &messages)) && *messages == '[');
  clave_text_free(messages);
  (void)is_good(clave_llm_prompt_messages(talk, &in));
  for (int i = 0; i < CONTEXT && is_good(clave_llm_undo(talk, i % 2)); i++) continue;
  (void)is_good(clave_llm_rewind(talk, 1));
}

/* Checks a restored conversation: its ids are the model's, it continues up to the context's length,
 * and it can be saved and restored. */
static void use(clave_llm_conversation *talk) {
  size_t n;
  clave_llm_token token;
  const uint32_t *ids = clave_llm_ids(talk, &n);
  require(n <= CONTEXT);
  for (size_t i = 0; i < n; i++) require(ids[i] < N_VOCAB);
  for (int i = 0; i < CONTEXT && is_good(clave_llm_next(talk, &token)); i++)
    require(token.id < N_VOCAB);
  require(is_good(clave_llm_save(talk, saved_file())));
  require(is_good(clave_llm_restore(talk, saved_file())));
  use_chat(talk);
  require(is_good(clave_llm_restore(talk, saved_file())));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  load_model();
  uint8_t *bytes = aligned_alloc(64, (size + 64) / 64 * 64);
  require(bytes != NULL);
  memcpy(bytes, data, size);
  put_right(bytes, size);
  clave_llm_conversation *talk = new_talk();
  if (is_good(clave_llm_restore(talk, input_file(bytes, size)))) {
    use(talk);
  } else {
    size_t n;
    const uint32_t *ids = clave_llm_ids(talk, &n);
    require(n == 2 && memcmp(ids, prompt, sizeof prompt) == 0);
  }
  free(bytes);
  return 0;
}
