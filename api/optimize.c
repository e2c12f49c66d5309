/* clave_program_optimize: the passes, with the CPU backend to compute constants. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_builder.h"

/* Runs a program without inputs on the CPU backend; *ctx: its device, opened when first needed. */
static clave_status evaluate(void *ctx, program *p, void *const *outputs) {
  clave_device **device = ctx;
  clave_program *wrapped;
  clave_session *s = NULL;
  TRY(program_wrap(p, &wrapped));
  clave_status st = *device ? NULL : clave_device_open("cpu", NULL, device);
  if (!st) st = clave_session_create(wrapped, *device, NULL, &s);
  if (!st) st = clave_session_run(s, NULL);
  for (uint32_t i = 0; !st && i < p->ir.methods.items[0].outputs.count; i++) {
    clave_tensor t;
    size_t bytes = 0;
    st = clave_session_output(s, NULL, i, &t);
    tensor own = st ? (tensor){0} : tensor_from_public(&t);
    if (!st && tensor_bytes(&own, &bytes) && bytes) memcpy(outputs[i], t.data, bytes);
  }
  clave_session_destroy(s);
  clave_program_destroy(wrapped);
  return st;
}

static void tell(const optimize_report *r, clave_pass_fn report, void *ctx) {
  for (uint32_t i = 0; report && i < r->n; i++) {
    const optimize_row *row = &r->rows[i];
    clave_pass_info info = {.size = sizeof info,
                            .name = row->name,
                            .applied = row->applied,
                            .removed = row->removed,
                            .refused = row->refused.size ? row->refused.data : NULL};
    report(ctx, &info);
  }
}

static clave_status wrap_optimized(clave_program *given, program *p, clave_program **out) {
  TRY(program_wrap(p, out));
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
  program *p;
  *out = NULL;
  TRY(sized_read(options, &o, SIZED(clave_optimize_options, report_ctx)));
  optimize_options own = {o.passes, o.n_passes, evaluate, &device};
  TRY(program_check_files(given->p));
  clave_status st = program_optimize(given->p, &own, &p, &report);
  clave_device_destroy(device);
  if (st) return st;
  tell(&report, o.report, o.report_ctx);
  optimize_report_free(&report);
  return wrap_optimized(given, p, out);
}
