/* Data errors of kernels in words. */
#include "base/fault.h"

#include <inttypes.h>

clave_status fault_status(const kernel_fault *f) {
  if (f->kind == KERNEL_FAULT_DIVISION) return INVALID("integer division by zero");
  if (f->kind == KERNEL_FAULT_ROWS)
    return INVALID("positions [%" PRId64 ", %" PRId64 ") do not fit into a cache of %" PRId64
                   " rows",
                   f->value, f->value + f->low, f->high);
  return INVALID("index %" PRId64 " out of range [%" PRId64 ", %" PRId64 "]", f->value, f->low,
                 f->high);
}
