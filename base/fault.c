/* Messages for data errors of kernels. */
#include "base/fault.h"

#include <inttypes.h>

clave_status fault_status(const kernel_fault *fault) {
  if (fault->kind == KERNEL_FAULT_DIVISION) return INVALID("integer division by zero");
  if (fault->kind == KERNEL_FAULT_ROWS)
    return INVALID("positions [%" PRId64 ", %" PRId64 ") exceed a cache of %" PRId64 " rows",
                   fault->value, (int64_t)((uint64_t)fault->value + (uint64_t)fault->low),
                   fault->high);
  return INVALID("index %" PRId64 " out of range [%" PRId64 ", %" PRId64 "]", fault->value,
                 fault->low, fault->high);
}
