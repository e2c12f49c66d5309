/* Lines of clave tokenize: a string or a list of ids is an error, or survives a round trip. */
#include "json/json.h"
#include "json/writer.h"
#include "test/fuzz/target.h"

static void check_string(const char *source, size_t size) {
  text text = {0}, line = {0}, again = {0};
  json_writer writer = {.out = &line};
  if (is_good(json_read_string(source, size, &text))) {
    emit_text(&writer, NULL, text.data ? text.data : "", text.size);
    require(is_good(json_read_string(line.data, line.size, &again)));
    require(again.size == text.size &&
            (!text.size || memcmp(again.data, text.data, text.size) == 0));
  }
  text_free(&text);
  text_free(&line);
  text_free(&again);
}

static void check_ids(const char *source, size_t size) {
  uint32_t *ids = calloc(size / 2 + 1, sizeof *ids), *again = NULL;
  size_t n, n_again = 0;
  text line = {0};
  json_writer writer = {.out = &line};
  require(ids != NULL);
  if (is_good(json_read_u32s(source, size, ids, &n))) {
    emit_list(&writer, NULL);
    for (size_t i = 0; i < n; i++) emit_size(&writer, NULL, ids[i]);
    emit_end_array(&writer);
    again = calloc(line.size / 2, sizeof *again);
    require(again && is_good(json_read_u32s(line.data, line.size, again, &n_again)));
    require(n == n_again && memcmp(ids, again, n * sizeof *ids) == 0);
  }
  text_free(&line);
  free(again);
  free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *source = malloc(size ? size : 1); /* so that a sanitizer sees reads beyond it */
  require(source != NULL);
  if (size) memcpy(source, data, size);
  check_string(source, size);
  check_ids(source, size);
  free(source);
  return 0;
}
