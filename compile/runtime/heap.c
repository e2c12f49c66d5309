/* A compiled program's memory from the heap. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/runtime/core.h"

const model_heap compiled_heap = {.take = memory_alloc, .give = free};
