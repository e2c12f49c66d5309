/* safetensors files: every byte of every tensor that the reader hands out is there and aligned. */
#include "serialize/safetensors.h"
#include "test/fuzz/target.h"

static volatile uint8_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tensor_file *f;
  clave_status st = tensor_file_parse(data, size, &f);
  for (uint32_t i = 0; !st && i < f->count; i++) {
    const tensor_entry *t = &f->tensors[i];
    const uint8_t *bytes = t->data;
    for (size_t k = 0; k < t->bytes; k++) sink = (uint8_t)(sink ^ bytes[k]);
    if ((uintptr_t)bytes % dtype_size(t->type) || !tensor_file_find(f, t->name)) abort();
  }
  (void)is_good(st);
  tensor_file_destroy(f);
  return 0;
}
