/* Builds programs and creates kernels for launches. A new program is first tried in a child
 * process, or else in this one under a mark on disk (trials.c). */
#include "backend/opencl/program/kernel_program.h"
#include "backend/opencl/program/program.h"

clave_status program_build(cl_device *device, kernel_program *program) {
  if (device->isolates && !program_was_tried(program))
    (void)builders_build(device, &program, 1, 1, NULL, NULL);
  return program_build_here(device, program);
}

clave_status program_kernel(cl_device *device, kernel_program *program, cl_kernel *out) {
  bool began;
  *out = NULL;
  TRY(program_build(device, program));
  TRY(program_try(device, program, &began)); /* some drivers compile when a kernel is created */
  clave_status st = program_create_kernel(device, program, out);
  if (began) program_end_try(device, program);
  return st;
}
