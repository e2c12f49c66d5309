/* Summarises a language model: parameters by form, context, tokenizer, chat template, sampling. */
#include "cli/language.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clave_llm.h"
#include "cli/carried.h"
#include "json/fields.h"

/* A form in which weights are stored, and how many numbers are. */
typedef struct form_share {
  const char *name; /* borrowed from the graph's slots */
  uint64_t count;
} form_share;

typedef struct language_model {
  const json *llm;
  form_share *forms; /* owned, the most frequent first */
  uint32_t n_forms;
  uint64_t n_parameters;
  int64_t embedding; /* numbers of a token; 0: not found */
  bool has_template, sees_tools;
  clave_tokenizer_info tokenizer; /* format NULL: none */
} language_model;

/* ---------------------------------------------------------------- constants */

static const char *form_of(const clave_tensor_info *t) {
  return t->encoding == CLAVE_ENCODING_PLAIN ? clave_dtype_name(t->dtype) : t->encoding_text;
}

static bool is_weight(const clave_tensor_info *t) {
  bool is_float = t->dtype <= CLAVE_F64 && clave_dtype_size(t->dtype);
  return t->kind == CLAVE_SLOT_CONSTANT && t->rank > 0 &&
         (is_float || t->encoding != CLAVE_ENCODING_PLAIN);
}

static int compare_shares(const void *a, const void *b) {
  const form_share *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return strcmp(x->name, y->name);
}

static int count_parameters(const graph *g, language_model *l) {
  l->forms = calloc((size_t)g->n_slots + 1, sizeof *l->forms);
  if (!l->forms) return fail_memory();
  for (uint32_t i = 0; i < g->n_slots; i++) {
    const clave_tensor_info *t = &g->slots[i];
    uint64_t count = 1;
    uint32_t k = 0;
    if (!is_weight(t)) continue;
    for (int d = 0; d < t->rank; d++) count *= (uint64_t)t->dims[d];
    while (k < l->n_forms && strcmp(l->forms[k].name, form_of(t)) != 0) k++;
    if (k == l->n_forms) l->forms[l->n_forms++].name = form_of(t);
    l->forms[k].count += count;
    l->n_parameters += count;
  }
  qsort(l->forms, l->n_forms, sizeof *l->forms, compare_shares);
  return EXIT_GOOD;
}

/* The width of the table from which tokens choose rows. */
static int64_t find_embedding(const graph *g) {
  for (uint32_t i = 0; i < g->n_nodes && g->n_inputs; i++) {
    const graph_node *n = &g->nodes[i];
    int64_t width = 0;
    bool by_token = false;
    for (uint32_t k = 0; k < n->n_reads; k++) {
      const clave_tensor_info *t = &g->slots[n->slots[k]];
      by_token = by_token || n->slots[k] == g->inputs[0].slot;
      if (t->kind == CLAVE_SLOT_CONSTANT && t->rank == 2) width = t->dims[1];
    }
    if (by_token && width) return width;
  }
  return 0;
}

/* ---------------------------------------------------------------- the chat template */

/* Sets *out if the template writes tools. */
static int look_for_tools(const clave_template *t, bool *out) {
  const clave_template_inputs in = {
      .size = sizeof in,
      .tools =
          "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"?\", "
          "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}]",
      .add_generation_prompt = true};
  bool ignored, documents;
  clave_status st = clave_template_ignores(t, &in, &ignored, &documents);
  if (st && clave_status_code(st) == CLAVE_NO_MEMORY) return fail_status(st);
  *out = !st && !ignored;
  clave_status_free(st); /* the template raises an exception: it is not known to write tools */
  return EXIT_GOOD;
}

static int read_template(language_model *l) {
  clave_template *t = NULL;
  const char *said = text_or_null(l->llm, "chat_template");
  bool is_text = said && strchr(said, '{');
  l->has_template = said != NULL;
  clave_status st = !said     ? NULL
                    : is_text ? clave_template_create(said, strlen(said), &t)
                              : clave_template_load(said, &t);
  if (st && clave_status_code(st) == CLAVE_NO_MEMORY) return fail_status(st);
  clave_status_free(st); /* a chat reports why it cannot be read */
  int result = t ? look_for_tools(t, &l->sees_tools) : EXIT_GOOD;
  clave_template_destroy(t);
  return result;
}

/* ---------------------------------------------------------------- the tokenizer */

static int read_tokenizer(const clave_program *p, clave_tokenizer **t, language_model *l) {
  size_t size;
  *t = NULL;
  l->tokenizer = (clave_tokenizer_info){.size = sizeof l->tokenizer};
  if (!clave_program_section(p, "TOKN", &size)) return EXIT_GOOD;
  TRY_STATUS(clave_tokenizer_of_program(p, t));
  TRY_STATUS(clave_tokenizer_get_info(*t, &l->tokenizer));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- in lines */

static void add_text(columns *table, const char *name, const char *value) {
  page cell = {0};
  if (!value || !*value) return;
  page_visible(&cell, value);
  columns_cell(table, "%s", table->cells.size ? "" : "model  ");
  columns_cell(table, "%s", name);
  columns_cell(table, "%s", cell.data ? cell.data : "");
  table->cells.failed |= cell.failed;
  text_free(&cell);
}

static void write_count(uint64_t n, page *out) {
  static const char *const units[] = {"", " thousand", " million", " billion"};
  double x = (double)n;
  int unit = 0;
  for (; x >= 1000 && unit < 3; unit++) x /= 1000;
  text_printf(out, unit ? "%.1f%s" : "%.0f%s", x, units[unit]);
}

static void write_forms(const language_model *l, page *out) {
  for (uint32_t i = 0; i < l->n_forms; i++)
    text_printf(out, "%s%s %.1f %%", i ? ", " : "", l->forms[i].name,
                100 * (double)l->forms[i].count / (double)l->n_parameters);
}

/* The first line of a long text. */
static void write_first_line(const char *s, page *out) {
  size_t begin = strspn(s, " \t\r\n");
  size_t n = strcspn(s + begin, "\r\n");
  text_append(out, s + begin, n < 80 ? n : 80);
}

static void write_sampling(const json *said, page *out) {
  const json *samples = said ? json_member(said, "do_sample") : NULL;
  if (!said || json_kind_of(said) != JSON_OBJECT) {
    text_printf(out, "not said: chats use temperature %g, min_p %g",
                (double)CLAVE_LLM_CHAT_TEMPERATURE, (double)CLAVE_LLM_CHAT_MIN_P);
  } else if (samples && !json_is_true(samples)) {
    text_puts(out, "greedy");
  } else {
    write_value(said, out);
  }
}

static void add_page(columns *table, const char *name, page *cell) {
  text_puts(cell, "");
  if (!cell->failed) add_text(table, name, cell->data);
  table->cells.failed |= cell->failed;
  text_clear(cell);
}

static void write_lines(const language_model *l, page *out) {
  columns table = {.n_columns = 3};
  page cell = {0};
  const json *source = json_member(l->llm, "source"), *context = json_member(l->llm, "max_context");
  const char *licence = text_or_null(l->llm, "license");
  add_text(&table, "name", source ? text_or_null(source, "name") : NULL);
  add_text(&table, "architecture", source ? text_or_null(source, "architecture") : NULL);
  write_count(l->n_parameters, &cell);
  add_page(&table, "parameters", &cell);
  if (context) write_value(context, &cell);
  add_page(&table, "context length", &cell);
  if (l->embedding) text_printf(&cell, "%" PRId64, l->embedding);
  add_page(&table, "embedding length", &cell);
  write_forms(l, &cell);
  add_page(&table, "quantisation", &cell);
  if (l->tokenizer.format)
    text_printf(&cell, "%s, %" PRIu32 " ids", l->tokenizer.format, l->tokenizer.n_ids);
  add_page(&table, "tokenizer", &cell);
  add_text(&table, "chat template", l->has_template ? "yes" : "no");
  text_printf(&cell, "completion%s%s", l->has_template ? ", chat" : "",
              l->sees_tools ? ", tools" : "");
  add_page(&table, "capabilities", &cell);
  if (licence) write_first_line(licence, &cell);
  add_page(&table, "licence", &cell);
  write_sampling(json_member(l->llm, "sampling"), &cell);
  add_page(&table, "sampling", &cell);
  columns_write(&table, 0, out);
  text_puts(out, "\n");
  text_free(&cell);
}

/* ---------------------------------------------------------------- as JSON */

static void emit_member(json_writer *j, const char *key, const json *object, const char *name) {
  const json *v = object ? json_member(object, name) : NULL;
  if (v) {
    emit_json(j, key, v);
  } else {
    emit_string(j, key, NULL);
  }
}

static void write_object(const language_model *l, json_writer *j) {
  const json *source = json_member(l->llm, "source");
  bool has_source = source && json_kind_of(source) == JSON_OBJECT;
  emit_object(j, "language_model");
  emit_member(j, "name", has_source ? source : NULL, "name");
  emit_member(j, "architecture", has_source ? source : NULL, "architecture");
  emit_size(j, "parameters", l->n_parameters);
  emit_member(j, "context_length", l->llm, "max_context");
  if (l->embedding) emit_integer(j, "embedding_length", l->embedding);
  if (!l->embedding) emit_string(j, "embedding_length", NULL);
  emit_record(j, "quantisation"); /* parameters by form */
  for (uint32_t i = 0; i < l->n_forms; i++) emit_size(j, l->forms[i].name, l->forms[i].count);
  emit_end_object(j);
  emit_string(j, "tokenizer", l->tokenizer.format);
  emit_bool(j, "chat_template", l->has_template);
  emit_list(j, "capabilities");
  emit_string(j, NULL, "completion");
  if (l->has_template) emit_string(j, NULL, "chat");
  if (l->sees_tools) emit_string(j, NULL, "tools");
  emit_end_array(j);
  emit_member(j, "license", l->llm, "license");
  emit_member(j, "sampling", l->llm, "sampling");
  emit_end_object(j);
}

/* ---------------------------------------------------------------- both */

static int write_known(const model *m, const graph *g, language_model *l, json_writer *j,
                       page *out) {
  clave_tokenizer *tokenizer;
  int result = read_tokenizer(m->program, &tokenizer, l);
  if (!result) result = count_parameters(g, l);
  if (!result) result = read_template(l);
  l->embedding = find_embedding(g);
  if (!result && j) write_object(l, j);
  if (!result && !j) write_lines(l, out);
  clave_tokenizer_destroy(tokenizer);
  free(l->forms);
  return result;
}

int write_language_model(const model *m, const graph *g, json_writer *j, page *out) {
  clave_program_info info = {.size = sizeof info};
  json *document = NULL;
  TRY_STATUS(clave_program_get_info(m->program, &info));
  if (info.metadata && *info.metadata) /* metadata of another kind is left out */
    clave_status_free(json_parse(info.metadata, strlen(info.metadata), &document));
  language_model l = {0};
  if (document && json_kind_of(document) == JSON_OBJECT) l.llm = json_member(document, "llm");
  bool is_one = l.llm && json_kind_of(l.llm) == JSON_OBJECT;
  int result = is_one ? write_known(m, g, &l, j, out) : EXIT_GOOD;
  if (!is_one && j) emit_string(j, "language_model", NULL);
  json_free(document);
  return result;
}
