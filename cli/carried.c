/* What a program carries besides its graph. Its metadata is JSON of anybody's. */
#include "cli/carried.h"

#include <inttypes.h>
#include <string.h>

#include "clave_llm.h"
#include "json/json.h"

enum { LONG_TEXT = 80 }; /* bytes: of longer ones the beginning is shown, and the size told */

/* ---------------------------------------------------------------- the tokenizer */

static void emit_id(json_writer *j, const char *key, int32_t id) {
  if (id == CLAVE_NO_TOKEN) {
    emit_string(j, key, NULL);
  } else {
    emit_integer(j, key, id);
  }
}

static int write_tokenizer(const clave_program *p, json_writer *j, page *out) {
  size_t size;
  clave_tokenizer *t;
  clave_tokenizer_info info = {.size = sizeof info};
  if (!clave_program_section(p, "TOKN", &size)) {
    if (j) emit_string(j, "tokenizer", NULL);
    return EXIT_GOOD;
  }
  TRY_STATUS(clave_tokenizer_of_program(p, &t));
  clave_status st = clave_tokenizer_get_info(t, &info);
  if (!st && j) {
    emit_object(j, "tokenizer");
    emit_string(j, "format", info.format);
    emit_integer(j, "n_ids", info.n_ids);
    emit_id(j, "bos", info.bos);
    emit_id(j, "eos", info.eos);
    emit_end_object(j);
  } else if (!st) {
    text_printf(out, "tokens   %s, %" PRIu32 " ids\n", info.format, info.n_ids);
  }
  clave_tokenizer_destroy(t);
  TRY_STATUS(st);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- metadata as it is */

void emit_json(json_writer *j, const char *key, const json *v) {
  json_kind kind = json_kind_of(v);
  int64_t i;
  if (kind == JSON_OBJECT || kind == JSON_ARRAY) {
    (kind == JSON_OBJECT ? emit_object : emit_list)(j, key);
    for (const json *m = json_first(v); m; m = json_next(m))
      emit_json(j, kind == JSON_OBJECT ? json_key(m) : NULL, m);
    (kind == JSON_OBJECT ? emit_end_object : emit_end_array)(j);
  } else if (kind == JSON_STRING) {
    emit_string(j, key, json_string(v));
  } else if (kind == JSON_BOOL) {
    emit_bool(j, key, json_is_true(v));
  } else if (kind == JSON_NUMBER && json_i64(v, &i)) {
    emit_integer(j, key, i);
  } else if (kind == JSON_NUMBER) {
    emit_number(j, key, json_number(v));
  } else {
    emit_string(j, key, NULL);
  }
}

/* ---------------------------------------------------------------- metadata in lines */

/* The first line that is not empty, as far as it is no longer than a short text, and the size. */
static void write_long(const char *s, page *out) {
  char line[LONG_TEXT + 1];
  size_t begin = strspn(s, " \t\r\n"), n = strcspn(s + begin, "\r\n");
  if (n > LONG_TEXT) n = LONG_TEXT;
  while (n > 0 && ((unsigned char)s[begin + n] & 0xC0) == 0x80) n--; /* whole characters */
  memcpy(line, s + begin, n);
  line[n] = '\0';
  page_visible(out, line);
  text_printf(out, "... (%zu bytes)", strlen(s));
}

void write_value(const json *v, page *out) {
  int64_t i;
  switch (json_kind_of(v)) {
    case JSON_NULL:
      text_puts(out, "none");
      break;
    case JSON_BOOL:
      text_puts(out, json_is_true(v) ? "yes" : "no");
      break;
    case JSON_NUMBER:
      if (json_i64(v, &i)) {
        text_printf(out, "%" PRId64, i);
      } else {
        text_printf(out, "%.6g", json_number(v));
      }
      break;
    case JSON_STRING:
      if (strlen(json_string(v)) > LONG_TEXT) {
        write_long(json_string(v), out);
      } else {
        page_visible(out, json_string(v));
      }
      break;
    case JSON_ARRAY:
    case JSON_OBJECT:
      for (const json *m = json_first(v); m; m = json_next(m)) {
        if (m != json_first(v)) text_puts(out, ", ");
        if (json_kind_of(v) == JSON_OBJECT) {
          page_visible(out, json_key(m));
          text_puts(out, " ");
        }
        write_value(m, out); /* as deep as json_parse lets documents be */
      }
      break;
  }
}

static void write_lines(const json *llm, page *out) {
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

int write_carried(const clave_program *p, json_writer *j, page *out) {
  clave_program_info info = {.size = sizeof info};
  json *document = NULL;
  TRY_EXIT(write_tokenizer(p, j, out));
  TRY_STATUS(clave_program_get_info(p, &info));
  if (info.metadata && *info.metadata) /* text of another kind is nobody's business here */
    clave_status_free(json_parse(info.metadata, strlen(info.metadata), &document));
  const json *llm =
      document && json_kind_of(document) == JSON_OBJECT ? json_member(document, "llm") : NULL;
  if (j && document) {
    emit_json(j, "metadata", document);
  } else if (j) {
    emit_string(j, "metadata", NULL);
  } else if (llm && json_kind_of(llm) == JSON_OBJECT) {
    write_lines(llm, out);
  }
  json_free(document);
  return EXIT_GOOD;
}
