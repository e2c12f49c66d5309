/* tiktoken rank files. */
#include "test/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_tokenizer(data, size); }
