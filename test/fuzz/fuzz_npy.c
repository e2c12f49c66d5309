/* A .npy file is an error, or a tensor whose every element can be read. */
#include <stdarg.h>

#include "cli/npy.h"
#include "test/fuzz/files.h"

static volatile uint8_t sink;

/* Replaces the tool's error function, which would print. */
int fail(const char *format, ...) {
  char line[16384];
  va_list arguments;
  va_start(arguments, format);
  require(vsnprintf(line, sizeof line, format, arguments) > 0);
  va_end(arguments);
  return EXIT_FAILED;
}

int fail_memory(void) { return EXIT_FAILED; }

int fail_status(clave_status status) {
  require(clave_status_message(status)[0] != 0);
  clave_status_free(status);
  return EXIT_FAILED;
}

static void read_elements(const clave_tensor *tensor) {
  size_t width = clave_dtype_size(tensor->dtype), n = 1;
  for (int i = 0; i < tensor->rank; i++) n *= (size_t)tensor->dims[i];
  for (size_t flat = 0; flat < n; flat++) {
    int64_t at = 0;
    size_t rest = flat;
    for (int i = tensor->rank - 1; i >= 0; rest /= (size_t)tensor->dims[i], i--)
      at += (int64_t)(rest % (size_t)tensor->dims[i]) * tensor->strides[i];
    const uint8_t *element = (const uint8_t *)tensor->data + at * (int64_t)width;
    for (size_t k = 0; k < width; k++) sink = (uint8_t)(sink ^ element[k]);
    if (tensor->dtype == CLAVE_BOOL) require(*element <= 1);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  npy_file file;
  int result = read_npy(input_file(data, size), &file);
  require(result == EXIT_GOOD || !file.data);
  if (!result) read_elements(&file.tensor);
  free_npy(&file);
  return 0;
}
