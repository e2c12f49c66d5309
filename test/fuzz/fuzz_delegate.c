/* Calls the plugin; the input chooses order and arguments (test/delegate/calls.h). */
#include "test/delegate/calls.h"
#include "test/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char clv[8192];
  static size_t clv_size;
  clave_delegate delegate = {.size = sizeof delegate};
  FILE *file = clv_size ? NULL : fopen("test/fuzz/corpus/clv/valid", "rb");
  if (file) {
    clv_size = fread(clv, 1, sizeof clv, file);
    (void)fclose(file);
  }
  require(clv_size > 0 && clave_delegate_register(CLAVE_DELEGATE_VERSION, &delegate) == CLAVE_OK);
  (void)run_calls(&delegate, clv, clv_size, data, size);
  return 0;
}
