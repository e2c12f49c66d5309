/* Tuning tables as JSON files. */
#include "cli/tune_table.h"

#include <stdio.h>
#include <string.h>

#include "cli/files.h"
#include "json/fields.h"
#include "json/writer.h"

enum { FORMAT_VERSION = 1, MOST_BYTES = 8 << 20 };

static uint32_t count_rows(const model *m) {
  clave_device_info info = {.size = sizeof info};
  clave_status_free(clave_device_get_info(m->device, &info));
  return info.n_tuned;
}

int write_table(const model *m, page *out) {
  json_writer j = {.out = out};
  emit_object(&j, NULL);
  emit_integer(&j, "clave_tuning", FORMAT_VERSION);
  emit_string(&j, "device", clave_tuning_device(m->device));
  emit_array(&j, "rows");
  for (uint32_t i = 0; i < count_rows(m); i++) {
    clave_tuning_row r = {.size = sizeof r};
    TRY_STATUS(clave_tuning_get(m->device, i, &r));
    emit_record(&j, NULL);
    emit_string(&j, "family", r.family);
    emit_string(&j, "key", r.key);
    emit_string(&j, "variant", r.variant);
    emit_end_object(&j);
  }
  emit_end_array(&j);
  emit_end_object(&j);
  return EXIT_GOOD;
}

void list_table(const model *m, page *out) {
  columns table = {.n_columns = 3};
  text_puts(out, "device  ");
  page_visible(out, clave_tuning_device(m->device));
  text_printf(out, "\nrows    %u\n", count_rows(m));
  for (uint32_t i = 0; i < count_rows(m); i++) {
    clave_tuning_row r = {.size = sizeof r};
    clave_status st = clave_tuning_get(m->device, i, &r);
    clave_status_free(st);
    if (st) continue;
    columns_cell(&table, "%s", r.family);
    columns_cell(&table, "%s", r.variant);
    columns_cell(&table, "%s", r.key);
  }
  columns_write(&table, 0, out);
}

/* ---------------------------------------------------------------- reading */

static int put_row(const model *m, const char *path, const json *row, uint32_t number) {
  const char *family = text_or_null(row, "family"), *key = text_or_null(row, "key"),
             *variant = text_or_null(row, "variant");
  if (!family || !key || !variant)
    return fail("%s: row %u is not {\"family\", \"key\", \"variant\"} of texts", path, number);
  clave_status st = clave_tuning_put(m->device, family, key, variant);
  if (!st) return EXIT_GOOD;
  int result = fail("%s: row %u: %s", path, number, clave_status_message(st));
  clave_status_free(st);
  return result;
}

static int put_rows(const model *m, const char *path, const json *document, bool any_device,
                    uint32_t *n) {
  const json *version = json_kind_of(document) == JSON_OBJECT
                            ? json_member(document, "clave_tuning")
                            : NULL,
             *rows = version ? json_member(document, "rows") : NULL;
  const char *device = text_or_null(document, "device"), *own = clave_tuning_device(m->device);
  int64_t number;
  if (!version || !json_i64(version, &number) || !device || !rows ||
      json_kind_of(rows) != JSON_ARRAY)
    return fail("%s is no tuning table: clave tune --export writes them", path);
  if (number != FORMAT_VERSION)
    return fail("%s is a tuning table of version %lld; this clave reads %d", path,
                (long long)number, (int)FORMAT_VERSION);
  if (strcmp(device, own) != 0 && !any_device)
    return fail(
        "%s was measured on another device, \"%.300s\", not \"%.300s\"; --force takes it "
        "all the same",
        path, device, own);
  for (const json *r = json_first(rows); r; r = json_next(r), ++*n)
    TRY_EXIT(put_row(m, path, r, *n));
  return EXIT_GOOD;
}

int import_table(const model *m, const char *path, bool any_device, uint32_t *n) {
  page content = {0};
  json *document = NULL;
  *n = 0;
  int result = read_file(path, &content);
  if (!result && content.size > MOST_BYTES)
    result = fail("%s is too large for a tuning table", path);
  if (!result) {
    clave_status st = json_parse(content.data ? content.data : "", content.size, &document);
    if (st) {
      result = fail("%s: %s", path, clave_status_message(st));
      clave_status_free(st);
    }
  }
  if (!result) result = put_rows(m, path, document, any_device, n);
  json_free(document);
  text_free(&content);
  return result;
}
