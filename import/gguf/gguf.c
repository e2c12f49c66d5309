/* Imports language models in GGUF. */
#include "import/gguf/gguf.h"

#include <string.h>

#include "import/gguf/decoder.h"
#include "import/gguf/metadata.h"
#include "import/gguf/weights.h"

enum { USUAL_CONTEXT = 4096 }; /* the largest default */

bool gguf_is_model(const void *bytes, size_t size) {
  return size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

/* Fails if the file is one of several that make the model. */
static clave_status check_split(gguf_file *file) {
  int64_t part = 0, count = 1;
  TRY(gguf_read_integer(file, "split.count", 0, INT32_MAX, &count));
  if (count <= 1) return NULL;
  TRY(gguf_read_integer(file, "split.no", 0, INT32_MAX, &part));
  return INVALID("expected one file, got part %lld of %lld: llama-gguf-split --merge joins them",
                 (long long)part + 1, (long long)count);
}

static clave_status gguf_convert_file(gguf_file *file, int64_t max_context, bool has_tokenizer) {
  gguf_numbers numbers;
  TRY(check_split(file));
  TRY(gguf_read_numbers(file, &numbers));
  if (max_context == 1)
    return INVALID("max_context: a context of 1 token leaves no room for an answer");
  if (!max_context) max_context = numbers.context < USUAL_CONTEXT ? numbers.context : USUAL_CONTEXT;
  const int64_t n_vocab = gguf_build(file, &numbers, max_context);
  if (!n_vocab) return NULL;
  TRY(gguf_check_tensors(file));
  return gguf_describe(file, n_vocab, max_context, has_tokenizer);
}

void gguf_convert(importer *im, const import_source *source) {
  gguf_file file;
  clave_status st = gguf_file_open(im, (span){source->bytes, source->size}, &file);
  import_end(im, st ? st : gguf_convert_file(&file, source->max_context, source->has_tokenizer));
}
