/* Devices: those that there are, opened by name or over the host's own OpenCL. */
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

static void destroy_device(object *o) {
  delegate_device *d = (delegate_device *)o;
  clave_device_destroy(d->d);
  free(d);
}

static clave_status open_device(const clave_delegate_device_options *o, clave_device **out) {
  const clave_device_options options = {.size = sizeof options,
                                        .no_fallback = o->no_fallback,
                                        .n_threads = o->n_threads,
                                        .cache_dir = o->cache_dir,
                                        .message = o->log,
                                        .message_ctx = o->log_ctx};
  if (!o->cl_context && !o->cl_device && !o->cl_queue)
    return own(clave_device_open(o->device, &options, out));
  if (!o->cl_context || !o->cl_device)
    return INVALID("cl_context and cl_device are given together, and cl_queue with both");
  if (o->device)
    return INVALID("device is '%s', though cl_device says which: give one of them", o->device);
  return own(
      clave_device_create_from_opencl(o->cl_context, o->cl_device, o->cl_queue, &options, out));
}

clave_status delegate_open(const clave_delegate_device_options *options,
                           clave_delegate_handle *device) {
  clave_delegate_device_options o;
  TRY_GIVEN(device);
  *device = 0;
  TRY(sized_read(options, &o, SIZED(clave_delegate_device_options, cl_queue)));
  delegate_device *d = calloc(1, sizeof *d);
  if (!d) return status_no_memory();
  d->o.destroy = destroy_device;
  clave_status st = open_device(&o, &d->d);
  if (!st) st = handle_give(HANDLE_DEVICE, &d->o, device);
  if (st) destroy_device(&d->o);
  return st;
}

clave_status delegate_device_info(clave_delegate_handle device, clave_device_info *info) {
  delegate_device *d;
  TRY_GIVEN(info);
  TRY(handle_take(HANDLE_DEVICE, device, &d));
  clave_status st = own(clave_device_get_info(d->d, info));
  object_release(&d->o);
  return st;
}

clave_status delegate_close(clave_delegate_handle device) {
  return device ? handle_close(HANDLE_DEVICE, device) : NULL;
}
