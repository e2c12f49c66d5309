/* Notes about a device, which go to whoever opened it. */
#include "backend/opencl/device/device.h"

#include <stdarg.h>

#include "base/number.h"

void device_note(cl_device *d, const char *format, ...) {
  if (!d->message) return;
  char line[512];
  va_list args;
  va_start(args, format);
  number_vprint(line, sizeof line, format, args);
  va_end(args);
  mutex_lock(d->note_lock);
  d->message(d->message_ctx, line);
  mutex_unlock(d->note_lock);
}
