/* Loading a language model: a program, its tokenizer, and what follows from both. */
#include "base/clock.h"
#include "llm/language_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/sized.h"
#include "base/threads.h"
#include "clave_files.h"
#include "llm/chat.h"
#include "tokenizer/find.h"

/* ---------------------------------------------------------------- what is known of it */

static clave_status read_context(clave_llm *l, const llm_metadata *said) {
  int64_t context = said->max_context;
  if (!context) TRY(llm_methods_context(l->program, l->methods, l->n_methods, &context));
  if (context < 2 || context > UINT32_MAX)
    return INVALID(
        "its shapes do not say how many tokens it takes; the metadata's key "
        "llm.max_context does");
  l->info.max_context = (uint32_t)context;
  return NULL;
}

/* Fewer tokens than the program was made for. */
static clave_status limit_context(clave_llm *l, uint32_t most) {
  if (most == 0 || most == l->info.max_context) return NULL;
  if (most == 1) return INVALID("a context of 1 token has no room for an answer");
  if (most > l->info.max_context)
    return INVALID("a context of %u tokens: the program was made for at most %u", most,
                   l->info.max_context);
  l->info.max_context = most;
  return NULL;
}

static clave_status check_id(const clave_llm *l, const char *key, uint32_t id) {
  if (id < l->info.n_vocab) return NULL;
  return INVALID("%s is %u, and the program has logits for %u tokens", key, id, l->info.n_vocab);
}

/* A token of the tokenizer, if the program has it. */
static int32_t known(const clave_llm *l, int32_t id) {
  return id >= 0 && (uint32_t)id < l->info.n_vocab ? id : CLAVE_NO_TOKEN;
}

static clave_status read_ends(clave_llm *l, const llm_metadata *said) {
  clave_tokenizer_info t = {.size = sizeof t, .bos = CLAVE_NO_TOKEN, .eos = CLAVE_NO_TOKEN};
  if (l->tokenizer) TRY(clave_tokenizer_get_info(l->tokenizer, &t));
  if (said->bos != CLAVE_NO_TOKEN) TRY(check_id(l, "llm.bos", (uint32_t)said->bos));
  if (said->eos != CLAVE_NO_TOKEN) TRY(check_id(l, "llm.eos", (uint32_t)said->eos));
  l->info.bos = said->has_bos ? said->bos : known(l, t.bos);
  l->eos = said->has_eos ? said->eos : known(l, t.eos);
  return NULL;
}

static void add_stop_id(uint32_t *ids, size_t *n, int32_t id) {
  if (id == CLAVE_NO_TOKEN) return;
  for (size_t i = 0; i < *n; i++) {
    if (ids[i] == (uint32_t)id) return;
  }
  ids[(*n)++] = (uint32_t)id;
}

/* What the metadata says; EOS and what ends an answer in the chat template, if it says nothing. */
static clave_status read_stop_ids(clave_llm *l, const llm_metadata *said) {
  uint32_t *ids = mem_pool_alloc(l->pool, said->n_stop_ids + 2, sizeof *ids);
  size_t n = 0;
  if (!ids) return status_no_memory();
  for (size_t i = 0; i < said->n_stop_ids; i++) {
    TRY(check_id(l, "llm.stop_ids", said->stop_ids[i]));
    add_stop_id(ids, &n, (int32_t)said->stop_ids[i]);
  }
  if (!said->has_stop_ids) {
    int32_t end;
    TRY(chat_find_end(l, &end));
    add_stop_id(ids, &n, l->eos);
    add_stop_id(ids, &n, known(l, end));
  }
  l->info.stop_ids = ids;
  l->info.n_stop_ids = n;
  return NULL;
}

/* What is no template that we can read is refused when it is asked for. */
static clave_status take_template(clave_llm *l, const char *said, bool given) {
  if (!said) return NULL;
  l->info.chat_template = mem_pool_strdup(l->pool, said, strlen(said));
  if (!l->info.chat_template) return status_no_memory();
  clave_status st = chat_template_of(said, given, &l->chat);
  if (!st || given || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

/* How templates write BOS and EOS. SentencePiece's control tokens have no text: any will do. */
static clave_status token_text(const clave_llm *l, int32_t id, const char *otherwise, char **out) {
  size_t size;
  uint32_t one = (uint32_t)id;
  if (id == CLAVE_NO_TOKEN || !l->tokenizer || !tokenizer_has(l->tokenizer, one)) return NULL;
  TRY(clave_tokenizer_decode(l->tokenizer, &one, 1, false, out, &size));
  if (size) return NULL;
  free(*out);
  *out = strdup(otherwise);
  return *out ? NULL : status_no_memory();
}

/* Chats sample by default, since small models repeat themselves if the likeliest token is always
 * taken. */
static void choose_chat_sampling(clave_llm *l, const llm_metadata *said) {
  const clave_sampler_options usual = {.size = sizeof usual,
                                       .temperature = CLAVE_LLM_CHAT_TEMPERATURE,
                                       .min_p = CLAVE_LLM_CHAT_MIN_P,
                                       .repetition_penalty = said->sampling.repetition_penalty};
  bool says = said->has_sampling && (said->has_do_sample || said->sampling.temperature > 0);
  l->chat_sampling = says ? said->sampling : usual;
  l->info.chat_sampling = &l->chat_sampling;
}

static clave_status describe(clave_llm *l, const clave_llm_options *o) {
  const char *template_name = o->chat_template;
  clave_program_info program = {.size = sizeof program};
  llm_metadata said;
  TRY(clave_program_get_info(l->program, &program));
  TRY(llm_metadata_read(l->pool, program.metadata, &said));
  TRY(llm_methods_read(l->program, l->methods, &l->n_methods));
  l->info.n_vocab = (uint32_t)l->methods[0].n_vocab;
  l->info.tokenizer = l->tokenizer;
  TRY(take_template(l, template_name ? template_name : said.chat_template, template_name));
  l->default_system = said.default_system;
  l->sampling = said.sampling;
  if (said.has_sampling) l->info.sampling = &l->sampling;
  choose_chat_sampling(l, &said);
  TRY(read_context(l, &said));
  TRY(llm_room_find(l));
  TRY(limit_context(l, o->max_context));
  TRY(read_ends(l, &said));
  TRY(token_text(l, l->info.bos, "<s>", &l->bos_text));
  TRY(token_text(l, l->eos, "</s>", &l->eos_text));
  said.has_stop_ids = said.has_stop_ids && !template_name;
  return read_stop_ids(l, &said);
}

bool llm_is_stop_id(const clave_llm *l, uint32_t id) {
  for (size_t i = 0; i < l->info.n_stop_ids; i++) {
    if (l->info.stop_ids[i] == id) return true;
  }
  return false;
}

/* ---------------------------------------------------------------- lifetime */

static clave_status load_tokenizer(clave_llm *l, const char *path, const clave_llm_options *o) {
  size_t size;
  if (o->tokenizer) return clave_tokenizer_load(o->tokenizer, o->tokenizer_options, &l->tokenizer);
  if (!clave_program_section(l->program, "TOKN", &size)) return NULL;
  return status_while(clave_tokenizer_of_program(l->program, &l->tokenizer), "%s", path);
}

static clave_status load_program(clave_llm *l, const char *path, const clave_llm_options *o) {
  const clave_program_options of_program = {.size = sizeof of_program, .consts = o->consts};
  return o->clv ? clave_program_load_bytes(o->clv, o->clv_size, path, &l->program)
                : clave_program_load(path, &of_program, &l->program);
}

static clave_status load(clave_llm *l, const char *path, const clave_llm_options *options) {
  clave_llm_options o;
  TRY(sized_read(options, &o, SIZED(clave_llm_options, chat_template)));
  TRY(mem_pool_create(&l->pool));
  TRY(scratch_pool_init(&l->scratch));
  TRY(mutex_create(&l->pools_lock));
  TRY(load_program(l, path, &o));
  TRY(load_tokenizer(l, path, &o));
  TRY(status_while(describe(l, &o), "%s", path));
  return llm_page(l);
}

clave_status clave_llm_load(const char *path, clave_device *device,
                            const clave_llm_options *options, clave_llm **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  int64_t start = clock_ns();
  clave_llm *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->holds = 1;
  l->device = clave_device_retain(device);
  clave_status st = load(l, path, options);
  if (st) {
    clave_llm_destroy(l);
    return st;
  }
  l->load_ms = 1e-6 * (double)(clock_ns() - start);
  *out = l;
  return NULL;
}

clave_status clave_llm_get_info(const clave_llm *l, clave_llm_info *info) {
  return sized_write(&l->info, info, SIZED(clave_llm_info, chat_template));
}

void clave_llm_destroy(clave_llm *l) {
  if (!l || --l->holds > 0) return;
  scratch_pool_free(&l->scratch);
  clave_template_destroy(l->chat);
  free(l->bos_text);
  free(l->eos_text);
  clave_tokenizer_destroy(l->tokenizer);
  clave_program_destroy(l->paged);
  mutex_destroy(l->pools_lock);
  clave_program_destroy(l->program);
  clave_device_destroy(l->device);
  mem_pool_destroy(l->pool);
  free(l);
}
