/* Loads a language model: a program, its tokenizer, and the properties that follow from both. */
#include "base/clock.h"
#include "base/file.h"
#include "llm/language_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/sized.h"
#include "base/threads.h"
#include "clave_files.h"
#include "llm/chat.h"
#include "tokenizer/find.h"

/* ---------------------------------------------------------------- properties */

static clave_status llm_load_read_context(clave_llm *llm, const llm_metadata *metadata) {
  int64_t context = metadata->max_context;
  if (!context) TRY(llm_methods_context(llm->program, llm->methods, llm->n_methods, &context));
  if (context < 2 || context > UINT32_MAX)
    return INVALID(
        "the program does not declare its context: set the metadata key llm.max_context");
  llm->info.max_context = (uint32_t)context;
  return NULL;
}

/* Limits the context to fewer tokens than the program was made for. */
static clave_status limit_context(clave_llm *llm, uint32_t most) {
  if (most == 0 || most == llm->info.max_context) return NULL;
  if (most == 1) return INVALID("max_context: a context of 1 token leaves no room for an answer");
  if (most > llm->info.max_context)
    return INVALID("max_context: %u exceeds the %u tokens for which the program was exported", most,
                   llm->info.max_context);
  llm->info.max_context = most;
  return NULL;
}

static clave_status llm_load_check_id(const clave_llm *llm, const char *key, uint32_t id) {
  if (id < llm->info.n_vocab) return NULL;
  return INVALID("%s is %u, and the program has logits for %u tokens", key, id, llm->info.n_vocab);
}

/* Returns the tokenizer's id if the program has it, else CLAVE_NO_TOKEN. */
static int32_t known(const clave_llm *llm, int32_t id) {
  return id >= 0 && (uint32_t)id < llm->info.n_vocab ? id : CLAVE_NO_TOKEN;
}

static clave_status read_ends(clave_llm *llm, const llm_metadata *metadata) {
  clave_tokenizer_info info = {.size = sizeof info, .bos = CLAVE_NO_TOKEN, .eos = CLAVE_NO_TOKEN};
  if (llm->tokenizer) TRY(clave_tokenizer_get_info(llm->tokenizer, &info));
  if (metadata->bos != CLAVE_NO_TOKEN)
    TRY(llm_load_check_id(llm, "llm.bos", (uint32_t)metadata->bos));
  if (metadata->eos != CLAVE_NO_TOKEN)
    TRY(llm_load_check_id(llm, "llm.eos", (uint32_t)metadata->eos));
  llm->info.bos = metadata->has_bos ? metadata->bos : known(llm, info.bos);
  llm->eos = metadata->has_eos ? metadata->eos : known(llm, info.eos);
  return NULL;
}

static void add_stop_id(uint32_t *ids, size_t *count, int32_t id) {
  if (id == CLAVE_NO_TOKEN) return;
  for (size_t i = 0; i < *count; i++) {
    if (ids[i] == (uint32_t)id) return;
  }
  ids[(*count)++] = (uint32_t)id;
}

/* Sets the stop ids from the metadata. If it has no list, or if the tokenizer is not the program's
 * own, EOS and the id with which the chat template ends answers are added. */
static clave_status llm_load_read_stop_ids(clave_llm *llm, const llm_metadata *metadata,
                                           bool other_tokenizer) {
  uint32_t *ids = mem_pool_alloc(llm->pool, metadata->n_stop_ids + 2, sizeof *ids);
  size_t n = 0;
  if (!ids) return status_no_memory();
  for (size_t i = 0; i < metadata->n_stop_ids; i++) {
    TRY(llm_load_check_id(llm, "llm.stop_ids", metadata->stop_ids[i]));
    add_stop_id(ids, &n, (int32_t)metadata->stop_ids[i]);
  }
  if (!metadata->has_stop_ids || other_tokenizer) {
    int32_t end;
    TRY(chat_find_end(llm, &end));
    add_stop_id(ids, &n, llm->eos);
    add_stop_id(ids, &n, known(llm, end));
  }
  llm->info.stop_ids = ids;
  llm->info.n_stop_ids = n;
  return NULL;
}

/* Sets the chat template. If the program's own template is not supported, only its use is an
 * error. */
static clave_status take_template(clave_llm *llm, const char *given_template, bool given) {
  if (!given_template) return NULL;
  llm->info.chat_template = mem_pool_strdup(llm->pool, given_template, strlen(given_template));
  if (!llm->info.chat_template) return status_no_memory();
  clave_status st = chat_template_of(given_template, given, &llm->chat);
  if (!st || given || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

/* Stores the text that templates write for BOS or EOS. SentencePiece's control tokens have no text,
 * so `otherwise` is stored instead. */
static clave_status llm_load_token_text(const clave_llm *llm, int32_t id, const char *otherwise,
                                        char **out) {
  size_t size;
  uint32_t one = (uint32_t)id;
  if (id == CLAVE_NO_TOKEN || !llm->tokenizer || !tokenizer_has(llm->tokenizer, one)) return NULL;
  TRY(clave_tokenizer_decode(llm->tokenizer, &one, 1, false, out, &size));
  if (size) return NULL;
  free(*out);
  *out = strdup(otherwise);
  return *out ? NULL : status_no_memory();
}

/* Chats sample by default, because small models repeat themselves with the most likely tokens. */
static void choose_chat_sampling(clave_llm *llm, const llm_metadata *metadata) {
  const clave_sampler_options usual = {.size = sizeof usual,
                                       .temperature = CLAVE_LLM_CHAT_TEMPERATURE,
                                       .min_p = CLAVE_LLM_CHAT_MIN_P,
                                       .repetition_penalty = metadata->sampling.repetition_penalty};
  bool says =
      metadata->has_sampling && (metadata->has_do_sample || metadata->sampling.temperature > 0);
  llm->chat_sampling = says ? metadata->sampling : usual;
  llm->info.chat_sampling = &llm->chat_sampling;
}

static clave_status llm_load_describe(clave_llm *llm, const clave_llm_options *options) {
  const char *template_name = options->chat_template;
  clave_program_info program = {.size = sizeof program};
  llm_metadata metadata;
  TRY(clave_program_get_info(llm->program, &program));
  TRY(llm_metadata_read(llm->pool, program.metadata, &metadata));
  TRY(llm_methods_read(llm->program, llm->methods, &llm->n_methods));
  llm->info.n_vocab = (uint32_t)llm->methods[0].n_vocab;
  llm->info.tokenizer = llm->tokenizer;
  TRY(take_template(llm, template_name ? template_name : metadata.chat_template, template_name));
  llm->default_system = metadata.default_system;
  llm->no_pages = metadata.no_pages;
  llm->sampling = metadata.sampling;
  if (metadata.has_sampling) llm->info.sampling = &llm->sampling;
  choose_chat_sampling(llm, &metadata);
  TRY(llm_load_read_context(llm, &metadata));
  TRY(llm_capacity_find(llm));
  TRY(limit_context(llm, options->max_context));
  TRY(read_ends(llm, &metadata));
  TRY(llm_load_token_text(llm, llm->info.bos, "<s>", &llm->bos_text));
  TRY(llm_load_token_text(llm, llm->eos, "</s>", &llm->eos_text));
  metadata.has_stop_ids = metadata.has_stop_ids && !template_name;
  return llm_load_read_stop_ids(llm, &metadata, options->tokenizer != NULL);
}

bool llm_is_stop_id(const clave_llm *llm, uint32_t id) {
  for (size_t i = 0; i < llm->info.n_stop_ids; i++) {
    if (llm->info.stop_ids[i] == id) return true;
  }
  return false;
}

/* ---------------------------------------------------------------- lifetime */

static clave_status llm_load_tokenizer(clave_llm *llm, const char *path,
                                       const clave_llm_options *options) {
  size_t size;
  if (options->tokenizer)
    return clave_tokenizer_load(options->tokenizer, options->tokenizer_options, &llm->tokenizer);
  if (!clave_program_section(llm->program, "TOKN", &size)) return NULL;
  return status_while(clave_tokenizer_of_program(llm->program, &llm->tokenizer), "%s", path);
}

static clave_status llm_load_program(clave_llm *llm, const char *path,
                                     const clave_llm_options *options) {
  const clave_program_options of_program = {.size = sizeof of_program,
                                            .consts = options->consts,
                                            .max_context = options->max_context,
                                            .has_tokenizer = options->tokenizer != NULL,
                                            .kv = options->kv};
  const bool is_onnx = folder_exists(path) || path_has_ending(path, ".onnx");
  if (options->kv && (options->clv || is_onnx))
    return INVALID("%s: kv: only the caches of a .gguf file can be chosen", path);
  if (options->clv)
    return clave_program_load_bytes(options->clv, options->clv_size, path, &llm->program);
  return is_onnx ? clave_llm_import(path, &llm->program)
                 : clave_program_load(path, &of_program, &llm->program);
}

static clave_status llm_load(clave_llm *llm, const char *path, const clave_llm_options *options) {
  clave_llm_options opts;
  TRY(sized_read(options, &opts, SIZED(clave_llm_options, chat_template)));
  TRY(mem_pool_create(&llm->pool));
  TRY(scratch_pool_init(&llm->scratch));
  TRY(mutex_create(&llm->pools_lock));
  TRY(llm_load_program(llm, path, &opts));
  TRY(llm_load_tokenizer(llm, path, &opts));
  TRY(status_while(llm_load_describe(llm, &opts), "%s", path));
  return llm->no_pages ? NULL : llm_page(llm);
}

clave_status clave_llm_load(const char *path, clave_device *device,
                            const clave_llm_options *options, clave_llm **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  int64_t start = clock_ns();
  clave_llm *llm = calloc(1, sizeof *llm);
  if (!llm) return status_no_memory();
  llm->n_references = 1;
  llm->device = clave_device_retain(device);
  clave_status st = llm_load(llm, path, options);
  if (st) {
    clave_llm_destroy(llm);
    return st;
  }
  llm->load_ms = 1e-6 * (double)(clock_ns() - start);
  *out = llm;
  return NULL;
}

clave_status clave_llm_get_info(const clave_llm *llm, clave_llm_info *info) {
  return sized_write(&llm->info, info, SIZED(clave_llm_info, chat_template));
}

void clave_llm_destroy(clave_llm *llm) {
  if (!llm || --llm->n_references > 0) return;
  scratch_pool_free(&llm->scratch);
  clave_template_destroy(llm->chat);
  free(llm->bos_text);
  free(llm->eos_text);
  clave_tokenizer_destroy(llm->tokenizer);
  clave_program_destroy(llm->paged);
  mutex_destroy(llm->pools_lock);
  clave_program_destroy(llm->program);
  clave_device_destroy(llm->device);
  mem_pool_destroy(llm->pool);
  free(llm);
}
