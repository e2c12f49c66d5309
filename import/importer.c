/* The state of an import: errors, the report of unsupported nodes, scopes and files. */
#include "import/importer.h"

#include <stdlib.h>
#include <string.h>

void importer_destroy(importer *im) {
  if (!im) return;
  for (size_t i = 0; i < im->n_files; i++) {
    file_map_close(&im->files[i].map);
    free(im->files[i].path);
  }
  free(im->files);
  free(im->numbers);
  free(im->buckets);
  free(im->reported);
  text_free(&im->tokenizer);
  status_free(im->error);
  status_free(im->fatal);
  clave_builder_destroy(im->builder);
  mem_pool_destroy(im->pool);
  free(im);
}

/* ---------------------------------------------------------------- errors */

bool import_ok(const importer *im) {
  return !im->error && !im->fatal && !clave_builder_error(im->builder);
}

void import_fail(importer *im, clave_status st) {
  if (im->error)
    status_free(st);
  else
    im->error = st;
}

void import_end(importer *im, clave_status st) {
  if (im->fatal)
    status_free(st);
  else
    im->fatal = st;
}

static void fail_with(importer *im, status_code code, const char *format, va_list args) {
  text message = {0};
  if (!import_ok(im)) return;
  text_vprintf(&message, format, args);
  clave_status st = text_status(&message);
  import_fail(im, st ? st : status_new(code, "%s", message.data ? message.data : ""));
  text_free(&message);
}

void import_unsupported(importer *im, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail_with(im, STATUS_UNSUPPORTED, format, args);
  va_end(args);
}

void import_invalid(importer *im, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fail_with(im, STATUS_INVALID, format, args);
  va_end(args);
}

void *import_alloc(importer *im, size_t count, size_t size) {
  void *memory = im->fatal ? NULL : mem_pool_alloc(im->pool, count ? count : 1, size);
  if (!memory && !im->fatal) im->fatal = status_no_memory();
  return memory;
}

const char *import_text(importer *im, const char *format, ...) {
  text made = {0};
  va_list args;
  va_start(args, format);
  text_vprintf(&made, format, args);
  va_end(args);
  const char *kept =
      made.failed || !made.data ? NULL : mem_pool_strdup(im->pool, made.data, made.size);
  text_free(&made);
  if (!kept && !im->fatal) im->fatal = status_no_memory();
  return kept ? kept : "";
}

/* ---------------------------------------------------------------- the report */

enum { MAX_NODES_TEXT = 120 };

void import_report(importer *im, const char *what) {
  for (size_t i = 0; i < im->n_reported; i++) {
    unsupported *row = &im->reported[i];
    if (strcmp(row->what, what) != 0) continue;
    if (row->count++ < 3 && strlen(row->nodes) < MAX_NODES_TEXT)
      row->nodes = import_text(im, "%s, %.60s", row->nodes, im->node);
    return;
  }
  if (im->n_reported == MAX_REPORTED) {
    im->n_more++;
    return;
  }
  if (!array_reserve(&im->reported, &im->cap_reported, im->n_reported + 1, sizeof *im->reported)) {
    if (!im->fatal) im->fatal = status_no_memory();
    return;
  }
  im->reported[im->n_reported++] =
      (unsupported){import_text(im, "%.300s", what), import_text(im, "%.60s", im->node), 1};
}

bool import_end_node(importer *im, const char *op) {
  if (!im->error && !im->fatal && clave_builder_error(im->builder))
    im->fatal = INVALID("%s; node '%.100s' (%s)", clave_builder_error(im->builder), im->node, op);
  if (im->fatal) return false;
  if (!im->error) return true;
  if (status_code_of(im->error) == STATUS_UNSUPPORTED) {
    import_report(im, import_text(im, "%s: %s", op, status_message(im->error)));
    status_free(im->error);
  } else {
    im->fatal = status_while(im->error, "node '%.100s' (%s)", im->node, op);
  }
  im->error = NULL;
  return false;
}

clave_status import_report_status(importer *im) {
  text all = {0};
  if (!im->n_reported) return NULL;
  text_puts(&all, "unsupported: ");
  for (size_t i = 0; i < im->n_reported; i++) {
    const unsupported *row = &im->reported[i];
    const char *more = row->count > 4 ? ", ..." : "";
    text_printf(&all, "%s%s (%d node%s: %s%s)", i ? "; " : "", row->what, row->count,
                row->count == 1 ? "" : "s", row->nodes, more);
  }
  if (im->n_more) text_printf(&all, "; and %d other nodes", im->n_more);
  clave_status st = text_status(&all);
  if (!st) st = UNSUPPORTED("%s", all.data);
  text_free(&all);
  return st;
}

/* ---------------------------------------------------------------- scopes */

bool import_sees(const importer *im, uint32_t scope) {
  for (int i = 0; i <= im->depth; i++)
    if (im->scopes[i] == scope) return true;
  return false;
}

uint32_t import_scope(const importer *im) { return im->scopes[im->depth]; }

/* ---------------------------------------------------------------- files */

clave_status import_open_file(importer *im, const char *path, const uint8_t **data, size_t *size) {
  for (size_t i = 0; i < im->n_files; i++) {
    if (strcmp(im->files[i].path, path) != 0) continue;
    *data = im->files[i].map.data;
    *size = im->files[i].map.size;
    return NULL;
  }
  if (!array_reserve(&im->files, &im->cap_files, im->n_files + 1, sizeof *im->files))
    return status_no_memory();
  import_file file = {.path = strdup(path)};
  if (!file.path) return status_no_memory();
  clave_status st = file_map_open(path, &file.map);
  if (st) {
    free(file.path);
    return st;
  }
  im->files[im->n_files++] = file;
  *data = file.map.data;
  *size = file.map.size;
  return NULL;
}
