/* Heap memory of an emitted program. */
#include <stdlib.h>

#include "base/memory.h"
#include "compile/runtime/core.h"

const model_heap model_host_heap = {.allocate = memory_alloc, .release = free};
