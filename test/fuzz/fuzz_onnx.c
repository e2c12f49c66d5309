/* ONNX models, as bytes without other files: as they are, and as language models. */
#include "clave_files.h"
#include "import/import.h"
#include "test/fuzz/target.h"

static void import_language_model(const uint8_t *data, size_t size) {
  const import_source source = {.bytes = data, .size = size, .max_context = 64};
  clave_program *program = NULL, *optimized = NULL;
  import_file *files;
  size_t n_files;
  if (!is_good(import_program(&source, &program, &files, &n_files))) return;
  require(n_files == 0);
  free(files);
  if (is_good(clave_program_optimize(program, NULL, &optimized))) clave_program_destroy(optimized);
  clave_program_destroy(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  clave_program *program = NULL;
  if (is_good(clave_program_load_bytes(data, size, "model", &program)))
    clave_program_destroy(program);
  import_language_model(data, size);
  return 0;
}
