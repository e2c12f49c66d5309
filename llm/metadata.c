/* The key "llm" of a program's metadata. */
#include <string.h>

#include "json/json.h"
#include "llm/language_model.h"

static clave_status wrong_kind(const char *key, const json *json, const char *expected) {
  return INVALID("llm.%s: expected %s, got %s", key, expected, json_kind_name(json_kind_of(json)));
}

static clave_status read_id(const char *key, const json *json, uint32_t *out) {
  int64_t id;
  if (!json_i64(json, &id) || id < 0 || id > INT32_MAX) return wrong_kind(key, json, "a token id");
  *out = (uint32_t)id;
  return NULL;
}

static clave_status metadata_read_context(mem_pool *pool, const json *json, llm_metadata *out) {
  (void)pool;
  if (json_i64(json, &out->max_context) && out->max_context > 0 && out->max_context <= UINT32_MAX)
    return NULL;
  return wrong_kind("max_context", json, "a number of tokens");
}

static clave_status metadata_read_token(const char *key, const json *json, bool *present,
                                        int32_t *out) {
  uint32_t id;
  *present = true;
  *out = CLAVE_NO_TOKEN;
  if (json_kind_of(json) == JSON_NULL) return NULL;
  TRY(read_id(key, json, &id));
  *out = (int32_t)id;
  return NULL;
}

static clave_status read_bos(mem_pool *pool, const json *json, llm_metadata *out) {
  (void)pool;
  return metadata_read_token("bos", json, &out->has_bos, &out->bos);
}

static clave_status read_eos(mem_pool *pool, const json *json, llm_metadata *out) {
  (void)pool;
  return metadata_read_token("eos", json, &out->has_eos, &out->eos);
}

static clave_status metadata_read_stop_ids(mem_pool *pool, const json *value, llm_metadata *out) {
  if (json_kind_of(value) != JSON_ARRAY) return wrong_kind("stop_ids", value, "a list of ids");
  out->has_stop_ids = true;
  out->stop_ids = mem_pool_alloc(pool, json_count(value) + 1, sizeof *out->stop_ids);
  if (!out->stop_ids) return status_no_memory();
  for (const json *i = json_first(value); i; i = json_next(i))
    TRY(read_id("stop_ids", i, &out->stop_ids[out->n_stop_ids++]));
  return NULL;
}

static clave_status metadata_read_text(mem_pool *pool, const char *key, const json *json,
                                       const char **out) {
  if (json_kind_of(json) == JSON_NULL) return NULL;
  if (json_kind_of(json) != JSON_STRING) return wrong_kind(key, json, "a string");
  *out = mem_pool_strdup(pool, json_string(json), strlen(json_string(json)));
  return *out ? NULL : status_no_memory();
}

static clave_status metadata_read_template(mem_pool *pool, const json *json, llm_metadata *out) {
  return metadata_read_text(pool, "chat_template", json, &out->chat_template);
}

static clave_status read_system(mem_pool *pool, const json *json, llm_metadata *out) {
  return metadata_read_text(pool, "default_system", json, &out->default_system);
}

static clave_status read_factor(const json *sampling, const char *key, float otherwise,
                                float *out) {
  const json *member = json_member(sampling, key);
  double number = (double)otherwise;
  if (member && json_kind_of(member) != JSON_NULL && !json_f64(member, &number))
    return INVALID("llm.sampling.%s: expected a number, got %s", key,
                   json_kind_name(json_kind_of(member)));
  *out = (float)number;
  return NULL;
}

/* Reads the keys of generation_config.json, with transformers' defaults for missing ones: top_k 50
 * and temperature 1. Unless do_sample is true, the most likely token is chosen. */
static clave_status read_sampling(mem_pool *pool, const json *value, llm_metadata *out) {
  enum { USUAL_TOP_K = 50 };
  clave_sampler_options *options = &out->sampling;
  int64_t top_k = USUAL_TOP_K;
  (void)pool;
  if (json_kind_of(value) == JSON_NULL) return NULL;
  if (json_kind_of(value) != JSON_OBJECT) return wrong_kind("sampling", value, "an object");
  const json *samples = json_member(value, "do_sample"), *limit = json_member(value, "top_k");
  if (samples && json_kind_of(samples) != JSON_BOOL)
    return wrong_kind("sampling.do_sample", samples, "true or false");
  out->has_do_sample = samples != NULL;
  if (limit && json_kind_of(limit) != JSON_NULL &&
      (!json_i64(limit, &top_k) || top_k < 0 || top_k > UINT32_MAX))
    return wrong_kind("sampling.top_k", limit, "a number of tokens");
  *options = (clave_sampler_options){.size = sizeof *options, .top_k = (uint32_t)top_k};
  TRY(read_factor(value, "temperature", 1, &options->temperature));
  TRY(read_factor(value, "top_p", 0, &options->top_p));
  TRY(read_factor(value, "min_p", 0, &options->min_p));
  TRY(read_factor(value, "repetition_penalty", 0, &options->repetition_penalty));
  if (!samples || !json_is_true(samples)) {
    *options = (clave_sampler_options){.size = sizeof *options,
                                       .repetition_penalty = options->repetition_penalty};
  }
  out->has_sampling = true;
  return NULL;
}

static clave_status metadata_read_pages(mem_pool *pool, const json *value, llm_metadata *out) {
  (void)pool;
  if (json_kind_of(value) != JSON_BOOL) return wrong_kind("pages", value, "true or false");
  out->no_pages = !json_is_true(value);
  return NULL;
}

static const struct {
  const char *key;
  clave_status (*read)(mem_pool *pool, const json *json, llm_metadata *out);
} keys[] = {{"max_context", metadata_read_context},
            {"bos", read_bos},
            {"eos", read_eos},
            {"stop_ids", metadata_read_stop_ids},
            {"chat_template", metadata_read_template},
            {"default_system", read_system},
            {"sampling", read_sampling},
            {"pages", metadata_read_pages}};

static clave_status read_keys(mem_pool *pool, const json *document, llm_metadata *out) {
  const json *llm = json_kind_of(document) == JSON_OBJECT ? json_member(document, "llm") : NULL;
  if (!llm) return NULL;
  if (json_kind_of(llm) != JSON_OBJECT)
    return INVALID("llm: expected an object, got %s", json_kind_name(json_kind_of(llm)));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const json *json = json_member(llm, keys[i].key);
    if (json) TRY(keys[i].read(pool, json, out));
  }
  return NULL;
}

clave_status llm_metadata_read(mem_pool *pool, const char *metadata, llm_metadata *out) {
  *out = (llm_metadata){.bos = CLAVE_NO_TOKEN, .eos = CLAVE_NO_TOKEN};
  if (!metadata || !*metadata) return NULL;
  json *document;
  clave_status st = json_parse(metadata, strlen(metadata), &document);
  if (st) return status_while(st, "the program's metadata");
  st = read_keys(pool, document, out);
  json_free(document);
  return status_while(st, "the program's metadata");
}
