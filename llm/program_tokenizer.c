/* The tokenizer stored in a program. */
#include "base/float_env.h"
#include "base/status.h"
#include "clave_llm.h"

clave_status clave_tokenizer_of_program(const clave_program *program, clave_tokenizer **out) {
  OWN_FLOAT_ENV;
  size_t size;
  const void *bytes = clave_program_section(program, "TOKN", &size);
  *out = NULL;
  if (!bytes) return INVALID("the program contains no tokenizer");
  return status_while(clave_tokenizer_create(bytes, size, NULL, out), "the program's tokenizer");
}
