/* GGUF files, as bytes: the program, and the tokenizer that it contains. */
#include "clave_files.h"
#include "clave_tokenizer.h"
#include "test/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  clave_program *program = NULL;
  clave_tokenizer *tokenizer = NULL;
  size_t n;
  if (!is_good(clave_program_load_bytes(data, size, "model", &program))) return 0;
  const void *bytes = clave_program_section(program, "TOKN", &n);
  if (bytes && is_good(clave_tokenizer_create(bytes, n, NULL, &tokenizer)))
    clave_tokenizer_destroy(tokenizer);
  clave_program_destroy(program);
  return 0;
}
