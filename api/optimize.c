/* clave_program_optimize: runs the passes, with the CPU backend to compute constants. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_builder.h"

/* Runs a program without inputs on the CPU backend. ctx: a pointer to the device's variable; the
 * device is opened at the first call. */
static clave_status evaluate(void *ctx, program *program, void *const *outputs) {
  clave_device **device = ctx;
  clave_program *wrapped;
  clave_session *session = NULL;
  TRY(program_wrap(program, &wrapped));
  clave_status st = *device ? NULL : clave_device_open("cpu", NULL, device);
  if (!st) st = clave_session_create(wrapped, *device, NULL, &session);
  if (!st) st = clave_session_run(session, NULL);
  for (uint32_t i = 0; !st && i < program->ir.methods.items[0].outputs.count; i++) {
    clave_tensor value;
    size_t bytes = 0;
    st = clave_session_output(session, NULL, i, &value);
    tensor own = st ? (tensor){0} : tensor_from_public(&value);
    if (!st && tensor_bytes(&own, &bytes) && bytes) memcpy(outputs[i], value.data, bytes);
  }
  clave_session_destroy(session);
  clave_program_destroy(wrapped);
  return st;
}

static void api_optimize_report(const optimize_report *optimize_report, clave_pass_fn report,
                                void *ctx) {
  for (uint32_t i = 0; report && i < optimize_report->n; i++) {
    const optimize_row *row = &optimize_report->rows[i];
    clave_pass_info info = {.size = sizeof info,
                            .name = row->name,
                            .applied = row->applied,
                            .removed = row->removed,
                            .refused = row->refused.size ? row->refused.data : NULL};
    report(ctx, &info);
  }
}

static clave_status wrap_optimized(clave_program *given, program *program, clave_program **out) {
  TRY(program_wrap(program, out));
  given->holds++;
  (*out)->base = given;
  return NULL;
}

clave_status clave_program_optimize(clave_program *given, const clave_optimize_options *options,
                                    clave_program **out) {
  OWN_FLOAT_ENV;
  clave_optimize_options o;
  clave_device *device = NULL;
  optimize_report report;
  program *program;
  *out = NULL;
  TRY(sized_read(options, &o, SIZED(clave_optimize_options, report_ctx)));
  optimize_options own = {o.passes, o.n_passes, evaluate, &device};
  TRY(program_check_files(given->program));
  clave_status st = program_optimize(given->program, &own, &program, &report);
  clave_device_destroy(device);
  if (st) return st;
  api_optimize_report(&report, o.report, o.report_ctx);
  optimize_report_free(&report);
  return wrap_optimized(given, program, out);
}
