#ifndef TEST_FUZZ_TARGET_H
#define TEST_FUZZ_TARGET_H
/* What a fuzz target defines; replay.c or libFuzzer calls it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
