#include "cli/perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/interrupts.h"
#include "cli/progress.h"
#include "json/writer.h"

/* The tokens of the text, and buffers for one window. */
typedef struct measure {
  clave_llm_conversation *talk;
  const uint32_t *ids;
  size_t n_ids, window, stride; /* without BOS */
  uint32_t *window_ids;         /* BOS, if any, followed by a window */
  double *scores;
  size_t n_bos; /* 1 or 0 */
} measure;

/* Scores ids[begin..end), but counts only the ids from `fresh` on. */
static int score_window(const measure *measure, size_t begin, size_t end, size_t fresh,
                        perplexity *sum) {
  size_t n = end - begin;
  memcpy(measure->window_ids + measure->n_bos, measure->ids + begin, n * sizeof *measure->ids);
  TRY_STATUS(clave_llm_reset(measure->talk));
  TRY_STATUS(
      clave_llm_score(measure->talk, measure->window_ids, measure->n_bos + n, measure->scores));
  for (size_t i = fresh - begin; i < n; i++) {
    double score = measure->scores[measure->n_bos + i];
    if (isnan(score)) continue; /* the first token of the text has no predecessor */
    sum->nats -= score;
    sum->n_tokens++;
  }
  sum->n_windows++;
  return EXIT_GOOD;
}

static int score_text(const measure *measure, perplexity *sum) {
  size_t end = 0;
  for (size_t begin = 0; end < measure->n_ids; begin += measure->stride) {
    size_t fresh = end;
    end = begin + measure->window < measure->n_ids ? begin + measure->window : measure->n_ids;
    if (sum->n_tokens)
      show_progress("perplexity %.4f after %zu of %zu tokens",
                    exp(sum->nats / (double)sum->n_tokens), fresh, measure->n_ids);
    TRY_EXIT(score_window(measure, begin, end, fresh, sum));
    if (is_interrupted(NULL)) break;
  }
  clear_progress();
  if (sum->n_tokens) return EXIT_GOOD;
  return fail("the text has %zu tokens, and perplexity needs a token with a token before it",
              measure->n_ids);
}

/* Chooses sizes: a window and its BOS must fit the context, a stride the window. */
static int perplexity_choose_sizes(const clave_llm_info *info, int64_t window, int64_t stride,
                                   int32_t bos, measure *measure) {
  size_t most = info->max_context;
  measure->n_bos = bos != CLAVE_NO_TOKEN;
  if ((uint64_t)window > most)
    return fail("--window %lld exceeds the model's context of %zu tokens", (long long)window, most);
  measure->window = window ? (size_t)window : most;
  if (measure->window <= measure->n_bos)
    return fail(
        "a window of %zu tokens has no token to score after the BOS token; expected at least 2",
        measure->window);
  measure->window -= measure->n_bos;
  measure->stride = stride ? (size_t)stride : measure->window;
  if (measure->stride <= measure->window) return EXIT_GOOD;
  return fail("--stride %zu skips tokens: expected at most the %zu tokens of a window",
              measure->stride, measure->window);
}

static int score_ids(speech *speech, int32_t bos, measure *measure, perplexity *out) {
  measure->talk = speech->talk;
  measure->window_ids = calloc(measure->window + 1, sizeof *measure->window_ids);
  measure->scores = calloc(measure->window + 1, sizeof *measure->scores);
  if (measure->window_ids && measure->n_bos) measure->window_ids[0] = (uint32_t)bos;
  int result = measure->window_ids && measure->scores ? score_text(measure, out) : fail_memory();
  free(measure->window_ids);
  free(measure->scores);
  return result;
}

int measure_perplexity(speech *speech, const char *path, int64_t window, int64_t stride,
                       int32_t bos, perplexity *out) {
  clave_llm_info info = {.size = sizeof info};
  measure measure = {0};
  clave_ids ids;
  page content = {0};
  *out = (perplexity){0};
  TRY_STATUS(clave_llm_get_info(speech->llm, &info));
  if (!info.tokenizer) return fail("--perplexity needs a tokenizer: pass --tokenizer T");
  TRY_EXIT(perplexity_choose_sizes(&info, window, stride, bos, &measure));
  int result = read_file(path, &content);
  clave_status st = result
                        ? NULL
                        : clave_tokenizer_encode(info.tokenizer, content.data ? content.data : "",
                                                 content.size, NULL, &ids);
  if (!result && st) result = fail_status(st);
  if (!result) {
    measure.ids = ids.items;
    measure.n_ids = ids.count;
    out->n_bytes = content.size;
    result = score_ids(speech, bos, &measure, out);
    clave_ids_free(&ids);
  }
  text_free(&content);
  return result;
}

static double per_token(const perplexity *perplexity) {
  return perplexity->nats / (double)perplexity->n_tokens;
}

int print_perplexity(const perplexity *perplexity) {
  page out = {0};
  text_printf(&out, "perplexity %.4f: %.6f nats per token, %zu tokens in %zu windows\n",
              exp(per_token(perplexity)), per_token(perplexity), perplexity->n_tokens,
              perplexity->n_windows);
  int result = out.failed ? fail_memory() : write_output(out.data, out.size);
  text_free(&out);
  return result;
}

int write_perplexity(const speech *speech, const perplexity *perplexity, const char *path) {
  page out = {0};
  json_writer writer = {.out = &out};
  emit_object(&writer, NULL);
  emit_number(&writer, "perplexity", exp(per_token(perplexity)));
  emit_number(&writer, "nats_per_token", per_token(perplexity));
  emit_size(&writer, "tokens", perplexity->n_tokens);
  emit_size(&writer, "windows", perplexity->n_windows);
  emit_size(&writer, "bytes", perplexity->n_bytes);
  emit_string(&writer, "answered_by", clave_llm_answered_by(speech->talk));
  emit_end_object(&writer);
  int result = write_file(path, &out);
  text_free(&out);
  return result;
}
