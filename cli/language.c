/* Summarises a language model: parameters by storage format, context, tokenizer, chat template,
 * sampling. */
#include "cli/language.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clave_llm.h"
#include "cli/carried.h"
#include "json/fields.h"

/* A storage format of weights, and the number of parameters in it. */
typedef struct format_share {
  const char *name; /* borrowed from the graph's slots */
  uint64_t count;
} format_share;

typedef struct language_model {
  const json *llm;
  format_share *formats; /* owned; most frequent first */
  uint32_t n_formats;
  uint64_t n_parameters;
  int64_t embedding; /* width of a token's embedding; 0: not found */
  bool has_template, sees_tools;
  clave_tokenizer_info tokenizer; /* format NULL: no tokenizer */
} language_model;

/* ---------------------------------------------------------------- constants */

static const char *format_of(const clave_tensor_info *info) {
  return info->encoding == CLAVE_ENCODING_PLAIN ? clave_dtype_name(info->dtype)
                                                : info->encoding_text;
}

static bool is_weight(const clave_tensor_info *info) {
  bool is_float = info->dtype <= CLAVE_F64 && clave_dtype_size(info->dtype);
  return info->kind == CLAVE_SLOT_CONSTANT && info->rank > 0 &&
         (is_float || info->encoding != CLAVE_ENCODING_PLAIN);
}

static int compare_shares(const void *left, const void *right) {
  const format_share *a = left, *b = right;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  return strcmp(a->name, b->name);
}

static int count_parameters(const graph *graph, language_model *model) {
  model->formats = calloc((size_t)graph->n_slots + 1, sizeof *model->formats);
  if (!model->formats) return fail_memory();
  for (uint32_t i = 0; i < graph->n_slots; i++) {
    const clave_tensor_info *info = &graph->slots[i];
    uint64_t count = 1;
    uint32_t k = 0;
    if (!is_weight(info)) continue;
    for (int d = 0; d < info->rank; d++) count *= (uint64_t)info->dims[d];
    while (k < model->n_formats && strcmp(model->formats[k].name, format_of(info)) != 0) k++;
    if (k == model->n_formats) model->formats[model->n_formats++].name = format_of(info);
    model->formats[k].count += count;
    model->n_parameters += count;
  }
  qsort(model->formats, model->n_formats, sizeof *model->formats, compare_shares);
  return EXIT_GOOD;
}

/* Returns the width of the embedding: the width of the first constant matrix that a node reads
 * together with the first input. */
static int64_t find_embedding(const graph *graph) {
  for (uint32_t i = 0; i < graph->n_nodes && graph->n_inputs; i++) {
    const graph_node *node = &graph->nodes[i];
    int64_t width = 0;
    bool by_token = false;
    for (uint32_t k = 0; k < node->n_reads; k++) {
      const clave_tensor_info *info = &graph->slots[node->slots[k]];
      by_token = by_token || node->slots[k] == graph->inputs[0].slot;
      if (info->kind == CLAVE_SLOT_CONSTANT && info->rank == 2) width = info->dims[1];
    }
    if (by_token && width) return width;
  }
  return 0;
}

/* ---------------------------------------------------------------- the chat template */

/* Sets *out if the template renders tools. */
static int look_for_tools(const clave_template *template, bool *out) {
  const clave_template_inputs in = {
      .size = sizeof in,
      .tools =
          "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"?\", "
          "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}]",
      .add_generation_prompt = true};
  bool ignored, documents;
  clave_status st = clave_template_ignores(template, &in, &ignored, &documents);
  if (st && clave_status_code(st) == CLAVE_NO_MEMORY) return fail_status(st);
  *out = !st && !ignored;
  clave_status_free(st); /* the template raised an exception, so it is not known to render tools */
  return EXIT_GOOD;
}

static int language_read_template(language_model *model) {
  clave_template *template = NULL;
  const char *source = text_or_null(model->llm, "chat_template");
  bool is_text = source && strchr(source, '{');
  model->has_template = source != NULL;
  clave_status st = !source   ? NULL
                    : is_text ? clave_template_create(source, strlen(source), &template)
                              : clave_template_load(source, &template);
  if (st && clave_status_code(st) == CLAVE_NO_MEMORY) return fail_status(st);
  clave_status_free(st); /* a chat reports parse errors */
  int result = template ? look_for_tools(template, &model->sees_tools) : EXIT_GOOD;
  clave_template_destroy(template);
  return result;
}

/* ---------------------------------------------------------------- the tokenizer */

static int read_tokenizer(const clave_program *program, clave_tokenizer **tokenizer,
                          language_model *model) {
  size_t size;
  *tokenizer = NULL;
  model->tokenizer = (clave_tokenizer_info){.size = sizeof model->tokenizer};
  if (!clave_program_section(program, "TOKN", &size)) return EXIT_GOOD;
  TRY_STATUS(clave_tokenizer_of_program(program, tokenizer));
  TRY_STATUS(clave_tokenizer_get_info(*tokenizer, &model->tokenizer));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- text */

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

static void write_formats(const language_model *model, page *out) {
  for (uint32_t i = 0; i < model->n_formats; i++)
    text_printf(out, "%s%s %.1f %%", i ? ", " : "", model->formats[i].name,
                100 * (double)model->formats[i].count / (double)model->n_parameters);
}

/* Writes the first line of a long text. */
static void write_first_line(const char *text, page *out) {
  size_t begin = strspn(text, " \t\r\n");
  size_t n = strcspn(text + begin, "\r\n");
  text_append(out, text + begin, n < 80 ? n : 80);
}

static void write_sampling(const json *sampling, page *out) {
  const json *samples = sampling ? json_member(sampling, "do_sample") : NULL;
  if (!sampling || json_kind_of(sampling) != JSON_OBJECT) {
    text_printf(out, "not stored: chats use temperature %g, min_p %g",
                (double)CLAVE_LLM_CHAT_TEMPERATURE, (double)CLAVE_LLM_CHAT_MIN_P);
  } else if (samples && !json_is_true(samples)) {
    text_puts(out, "greedy");
  } else {
    write_value(sampling, out);
  }
}

static void add_page(columns *table, const char *name, page *cell) {
  text_puts(cell, "");
  if (!cell->failed) add_text(table, name, cell->data);
  table->cells.failed |= cell->failed;
  text_clear(cell);
}

static void language_write_lines(const language_model *model, page *out) {
  columns table = {.n_columns = 3};
  page cell = {0};
  const json *source = json_member(model->llm, "source"),
             *context = json_member(model->llm, "max_context");
  const char *licence = text_or_null(model->llm, "license");
  add_text(&table, "name", source ? text_or_null(source, "name") : NULL);
  add_text(&table, "architecture", source ? text_or_null(source, "architecture") : NULL);
  write_count(model->n_parameters, &cell);
  add_page(&table, "parameters", &cell);
  if (context) write_value(context, &cell);
  add_page(&table, "context length", &cell);
  if (model->embedding) text_printf(&cell, "%" PRId64, model->embedding);
  add_page(&table, "embedding length", &cell);
  write_formats(model, &cell);
  add_page(&table, "quantisation", &cell);
  if (model->tokenizer.format)
    text_printf(&cell, "%s, %" PRIu32 " ids", model->tokenizer.format, model->tokenizer.n_ids);
  add_page(&table, "tokenizer", &cell);
  add_text(&table, "chat template", model->has_template ? "yes" : "no");
  text_printf(&cell, "completion%s%s", model->has_template ? ", chat" : "",
              model->sees_tools ? ", tools" : "");
  add_page(&table, "capabilities", &cell);
  if (licence) write_first_line(licence, &cell);
  add_page(&table, "licence", &cell);
  write_sampling(json_member(model->llm, "sampling"), &cell);
  add_page(&table, "sampling", &cell);
  columns_write(&table, 0, out);
  text_puts(out, "\n");
  text_free(&cell);
}

/* ---------------------------------------------------------------- as JSON */

static void emit_member(json_writer *writer, const char *key, const json *object,
                        const char *name) {
  const json *json = object ? json_member(object, name) : NULL;
  if (json) {
    emit_json(writer, key, json);
  } else {
    emit_string(writer, key, NULL);
  }
}

static void write_object(const language_model *model, json_writer *writer) {
  const json *source = json_member(model->llm, "source");
  bool has_source = source && json_kind_of(source) == JSON_OBJECT;
  emit_object(writer, "language_model");
  emit_member(writer, "name", has_source ? source : NULL, "name");
  emit_member(writer, "architecture", has_source ? source : NULL, "architecture");
  emit_size(writer, "parameters", model->n_parameters);
  emit_member(writer, "context_length", model->llm, "max_context");
  if (model->embedding) emit_integer(writer, "embedding_length", model->embedding);
  if (!model->embedding) emit_string(writer, "embedding_length", NULL);
  emit_record(writer, "quantisation"); /* parameters by storage format */
  for (uint32_t i = 0; i < model->n_formats; i++)
    emit_size(writer, model->formats[i].name, model->formats[i].count);
  emit_end_object(writer);
  emit_string(writer, "tokenizer", model->tokenizer.format);
  emit_bool(writer, "chat_template", model->has_template);
  emit_list(writer, "capabilities");
  emit_string(writer, NULL, "completion");
  if (model->has_template) emit_string(writer, NULL, "chat");
  if (model->sees_tools) emit_string(writer, NULL, "tools");
  emit_end_array(writer);
  emit_member(writer, "license", model->llm, "license");
  emit_member(writer, "sampling", model->llm, "sampling");
  emit_end_object(writer);
}

/* ---------------------------------------------------------------- entry points */

static int language_write_known(const model *model, const graph *graph,
                                language_model *language_model, json_writer *writer, page *out) {
  clave_tokenizer *tokenizer;
  int result = read_tokenizer(model->program, &tokenizer, language_model);
  if (!result) result = count_parameters(graph, language_model);
  if (!result) result = language_read_template(language_model);
  language_model->embedding = find_embedding(graph);
  if (!result && writer) write_object(language_model, writer);
  if (!result && !writer) language_write_lines(language_model, out);
  clave_tokenizer_destroy(tokenizer);
  free(language_model->formats);
  return result;
}

int write_language_model(const model *model, const graph *graph, json_writer *writer, page *out) {
  clave_program_info info = {.size = sizeof info};
  json *document = NULL;
  TRY_STATUS(clave_program_get_info(model->program, &info));
  if (info.metadata && *info.metadata) /* metadata that is not JSON is omitted */
    clave_status_free(json_parse(info.metadata, strlen(info.metadata), &document));
  language_model language_model = {0};
  if (document && json_kind_of(document) == JSON_OBJECT)
    language_model.llm = json_member(document, "llm");
  bool is_one = language_model.llm && json_kind_of(language_model.llm) == JSON_OBJECT;
  int result =
      is_one ? language_write_known(model, graph, &language_model, writer, out) : EXIT_GOOD;
  if (!is_one && writer) emit_string(writer, "language_model", NULL);
  json_free(document);
  return result;
}
