/* Reads and writes tuning tables as JSON files. */
#include "cli/tune_table.h"

#include <stdio.h>
#include <string.h>

#include "cli/files.h"
#include "json/fields.h"
#include "json/writer.h"

enum { FORMAT_VERSION = 1, MAX_BYTES = 8 << 20 };

static uint32_t tune_table_count_rows(const model *model) {
  clave_device_info info = {.size = sizeof info};
  clave_status_free(clave_device_get_info(model->device, &info));
  return info.n_tuned;
}

int write_table(const model *model, page *out) {
  json_writer writer = {.out = out};
  emit_object(&writer, NULL);
  emit_integer(&writer, "clave_tuning", FORMAT_VERSION);
  emit_string(&writer, "device", clave_tuning_device(model->device));
  emit_array(&writer, "rows");
  for (uint32_t i = 0; i < tune_table_count_rows(model); i++) {
    clave_tuning_row row = {.size = sizeof row};
    TRY_STATUS(clave_tuning_get(model->device, i, &row));
    emit_record(&writer, NULL);
    emit_string(&writer, "family", row.family);
    emit_string(&writer, "key", row.key);
    emit_string(&writer, "variant", row.variant);
    emit_end_object(&writer);
  }
  emit_end_array(&writer);
  emit_end_object(&writer);
  return EXIT_GOOD;
}

void list_table(const model *model, page *out) {
  columns table = {.n_columns = 3};
  text_puts(out, "device  ");
  page_visible(out, clave_tuning_device(model->device));
  text_printf(out, "\nrows    %u\n", tune_table_count_rows(model));
  for (uint32_t i = 0; i < tune_table_count_rows(model); i++) {
    clave_tuning_row row = {.size = sizeof row};
    clave_status st = clave_tuning_get(model->device, i, &row);
    clave_status_free(st);
    if (st) continue;
    columns_cell(&table, "%s", row.family);
    columns_cell(&table, "%s", row.variant);
    columns_cell(&table, "%s", row.key);
  }
  columns_write(&table, 0, out);
}

/* ---------------------------------------------------------------- reading */

static int put_row(const model *model, const char *path, const json *row, uint32_t number) {
  const char *family = text_or_null(row, "family"), *key = text_or_null(row, "key"),
             *variant = text_or_null(row, "variant");
  if (!family || !key || !variant)
    return fail(
        "%s: row %u: expected an object with the strings \"family\", \"key\" and \"variant\"", path,
        number);
  clave_status st = clave_tuning_put(model->device, family, key, variant);
  if (!st) return EXIT_GOOD;
  int result = fail("%s: row %u: %s", path, number, clave_status_message(st));
  clave_status_free(st);
  return result;
}

static int put_rows(const model *model, const char *path, const json *document, bool any_device,
                    uint32_t *count) {
  const json *version = json_kind_of(document) == JSON_OBJECT
                            ? json_member(document, "clave_tuning")
                            : NULL,
             *rows = version ? json_member(document, "rows") : NULL;
  const char *device = text_or_null(document, "device"), *own = clave_tuning_device(model->device);
  int64_t number;
  if (!version || !json_i64(version, &number) || !device || !rows ||
      json_kind_of(rows) != JSON_ARRAY)
    return fail("%s is not a tuning table, as clave tune --export writes it", path);
  if (number != FORMAT_VERSION)
    return fail("%s is a tuning table of version %lld; this clave reads %d", path,
                (long long)number, (int)FORMAT_VERSION);
  if (strcmp(device, own) != 0 && !any_device)
    return fail(
        "%s was measured on another device, \"%.300s\", not on \"%.300s\"; --force imports it "
        "anyway",
        path, device, own);
  for (const json *r = json_first(rows); r; r = json_next(r), ++*count)
    TRY_EXIT(put_row(model, path, r, *count));
  return EXIT_GOOD;
}

int import_table(const model *model, const char *path, bool any_device, uint32_t *count) {
  page content = {0};
  json *document = NULL;
  *count = 0;
  int result = read_file(path, &content);
  if (!result && content.size > MAX_BYTES)
    result = fail("%s is too large for a tuning table: expected at most 8 MiB", path);
  if (!result) {
    clave_status st = json_parse(content.data ? content.data : "", content.size, &document);
    if (st) {
      result = fail("%s: %s", path, clave_status_message(st));
      clave_status_free(st);
    }
  }
  if (!result) result = put_rows(model, path, document, any_device, count);
  json_free(document);
  text_free(&content);
  return result;
}
