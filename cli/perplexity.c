#include "cli/perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files.h"
#include "cli/interrupts.h"
#include "cli/progress.h"
#include "json/writer.h"

/* The text's tokens, and where windows of them begin. */
typedef struct measure {
  clave_llm_conversation *talk;
  const uint32_t *ids;
  size_t n_ids, window, stride; /* without BOS */
  uint32_t *window_ids;         /* BOS, if there is one, and a window */
  double *scores;
  size_t n_bos; /* 1 or 0 */
} measure;

/* Scores ids[begin..end), of which those from `fresh` on count. */
static int score_window(const measure *m, size_t begin, size_t end, size_t fresh, perplexity *sum) {
  size_t n = end - begin;
  memcpy(m->window_ids + m->n_bos, m->ids + begin, n * sizeof *m->ids);
  TRY_STATUS(clave_llm_reset(m->talk));
  TRY_STATUS(clave_llm_score(m->talk, m->window_ids, m->n_bos + n, m->scores));
  for (size_t i = fresh - begin; i < n; i++) {
    double score = m->scores[m->n_bos + i];
    if (isnan(score)) continue; /* nothing stands before it */
    sum->nats -= score;
    sum->n_tokens++;
  }
  sum->n_windows++;
  return EXIT_GOOD;
}

static int score_text(const measure *m, perplexity *sum) {
  size_t end = 0;
  for (size_t begin = 0; end < m->n_ids; begin += m->stride) {
    size_t fresh = end;
    end = begin + m->window < m->n_ids ? begin + m->window : m->n_ids;
    if (sum->n_tokens)
      show_progress("perplexity %.4f after %zu of %zu tokens",
                    exp(sum->nats / (double)sum->n_tokens), fresh, m->n_ids);
    TRY_EXIT(score_window(m, begin, end, fresh, sum));
    if (is_interrupted(NULL)) break;
  }
  clear_progress();
  if (sum->n_tokens) return EXIT_GOOD;
  return fail("the text has %zu tokens, of which none has one before it", m->n_ids);
}

/* Sizes that fit: a window with its BOS into the context, a stride into the window. */
static int choose_sizes(const clave_llm_info *info, int64_t window, int64_t stride, int32_t bos,
                        measure *m) {
  size_t most = info->max_context;
  m->n_bos = bos != CLAVE_NO_TOKEN;
  if ((uint64_t)window > most)
    return fail("--window %lld is more than the model's context of %zu tokens", (long long)window,
                most);
  m->window = window ? (size_t)window : most;
  if (m->window <= m->n_bos) return fail("a window of %zu tokens has none to score", m->window);
  m->window -= m->n_bos;
  m->stride = stride ? (size_t)stride : m->window;
  if (m->stride <= m->window) return EXIT_GOOD;
  return fail("--stride %zu leaves out tokens: at most %zu of a window", m->stride, m->window);
}

static int score_ids(speech *s, int32_t bos, measure *m, perplexity *out) {
  m->talk = s->talk;
  m->window_ids = calloc(m->window + 1, sizeof *m->window_ids);
  m->scores = calloc(m->window + 1, sizeof *m->scores);
  if (m->window_ids && m->n_bos) m->window_ids[0] = (uint32_t)bos;
  int result = m->window_ids && m->scores ? score_text(m, out) : fail_memory();
  free(m->window_ids);
  free(m->scores);
  return result;
}

int measure_perplexity(speech *s, const char *path, int64_t window, int64_t stride, int32_t bos,
                       perplexity *out) {
  clave_llm_info info = {.size = sizeof info};
  measure m = {0};
  clave_ids ids;
  page content = {0};
  *out = (perplexity){0};
  TRY_STATUS(clave_llm_get_info(s->llm, &info));
  if (!info.tokenizer) return fail("--perplexity needs a tokenizer: --tokenizer T");
  TRY_EXIT(choose_sizes(&info, window, stride, bos, &m));
  int result = read_file(path, &content);
  clave_status st = result
                        ? NULL
                        : clave_tokenizer_encode(info.tokenizer, content.data ? content.data : "",
                                                 content.size, NULL, &ids);
  if (!result && st) result = fail_status(st);
  if (!result) {
    m.ids = ids.items;
    m.n_ids = ids.count;
    out->n_bytes = content.size;
    result = score_ids(s, bos, &m, out);
    clave_ids_free(&ids);
  }
  text_free(&content);
  return result;
}

static double per_token(const perplexity *p) { return p->nats / (double)p->n_tokens; }

int print_perplexity(const perplexity *p) {
  page out = {0};
  text_printf(&out, "perplexity %.4f: %.6f nats a token, %zu tokens in %zu windows\n",
              exp(per_token(p)), per_token(p), p->n_tokens, p->n_windows);
  int result = out.failed ? fail_memory() : write_output(out.data, out.size);
  text_free(&out);
  return result;
}

int write_perplexity(const speech *s, const perplexity *p, const char *path) {
  page out = {0};
  json_writer j = {.out = &out};
  emit_object(&j, NULL);
  emit_number(&j, "perplexity", exp(per_token(p)));
  emit_number(&j, "nats_per_token", per_token(p));
  emit_size(&j, "tokens", p->n_tokens);
  emit_size(&j, "windows", p->n_windows);
  emit_size(&j, "bytes", p->n_bytes);
  emit_string(&j, "answered_by", clave_llm_answered_by(s->talk));
  emit_end_object(&j);
  int result = write_file(path, &out);
  text_free(&out);
  return result;
}
