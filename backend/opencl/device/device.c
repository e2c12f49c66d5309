/* Notes about a device, sent to whoever opened it. */
#include "backend/opencl/device/device.h"

#include <stdarg.h>

#include "base/number.h"

void device_note(cl_device *device, const char *format, ...) {
  if (!device->message) return;
  char line[512];
  va_list args;
  va_start(args, format);
  number_vprint(line, sizeof line, format, args);
  va_end(args);
  mutex_lock(device->note_lock);
  device->message(device->message_ctx, line);
  mutex_unlock(device->note_lock);
}
