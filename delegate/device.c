/* Lists devices, and opens them by name or over the host's own OpenCL objects. */
#include <stdlib.h>

#include "clave_opencl.h"
#include "delegate/objects.h"

clave_status delegate_devices_count(int *count) {
  TRY_GIVEN(count);
  return own(clave_devices_count(count));
}
clave_status delegate_devices_get(int index, clave_device_info *info) {
  TRY_GIVEN(info);
  return own(clave_devices_get(index, info));
}

static void delegate_device_destroy(object *object) {
  delegate_device *device = (delegate_device *)object;
  clave_device_destroy(device->device);
  free(device);
}

static clave_status delegate_device_open(const clave_delegate_device_options *device_options,
                                         clave_device **out) {
  const clave_device_options options = {.size = sizeof options,
                                        .no_fallback = device_options->no_fallback,
                                        .n_threads = device_options->n_threads,
                                        .cache_dir = device_options->cache_dir,
                                        .message = device_options->log,
                                        .message_ctx = device_options->log_ctx};
  if (!device_options->cl_context && !device_options->cl_device && !device_options->cl_queue)
    return own(clave_device_open(device_options->device, &options, out));
  if (!device_options->cl_context || !device_options->cl_device)
    return INVALID(
        "cl_context, cl_device, cl_queue: expected cl_context and cl_device together, and cl_queue "
        "only with both");
  if (device_options->device)
    return INVALID("device is '%s' and cl_device is set: set only one of them",
                   device_options->device);
  return own(clave_device_create_from_opencl(device_options->cl_context, device_options->cl_device,
                                             device_options->cl_queue, &options, out));
}

clave_status delegate_open(const clave_delegate_device_options *options,
                           clave_delegate_handle *device) {
  clave_delegate_device_options device_options;
  TRY_GIVEN(device);
  *device = 0;
  TRY(sized_read(options, &device_options, SIZED(clave_delegate_device_options, cl_queue)));
  delegate_device *delegate_device = calloc(1, sizeof *delegate_device);
  if (!delegate_device) return status_no_memory();
  delegate_device->object.destroy = delegate_device_destroy;
  clave_status st = delegate_device_open(&device_options, &delegate_device->device);
  if (!st) st = handle_create(HANDLE_DEVICE, &delegate_device->object, device);
  if (st) delegate_device_destroy(&delegate_device->object);
  return st;
}

clave_status delegate_device_info(clave_delegate_handle device, clave_device_info *info) {
  delegate_device *delegate_device;
  TRY_GIVEN(info);
  TRY(handle_acquire(HANDLE_DEVICE, device, &delegate_device));
  clave_status st = own(clave_device_get_info(delegate_device->device, info));
  object_release(&delegate_device->object);
  return st;
}

clave_status delegate_close(clave_delegate_handle device) {
  return device ? handle_close(HANDLE_DEVICE, device) : NULL;
}
