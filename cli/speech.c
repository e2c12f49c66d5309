/* Prints answers token by token, and their statistics. */
#include "cli/speech.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/files.h"
#include "cli/interrupts.h"
#include "cli/measure.h"
#include "cli/progress.h"
#include "json/writer.h"

void show_building(void *ctx, const char *what, int done, int total) {
  const speech *speech = ctx;
  if (!speech->begun) show_steps(NULL, what, done, total);
}

static int keep_id(speech *speech, uint32_t id) {
  if (!array_reserve(&speech->ids, &speech->capacity, speech->n_ids + 1, sizeof *speech->ids))
    return fail_memory();
  speech->ids[speech->n_ids++] = id;
  return EXIT_GOOD;
}

static int write_token(const speech *speech, const clave_llm_token *token) {
  char number[16];
  if (token->text) return write_output(token->text, token->text_size);
  int n = snprintf(number, sizeof number, "%s%" PRIu32, speech->n_ids > 1 ? " " : "", token->id);
  return write_output(number, (size_t)n);
}

/* ---------------------------------------------------------------- tokens by themselves */

/* Writes null if the tokenizer does not have the id. */
static void emit_token(json_writer *writer, const clave_tokenizer *tokenizer, uint32_t id) {
  char *bytes = NULL;
  size_t size = 0;
  clave_status st =
      tokenizer ? clave_tokenizer_decode(tokenizer, &id, 1, false, &bytes, &size) : NULL;
  clave_status_free(st);
  emit_size(writer, "id", id);
  if (bytes) {
    emit_text(writer, "text", bytes, size);
  } else {
    emit_string(writer, "text", NULL);
  }
  clave_text_free(bytes);
}

static int tokenizer_of(const speech *speech, const clave_tokenizer **out) {
  clave_llm_info info = {.size = sizeof info};
  TRY_STATUS(clave_llm_get_info(speech->llm, &info));
  *out = info.tokenizer;
  return EXIT_GOOD;
}

int show_prompt(const speech *speech, uint64_t count) {
  size_t n;
  const uint32_t *ids = clave_llm_ids(speech->talk, &n);
  const clave_tokenizer *tokenizer = NULL;
  page out = {0};
  TRY_EXIT(tokenizer_of(speech, &tokenizer));
  for (size_t i = n - (size_t)count; speech->verbose && i < n; i++) {
    json_writer writer = {.out = &out};
    emit_record(&writer, NULL);
    emit_token(&writer, tokenizer, ids[i]);
    emit_end_object(&writer);
  }
  clear_progress();
  if (out.data) (void)fputs(out.data, stderr);
  text_free(&out);
  return EXIT_GOOD;
}

/* Adds a line for the last chosen token. */
static int keep_logprobs(speech *speech) {
  clave_llm_logprob chosen;
  const clave_tokenizer *tokenizer = NULL;
  json_writer writer = {.out = &speech->likely};
  if (!speech->logprobs) return EXIT_GOOD;
  TRY_EXIT(tokenizer_of(speech, &tokenizer));
  TRY_STATUS(clave_llm_logprobs(speech->talk, &chosen, speech->top, speech->n_top));
  emit_record(&writer, NULL);
  emit_token(&writer, tokenizer, chosen.id);
  emit_number(&writer, "logprob", (double)chosen.logprob);
  emit_array(&writer, "top");
  for (size_t i = 0; i < speech->n_top; i++) {
    emit_object(&writer, NULL);
    emit_token(&writer, tokenizer, speech->top[i].id);
    emit_number(&writer, "logprob", (double)speech->top[i].logprob);
    emit_end_object(&writer);
  }
  emit_end_array(&writer);
  emit_end_object(&writer);
  return EXIT_GOOD;
}

int write_logprobs(const speech *speech) { return write_file(speech->logprobs, &speech->likely); }

void free_speech(speech *speech) {
  free(speech->ids);
  free(speech->top);
  text_free(&speech->likely);
  free_chat_inputs(&speech->chat);
}

/* ---------------------------------------------------------------- an answer */

/* Writes the text that was held back until the answer's end. */
static int write_rest(speech *speech) {
  const char *rest;
  size_t size;
  TRY_STATUS(clave_llm_flush(speech->talk, &rest, &size));
  return write_output(rest, size);
}

static int next_token(speech *speech, clave_llm_token *token) {
  clave_status st = clave_llm_next(speech->talk, token);
  clear_progress();
  if (st && is_interrupted(NULL)) {
    clave_status_free(st);
    return EXIT_GOOD;
  }
  if (st) return fail_status(st);
  speech->begun = true;
  TRY_EXIT(keep_id(speech, token->id));
  TRY_EXIT(keep_logprobs(speech));
  return write_token(speech, token);
}

int speak(speech *speech) {
  clave_llm_token token = {0};
  int64_t n = 0;
  speech->begun = false;
  while (n++ < speech->max_new_tokens && !token.stop && !is_interrupted(NULL))
    TRY_EXIT(next_token(speech, &token));
  speech->stop_reason = token.stop             ? clave_llm_stop_name(token.stop)
                        : is_interrupted(NULL) ? "interrupted"
                                               : "max_new_tokens";
  clave_llm_info info = {.size = sizeof info};
  TRY_STATUS(clave_llm_get_info(speech->llm, &info));
  if (!info.tokenizer) return write_output("\n", 1);
  return token.stop ? EXIT_GOOD : write_rest(speech);
}

bool stopped_by(const speech *speech, const char *reason) {
  return speech->stop_reason && strcmp(speech->stop_reason, reason) == 0;
}

/* ---------------------------------------------------------------- statistics */

static void add_rate(columns *table, const char *what, uint64_t tokens, double ms) {
  columns_cell(table, "%s", what);
  columns_cell(table, "%" PRIu64 " tokens", tokens);
  columns_cell(table, "%.1f ms", ms);
  columns_cell(table, "%.1f tokens/s", ms > 0 ? 1e3 * (double)tokens / ms : 0.0);
}

void print_statistics(const speech *speech) {
  clave_llm_stats stats;
  columns table = {.n_columns = 4, .right = {[1] = true, [2] = true, [3] = true}};
  page out = {0};
  clave_llm_get_stats(speech->talk, &stats);
  add_rate(&table, "prompt", stats.prompt_tokens, stats.prompt_ms);
  add_rate(&table, "decode", stats.decode_tokens, stats.decode_ms);
  if (isatty(STDOUT_FILENO)) text_puts(&out, "\n"); /* the text ended without a newline */
  columns_write(&table, 0, &out);
  text_printf(&out, "first token after %.1f ms, loaded in %.1f ms, peak memory %.1f MB; %s\n",
              stats.ttft_ms, stats.load_ms, measure_peak(), speech->stop_reason);
  if (!out.failed) (void)fputs(out.data, stderr);
  text_free(&out);
}

int write_ids(const speech *speech, const char *path) {
  page out = {0};
  for (size_t i = 0; i < speech->n_ids; i++) text_printf(&out, "%" PRIu32 "\n", speech->ids[i]);
  text_puts(&out, "");
  int result = write_file(path, &out);
  text_free(&out);
  return result;
}

int write_statistics(const speech *speech, const char *path) {
  clave_llm_stats stats;
  page out = {0};
  json_writer writer = {.out = &out};
  clave_llm_get_stats(speech->talk, &stats);
  emit_object(&writer, NULL);
  emit_size(&writer, "prompt_tokens", stats.prompt_tokens);
  emit_number(&writer, "prompt_ms", stats.prompt_ms);
  emit_size(&writer, "decode_tokens", stats.decode_tokens);
  emit_number(&writer, "decode_ms", stats.decode_ms);
  emit_number(&writer, "ttft_ms", stats.ttft_ms);
  emit_number(&writer, "load_ms", stats.load_ms);
  emit_number(&writer, "peak_rss_mb", measure_peak());
  emit_string(&writer, "answered_by", clave_llm_answered_by(speech->talk));
  emit_string(&writer, "stop_reason", speech->stop_reason);
  emit_end_object(&writer);
  int result = write_file(path, &out);
  text_free(&out);
  return result;
}

int speak_line(speech *speech) {
  TRY_EXIT(speak(speech));
  TRY_EXIT(write_output("\n", 1));
  if (stopped_by(speech, "max_new_tokens"))
    print_note(NULL, "the answer was cut off by --max-new-tokens");
  return EXIT_GOOD;
}
