/* Answers, token by token, and their statistics. */
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
  const speech *s = ctx;
  if (!s->begun) show_steps(NULL, what, done, total);
}

static int keep_id(speech *s, uint32_t id) {
  if (!array_reserve(&s->ids, &s->capacity, s->n_ids + 1, sizeof *s->ids)) return fail_memory();
  s->ids[s->n_ids++] = id;
  return EXIT_GOOD;
}

static int write_token(const speech *s, const clave_llm_token *t) {
  char number[16];
  if (t->text) return write_output(t->text, t->text_size);
  int n = snprintf(number, sizeof number, "%s%" PRIu32, s->n_ids > 1 ? " " : "", t->id);
  return write_output(number, (size_t)n);
}

/* ---------------------------------------------------------------- tokens by themselves */

/* null where it is none of the tokenizer's. */
static void emit_token(json_writer *j, const clave_tokenizer *t, uint32_t id) {
  char *bytes = NULL;
  size_t size = 0;
  clave_status st = t ? clave_tokenizer_decode(t, &id, 1, false, &bytes, &size) : NULL;
  clave_status_free(st);
  emit_size(j, "id", id);
  if (bytes) {
    emit_text(j, "text", bytes, size);
  } else {
    emit_string(j, "text", NULL);
  }
  clave_text_free(bytes);
}

static int tokenizer_of(const speech *s, const clave_tokenizer **out) {
  clave_llm_info info = {.size = sizeof info};
  TRY_STATUS(clave_llm_get_info(s->llm, &info));
  *out = info.tokenizer;
  return EXIT_GOOD;
}

int show_prompt(const speech *s, uint64_t count) {
  size_t n;
  const uint32_t *ids = clave_llm_ids(s->talk, &n);
  const clave_tokenizer *t = NULL;
  page out = {0};
  TRY_EXIT(tokenizer_of(s, &t));
  for (size_t i = n - (size_t)count; s->verbose && i < n; i++) {
    json_writer j = {.out = &out};
    emit_record(&j, NULL);
    emit_token(&j, t, ids[i]);
    emit_end_object(&j);
  }
  clear_progress();
  if (out.data) (void)fputs(out.data, stderr);
  text_free(&out);
  return EXIT_GOOD;
}

/* A line for the token that was chosen last. */
static int keep_logprobs(speech *s) {
  clave_llm_logprob chosen;
  const clave_tokenizer *t = NULL;
  json_writer j = {.out = &s->likely};
  if (!s->logprobs) return EXIT_GOOD;
  TRY_EXIT(tokenizer_of(s, &t));
  TRY_STATUS(clave_llm_logprobs(s->talk, &chosen, s->top, s->n_top));
  emit_record(&j, NULL);
  emit_token(&j, t, chosen.id);
  emit_number(&j, "logprob", (double)chosen.logprob);
  emit_array(&j, "top");
  for (size_t i = 0; i < s->n_top; i++) {
    emit_object(&j, NULL);
    emit_token(&j, t, s->top[i].id);
    emit_number(&j, "logprob", (double)s->top[i].logprob);
    emit_end_object(&j);
  }
  emit_end_array(&j);
  emit_end_object(&j);
  return EXIT_GOOD;
}

int write_logprobs(const speech *s) { return write_file(s->logprobs, &s->likely); }

void free_speech(speech *s) {
  free(s->ids);
  free(s->top);
  text_free(&s->likely);
  free_chat_inputs(&s->chat);
}

/* ---------------------------------------------------------------- an answer */

/* What was held back when the answer ends here. */
static int write_rest(speech *s) {
  const char *rest;
  size_t size;
  TRY_STATUS(clave_llm_flush(s->talk, &rest, &size));
  return write_output(rest, size);
}

static int next_token(speech *s, clave_llm_token *token) {
  clave_status st = clave_llm_next(s->talk, token);
  clear_progress();
  if (st && is_interrupted(NULL)) {
    clave_status_free(st);
    return EXIT_GOOD;
  }
  if (st) return fail_status(st);
  s->begun = true;
  TRY_EXIT(keep_id(s, token->id));
  TRY_EXIT(keep_logprobs(s));
  return write_token(s, token);
}

int speak(speech *s) {
  clave_llm_token token = {0};
  int64_t n = 0;
  s->begun = false;
  while (n++ < s->max_new_tokens && !token.stop && !is_interrupted(NULL))
    TRY_EXIT(next_token(s, &token));
  s->stop_reason = token.stop             ? clave_llm_stop_name(token.stop)
                   : is_interrupted(NULL) ? "interrupted"
                                          : "max_new_tokens";
  clave_llm_info info = {.size = sizeof info};
  TRY_STATUS(clave_llm_get_info(s->llm, &info));
  if (!info.tokenizer) return write_output("\n", 1);
  return token.stop ? EXIT_GOOD : write_rest(s);
}

bool stopped_by(const speech *s, const char *reason) {
  return s->stop_reason && strcmp(s->stop_reason, reason) == 0;
}

/* ---------------------------------------------------------------- what is said of it */

static void add_rate(columns *table, const char *what, uint64_t tokens, double ms) {
  columns_cell(table, "%s", what);
  columns_cell(table, "%" PRIu64 " tokens", tokens);
  columns_cell(table, "%.1f ms", ms);
  columns_cell(table, "%.1f tokens/s", ms > 0 ? 1e3 * (double)tokens / ms : 0.0);
}

void print_statistics(const speech *s) {
  clave_llm_stats stats;
  columns table = {.n_columns = 4, .right = {[1] = true, [2] = true, [3] = true}};
  page out = {0};
  clave_llm_get_stats(s->talk, &stats);
  add_rate(&table, "prompt", stats.prompt_tokens, stats.prompt_ms);
  add_rate(&table, "decode", stats.decode_tokens, stats.decode_ms);
  if (isatty(STDOUT_FILENO)) text_puts(&out, "\n"); /* the text has not ended its line */
  columns_write(&table, 0, &out);
  text_printf(&out, "first token after %.1f ms, loaded in %.1f ms, peak memory %.1f MB; %s\n",
              stats.ttft_ms, stats.load_ms, measure_peak(), s->stop_reason);
  if (!out.failed) (void)fputs(out.data, stderr);
  text_free(&out);
}

int write_ids(const speech *s, const char *path) {
  page out = {0};
  for (size_t i = 0; i < s->n_ids; i++) text_printf(&out, "%" PRIu32 "\n", s->ids[i]);
  text_puts(&out, "");
  int result = write_file(path, &out);
  text_free(&out);
  return result;
}

int write_statistics(const speech *s, const char *path) {
  clave_llm_stats stats;
  page out = {0};
  json_writer j = {.out = &out};
  clave_llm_get_stats(s->talk, &stats);
  emit_object(&j, NULL);
  emit_size(&j, "prompt_tokens", stats.prompt_tokens);
  emit_number(&j, "prompt_ms", stats.prompt_ms);
  emit_size(&j, "decode_tokens", stats.decode_tokens);
  emit_number(&j, "decode_ms", stats.decode_ms);
  emit_number(&j, "ttft_ms", stats.ttft_ms);
  emit_number(&j, "load_ms", stats.load_ms);
  emit_number(&j, "peak_rss_mb", measure_peak());
  emit_string(&j, "answered_by", clave_llm_answered_by(s->talk));
  emit_string(&j, "stop_reason", s->stop_reason);
  emit_end_object(&j);
  int result = write_file(path, &out);
  text_free(&out);
  return result;
}

int speak_line(speech *s) {
  TRY_EXIT(speak(s));
  TRY_EXIT(write_output("\n", 1));
  if (stopped_by(s, "max_new_tokens")) print_note(NULL, "cut off by --max-new-tokens");
  return EXIT_GOOD;
}
