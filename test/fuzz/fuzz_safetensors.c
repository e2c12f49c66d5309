/* safetensors files: every byte of every tensor that the reader returns is readable and aligned. */
#include "serialize/safetensors.h"
#include "test/fuzz/target.h"

static volatile uint8_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tensor_file *file;
  clave_status st = tensor_file_parse(data, size, &file);
  for (uint32_t i = 0; !st && i < file->count; i++) {
    const tensor_entry *entry = &file->tensors[i];
    const uint8_t *bytes = entry->data;
    for (size_t k = 0; k < entry->bytes; k++) sink = (uint8_t)(sink ^ bytes[k]);
    if ((uintptr_t)bytes % dtype_size(entry->type) || !tensor_file_find(file, entry->name)) abort();
  }
  (void)is_good(st);
  tensor_file_destroy(file);
  return 0;
}
