/* Imports language models in GGUF. */
#include "import/gguf/gguf.h"

#include <math.h>
#include <string.h>

#include "import/gguf/decoder.h"
#include "import/gguf/metadata.h"
#include "import/gguf/weights.h"

enum { USUAL_CONTEXT = 4096, USUAL_PIECE = 256 }; /* USUAL_CONTEXT: the largest default */

bool gguf_is_model(const void *bytes, size_t size) {
  return size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

static clave_status read_cache_type(const char *name, clave_dtype *out) {
  static const clave_dtype types[] = {CLAVE_F32, CLAVE_F16, CLAVE_BF16, CLAVE_I8};
  static const char *const names[] = {"f32", "f16", "bf16", "int8"};
  *out = CLAVE_F16;
  if (!name) return NULL;
  for (int i = 0; i < 4; i++) {
    *out = types[i];
    if (strcmp(name, names[i]) == 0) return NULL;
  }
  return INVALID("kv: expected f32, f16, bf16 or int8, got '%s'", name);
}

static bool has_part(gguf_file *file, int64_t layer, const char *part) {
  return gguf_has_tensor(file, import_text(file->im, "blk.%lld.%s.weight", (long long)layer, part));
}

/* Fails if caches and the states of scans need more memory than the computer has. */
static clave_status gguf_check_caches(gguf_file *file, const gguf_numbers *numbers,
                                      const gguf_caches *caches) {
  const uint64_t there = memory_total();
  const size_t scale = caches->type == CLAVE_I8 ? sizeof(float) : 0;
  const double of_token =
      (double)numbers->n_kv *
      ((double)(numbers->key_size + numbers->value_size) * (double)clave_dtype_size(caches->type) +
       2 * (double)scale);
  const double of_scan = (double)numbers->scan.inner * (double)numbers->scan.state * sizeof(float);
  double rows = 0, states = 0;
  for (int64_t i = 0; i < numbers->n_layers; i++) {
    if (has_part(file, i, "attn_output"))
      rows += (double)gguf_cache_rows(caches, numbers->windows[i]);
    if (has_part(file, i, "ssm_in")) states += of_scan;
  }
  const double needed = rows * of_token;
  if (there && states > (double)there)
    return status_new(STATUS_NO_MEMORY,
                      "the states of scans take %.0f MiB, and this machine has %llu",
                      states / (1 << 20), (unsigned long long)(there >> 20));
  if (!there || needed <= (double)there) return NULL;
  return status_new(STATUS_NO_MEMORY,
                    "the caches of %lld tokens take %.0f MiB, and this machine has %llu: "
                    "max_context (--max-context) %.0f would fit",
                    (long long)caches->max_context, needed / (1 << 20),
                    (unsigned long long)(there >> 20),
                    floor((double)caches->max_context * (double)there / needed));
}

static clave_status gguf_convert_file(gguf_file *file, const import_source *source) {
  gguf_numbers numbers;
  gguf_caches caches = {.max_context = source->max_context,
                        .prompt_piece = source->prompt_piece ? source->prompt_piece : USUAL_PIECE};
  TRY(gguf_open_parts(file, source->path));
  TRY(read_cache_type(source->cache_type, &caches.type));
  TRY(gguf_read_numbers(file, &numbers));
  if (caches.max_context == 1)
    return INVALID("max_context: a context of 1 token leaves no room for an answer");
  if (!caches.max_context)
    caches.max_context = numbers.context < USUAL_CONTEXT ? numbers.context : USUAL_CONTEXT;
  TRY(gguf_check_caches(file, &numbers, &caches));
  const int64_t n_vocab = gguf_build(file, &numbers, &caches);
  if (!n_vocab) return NULL;
  if (numbers.n_predicting) gguf_skip_layers(file, numbers.n_layers);
  TRY(gguf_check_tensors(file));
  return gguf_describe(file, n_vocab, caches.max_context, source->has_tokenizer);
}

void gguf_convert(importer *im, const import_source *source) {
  gguf_file file;
  clave_status st = gguf_file_open(im, (span){source->bytes, source->size}, &file);
  import_end(im, st ? st : gguf_convert_file(&file, source));
}
