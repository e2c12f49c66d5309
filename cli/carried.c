/* Shows what a program contains besides its graph. Its metadata may be any JSON. */
#include "cli/carried.h"

#include <inttypes.h>
#include <string.h>

#include "clave_llm.h"
#include "json/json.h"

enum { LONG_TEXT = 80 }; /* bytes; of longer texts only the beginning and the size are shown */

/* ---------------------------------------------------------------- the tokenizer */

static int write_tokenizer(const clave_program *program, json_writer *writer, page *out) {
  size_t size;
  clave_tokenizer *tokenizer;
  clave_tokenizer_info info = {.size = sizeof info};
  if (!clave_program_section(program, "TOKN", &size)) {
    if (writer) emit_string(writer, "tokenizer", NULL);
    return EXIT_GOOD;
  }
  TRY_STATUS(clave_tokenizer_of_program(program, &tokenizer));
  clave_status st = clave_tokenizer_get_info(tokenizer, &info);
  if (!st && writer) {
    emit_object(writer, "tokenizer");
    emit_string(writer, "format", info.format);
    emit_integer(writer, "n_ids", info.n_ids);
    emit_id(writer, "bos", info.bos);
    emit_id(writer, "eos", info.eos);
    emit_end_object(writer);
  } else if (!st) {
    text_printf(out, "tokens   %s, %" PRIu32 " ids\n", info.format, info.n_ids);
  }
  clave_tokenizer_destroy(tokenizer);
  TRY_STATUS(st);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- metadata as JSON */

void emit_json(json_writer *writer, const char *key, const json *value) {
  json_kind kind = json_kind_of(value);
  int64_t i;
  if (kind == JSON_OBJECT || kind == JSON_ARRAY) {
    (kind == JSON_OBJECT ? emit_object : emit_list)(writer, key);
    for (const json *m = json_first(value); m; m = json_next(m))
      emit_json(writer, kind == JSON_OBJECT ? json_key(m) : NULL, m);
    (kind == JSON_OBJECT ? emit_end_object : emit_end_array)(writer);
  } else if (kind == JSON_STRING) {
    emit_string(writer, key, json_string(value));
  } else if (kind == JSON_BOOL) {
    emit_bool(writer, key, json_is_true(value));
  } else if (kind == JSON_NUMBER && json_i64(value, &i)) {
    emit_integer(writer, key, i);
  } else if (kind == JSON_NUMBER) {
    emit_number(writer, key, json_number(value));
  } else {
    emit_string(writer, key, NULL);
  }
}

/* ---------------------------------------------------------------- metadata as lines */

/* Writes the first line that is not empty, at most LONG_TEXT bytes of it, and the size. */
static void write_long(const char *text, page *out) {
  char line[LONG_TEXT + 1];
  size_t begin = strspn(text, " \t\r\n"), n = strcspn(text + begin, "\r\n");
  if (n > LONG_TEXT) n = LONG_TEXT;
  while (n > 0 && ((unsigned char)text[begin + n] & 0xC0) == 0x80) n--; /* whole characters */
  memcpy(line, text + begin, n);
  line[n] = '\0';
  page_visible(out, line);
  text_printf(out, "... (%zu bytes)", strlen(text));
}

void write_value(const json *value, page *out) {
  int64_t i;
  switch (json_kind_of(value)) {
    case JSON_NULL:
      text_puts(out, "none");
      break;
    case JSON_BOOL:
      text_puts(out, json_is_true(value) ? "yes" : "no");
      break;
    case JSON_NUMBER:
      if (json_i64(value, &i)) {
        text_printf(out, "%" PRId64, i);
      } else {
        text_printf(out, "%.6g", json_number(value));
      }
      break;
    case JSON_STRING:
      if (strlen(json_string(value)) > LONG_TEXT) {
        write_long(json_string(value), out);
      } else {
        page_visible(out, json_string(value));
      }
      break;
    case JSON_ARRAY:
    case JSON_OBJECT:
      for (const json *m = json_first(value); m; m = json_next(m)) {
        if (m != json_first(value)) text_puts(out, ", ");
        if (json_kind_of(value) == JSON_OBJECT) {
          page_visible(out, json_key(m));
          text_puts(out, " ");
        }
        write_value(m, out); /* depth is limited by json_parse */
      }
      break;
  }
}

static void carried_write_lines(const json *llm, page *out) {
  columns table = {.n_columns = 3};
  page cell = {0};
  for (const json *m = json_first(llm); m; m = json_next(m)) {
    columns_cell(&table, "%s", m == json_first(llm) ? "llm    " : "");
    cell.size = 0;
    page_visible(&cell, json_key(m));
    columns_cell(&table, "%s", cell.size ? cell.data : "");
    cell.size = 0;
    write_value(m, &cell);
    columns_cell(&table, "%s", cell.size ? cell.data : "");
  }
  columns_write(&table, 0, out);
  out->failed |= cell.failed;
  text_free(&cell);
}

int write_carried(const clave_program *program, json_writer *writer, page *out) {
  clave_program_info info = {.size = sizeof info};
  json *document = NULL;
  TRY_EXIT(write_tokenizer(program, writer, out));
  TRY_STATUS(clave_program_get_info(program, &info));
  if (info.metadata && *info.metadata) /* metadata that is not JSON is ignored */
    clave_status_free(json_parse(info.metadata, strlen(info.metadata), &document));
  const json *llm =
      document && json_kind_of(document) == JSON_OBJECT ? json_member(document, "llm") : NULL;
  if (writer && document) {
    emit_json(writer, "metadata", document);
  } else if (writer) {
    emit_string(writer, "metadata", NULL);
  } else if (llm && json_kind_of(llm) == JSON_OBJECT) {
    carried_write_lines(llm, out);
  }
  json_free(document);
  return EXIT_GOOD;
}
