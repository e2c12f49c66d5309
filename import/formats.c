/* Recognizes formats by their content. */
#include "import/import.h"

#include "import/gguf/gguf.h"
#include "import/importer.h"
#include "import/onnx/onnx.h"
#include "import/tflite/tflite.h"

static const struct {
  const char *extension;
  bool (*is)(const void *bytes, size_t size);
  void (*convert)(importer *im, const import_source *source);
  bool has_caches;                               /* the type of caches can be chosen */
  bool (*op_at)(uint32_t index, import_op *out); /* sets all but the format's name; may be NULL */
  const char *name;
} formats[] = {{".gguf", gguf_is_model, gguf_convert, true, NULL, "GGUF"},
               {".tflite", tflite_is_model, tflite_convert, false, tflite_op_at, "TFLite"},
               {".onnx", onnx_is_model, onnx_convert, false, onnx_op_at, "ONNX"}};

enum { N_FORMATS = sizeof formats / sizeof *formats };

/* Returns the index of a format, or -1. */
static int find_format(const char *path, const void *bytes, size_t size) {
  for (int i = 0; i < N_FORMATS; i++)
    if (formats[i].is(bytes, size)) return i;
  for (int i = 0; i < N_FORMATS && path; i++)
    if (path_has_ending(path, formats[i].extension)) return i;
  return -1;
}

bool import_op_at(uint32_t index, import_op *out) {
  for (int i = 0; i < N_FORMATS; i++) {
    uint32_t n = 0;
    if (!formats[i].op_at) continue;
    if (formats[i].op_at(index, out)) {
      out->format = formats[i].name;
      return true;
    }
    while (formats[i].op_at(n, out)) n++;
    index -= n;
  }
  return false;
}

bool import_accepts(const char *path, const void *bytes, size_t size) {
  return find_format(path, bytes, size) >= 0;
}

/* Returns the error of an import, or the program that it made. */
static clave_status finish(importer *im, clave_program **out) {
  clave_status st = im->fatal;
  im->fatal = NULL;
  if (!st) st = import_report_status(im);
  if (!st) st = clave_builder_finish(im->builder, out);
  if (st || !im->tokenizer.size) return st;
  st = clave_program_set_section(*out, "TOKN", im->tokenizer.data, im->tokenizer.size);
  if (!st) return NULL;
  clave_program_destroy(*out);
  *out = NULL;
  return st;
}

clave_status import_program(const import_source *source, clave_program **out, import_file **files,
                            size_t *n_files) {
  importer *im;
  const int format = find_format(source->path, source->bytes, source->size);
  *out = NULL;
  *files = NULL;
  *n_files = 0;
  if (format < 0) return INVALID("the file has no known format");
  if (source->cache_type && !formats[format].has_caches)
    return INVALID("kv: cannot be chosen for a model in %s", formats[format].name);
  TRY(importer_create(&im));
  formats[format].convert(im, source);
  clave_status st = finish(im, out);
  if (!st) {
    *files = im->files;
    *n_files = im->n_files;
    im->files = NULL;
    im->n_files = 0;
  }
  importer_destroy(im);
  return st;
}
