/* TFLite models, as bytes without other files. */
#include "clave_files.h"
#include "test/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  clave_program *program = NULL;
  if (is_good(clave_program_load_bytes(data, size, "model.tflite", &program)))
    clave_program_destroy(program);
  return 0;
}
