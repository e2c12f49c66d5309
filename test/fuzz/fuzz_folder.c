/* Hugging Face folders. An input has the files of a folder, each as "@NAME\n" at the start of a
 * line, followed by its bytes. */
#include "test/fuzz/files.h"
#include "test/fuzz/use_tokenizer.h"

static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tokenizer_config.json",
                                    "config.json"};

/* Returns the position of the next "@NAME\n" from `at` and sets *name, or returns `size`. */
static size_t find_file(const uint8_t *data, size_t size, size_t at, size_t *name) {
  for (; at < size; at++) {
    if (data[at] != '@' || (at > 0 && data[at - 1] != '\n')) continue;
    for (*name = 0; *name < sizeof names / sizeof *names; ++*name) {
      size_t n = strlen(names[*name]);
      if (size - at > n + 1 && data[at + 1 + n] == '\n' && !memcmp(data + at + 1, names[*name], n))
        return at;
    }
  }
  return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *folder = open_fuzz_folder();
  char path[128];
  size_t name, next;
  for (size_t at = find_file(data, size, 0, &name); at < size; at = next) {
    size_t begin = at + strlen(names[name]) + 2;
    (void)snprintf(path, sizeof path, "%s/%s", folder, names[name]);
    next = find_file(data, size, begin, &name);
    put_file(path, data + begin, next - begin);
  }
  clave_tokenizer *tokenizer;
  clave_status st = clave_tokenizer_load(folder, NULL, &tokenizer);
  (void)fuzz_loaded(st, tokenizer);
  empty_folder(folder);
  return 0;
}
