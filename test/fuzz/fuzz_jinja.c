/* An input is a chat template, a NUL, and a JSON object with its context. Rendered text must be
 * UTF-8 and is marked byte by byte. */
#include "base/utf8.h"
#include "jinja/jinja.h"
#include "test/fuzz/target.h"

static void check_render(const jinja_template *template, const char *context, size_t size) {
  const jinja_input inputs[] = {
      {.name = NULL, .value = context, .size = size, .origin = JINJA_UNTRUSTED},
      {.name = "bos_token", .value = "<s>", .size = 3, .is_text = true}};
  jinja_options options = {.inputs = inputs, .n_inputs = 2, .now = 1};
  jinja_output out;
  if (is_good(jinja_render(template, &options, &out))) {
    require(utf8_valid(out.text.data ? out.text.data : "", out.text.size));
    require(!out.untrusted.size || out.untrusted.size == out.text.size);
  }
  jinja_output_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *source = malloc(size ? size : 1); /* so that a sanitizer sees reads beyond it */
  jinja_template *template;
  require(source != NULL);
  if (size) memcpy(source, data, size);
  const char *nul = size ? memchr(source, '\0', size) : NULL;
  size_t length = nul ? (size_t)(nul - source) : size;
  if (is_good(jinja_parse(source, length, &template)))
    check_render(template, nul ? nul + 1 : "{}", nul ? size - length - 1 : 2);
  jinja_destroy(template);
  free(source);
  return 0;
}
