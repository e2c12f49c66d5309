/* Continues a prompt of token ids, greedily. Arguments are environment variables: PROG_JSON and
 * CONSTS_ST (the program and its constants), PROMPT_IDS and OUTPUT_IDS (files of integers between
 * white space), MAX_NEW_TOKENS, PRINT_BATCH (ids per line printed), CLAVE_DEVICE. */
#include <clave_llm.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *env_or(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}

/* Reads an integer of at least 1 from the environment. Prints a message and returns 0 for any other
 * value. */
static long env_count(const char *name, long otherwise) {
  const char *text = env_or(name, NULL);
  char *end;
  if (!text) return otherwise;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (!errno && !*end && value >= 1 && value < 1L << 30) return value;
  fprintf(stderr, "run_llama: %s: expected a count from 1 on, got '%s'\n", name, text);
  return 0;
}

static int report(clave_status status) {
  fprintf(stderr, "run_llama: %s\n", clave_status_message(status));
  clave_status_free(status);
  return 1;
}

/* Reads the ids of a file, which the caller frees. Prints a message and returns NULL if the file
 * has no ids, or contains anything else. */
static uint32_t *read_ids(const char *path, size_t *count) {
  FILE *file = fopen(path, "r");
  uint32_t *ids = NULL, id;
  size_t n = 0, capacity = 0;
  int found = 0;
  while (file && (found = fscanf(file, "%10u", &id)) == 1) {
    if (n == capacity) {
      uint32_t *more = realloc(ids, (capacity = capacity * 2 + 64) * sizeof *ids);
      if (!more) break;
      ids = more;
    }
    ids[n++] = id;
  }
  if (file) fclose(file);
  *count = n;
  if (file && found == EOF && n > 0) return ids;
  fprintf(stderr, "run_llama: %s: %s\n", path,
          file ? "not integers between white space" : "not there");
  free(ids);
  return NULL;
}

static int write_ids(const char *path, const uint32_t *ids, size_t count) {
  FILE *file = fopen(path, "w");
  for (size_t i = 0; file && i < count; i++) fprintf(file, "%u\n", ids[i]);
  if (file && fclose(file) == 0) return 0;
  fprintf(stderr, "run_llama: %s: cannot be written\n", path);
  return 1;
}

/* Prints up to `most` new ids, `batch` per line, when they arrive. */
static clave_status generate(clave_llm_conversation *talk, size_t most, size_t batch) {
  clave_llm_token token = {0};
  clave_status status = NULL;
  for (size_t i = 0; i < most && !token.stop && !status; i++) {
    status = clave_llm_next(talk, &token);
    if (status || token.stop == CLAVE_LLM_STOP_ID) break;
    printf("%u%c", token.id, (i + 1) % batch && i + 1 < most ? ' ' : '\n');
    if ((i + 1) % batch == 0) fflush(stdout);
  }
  return status;
}

static clave_status print_speed(const clave_llm_conversation *talk, const clave_device *device) {
  clave_llm_stats stats;
  clave_device_info info = {.size = sizeof info};
  clave_status status = clave_device_get_info(device, &info);
  if (status) return status;
  clave_llm_get_stats(talk, &stats);
  fprintf(stderr, "%s: prompt of %llu tokens in %.1f ms, then %.1f tokens/s\n", info.name,
          (unsigned long long)stats.prompt_tokens, stats.prompt_ms,
          stats.decode_ms > 0 ? 1000 * (double)stats.decode_tokens / stats.decode_ms : 0);
  return NULL;
}

int main(void) {
  size_t n_prompt, n_all;
  long most = env_count("MAX_NEW_TOKENS", 128), batch = env_count("PRINT_BATCH", 1);
  uint32_t *prompt = read_ids(env_or("PROMPT_IDS", "prompt_ids.txt"), &n_prompt);
  if (!most || !batch || !prompt) return free(prompt), 1;
  clave_llm_options options = {.size = sizeof options, .consts = env_or("CONSTS_ST", NULL)};
  clave_device *device = NULL;
  clave_llm *llm = NULL;
  clave_llm_conversation *talk = NULL;
  clave_status status = clave_device_open(NULL, NULL, &device);
  if (!status) status = clave_llm_load(env_or("PROG_JSON", "prog.json"), device, &options, &llm);
  if (!status) status = clave_llm_conversation_create(llm, NULL, &talk);
  if (!status) status = clave_llm_prompt(talk, prompt, n_prompt);
  if (!status) status = generate(talk, (size_t)most, (size_t)batch);
  if (!status) status = print_speed(talk, device);
  int failed = status ? report(status) : 0;
  if (!failed) {
    const uint32_t *all = clave_llm_ids(talk, &n_all);
    failed = write_ids(env_or("OUTPUT_IDS", "output_ids.txt"), all + n_prompt, n_all - n_prompt);
  }
  clave_llm_conversation_destroy(talk);
  clave_llm_destroy(llm);
  clave_device_destroy(device);
  free(prompt);
  return failed;
}
