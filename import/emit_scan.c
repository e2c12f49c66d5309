/* Scans over steps. */
#include "import/emit_scan.h"

/* Declares the body's arguments: the carries, and one slice of each of xs. */
static void scan_arguments(importer *im, const scan_call *call, value **args, clave_id *ids) {
  for (int i = 0; i < call->n_carries; i++) {
    const value *carry = call->carries[i];
    args[i] = emit_declare(im, carry->type, carry->rank, carry->dims);
  }
  for (int i = 0; i < call->n_xs; i++) {
    const value *x = call->xs[i];
    args[call->n_carries + i] = emit_declare(im, x->type, x->rank - 1, x->dims + 1);
  }
  for (int i = 0; i < call->n_carries + call->n_xs && import_ok(im); i++) ids[i] = args[i]->tensor;
}

/* Emits the body. Sets *out to the result of its step, and *next to the carries after it. */
static clave_id scan_body(importer *im, const scan_call *call, value **out) {
  value *args[SCAN_OPERANDS] = {NULL}, *next[SCAN_OPERANDS];
  clave_id ids[SCAN_OPERANDS] = {0}, results[SCAN_OPERANDS + 1];
  const int n = call->n_carries, n_args = n + call->n_xs;
  *out = NULL;
  scan_arguments(im, call, args, ids);
  if (!import_ok(im)) return 0;
  const clave_id body = import_begin_body(im, call->name, ids, (uint32_t)n_args);
  if (!import_ok(im)) return 0;
  for (int i = 0; i < n_args; i++) args[i]->scope = import_scope(im);
  for (int i = 0; i < n; i++) next[i] = args[i];
  *out = call->step(call->ctx, im, args + n, next);
  for (int i = 0; i < n; i++) results[i] = value_tensor(im, next[i]);
  if (*out) results[n] = value_tensor(im, *out);
  import_end_body(im, results, (uint32_t)n + (*out != NULL));
  return import_ok(im) ? body : 0;
}

/* Declares the stacked results of the steps. */
static value *scan_stacked(importer *im, const scan_call *call, const value *one) {
  number dims[CLAVE_MAX_RANK] = {call->xs[0]->dims[0]};
  if (one->rank == CLAVE_MAX_RANK) {
    import_unsupported(im, "stacked results of rank %d", one->rank + 1);
    return NULL;
  }
  for (int d = 0; d < one->rank; d++) dims[1 + d] = number_again(im, one->dims[d]);
  return emit_declare(im, one->type, one->rank + 1, dims);
}

value *emit_scan_steps(importer *im, const scan_call *call) {
  clave_id carries[SCAN_OPERANDS], xs[SCAN_OPERANDS], results[SCAN_OPERANDS + 1];
  value *one;
  const int n = call->n_carries;
  for (int i = 0; i < n; i++)
    if (!emit_prepare(im, call->carries[i])) return NULL;
  for (int i = 0; i < call->n_xs; i++)
    if (!emit_prepare(im, call->xs[i])) return NULL;
  const clave_id body = scan_body(im, call, &one);
  value *out = body && one ? scan_stacked(im, call, one) : NULL;
  if (!body || (one && !out)) return NULL;
  for (int i = 0; i < call->n_xs; i++) xs[i] = call->xs[i]->tensor;
  for (int i = 0; i < n; i++) {
    value *carry = call->carries[i];
    carries[i] = carry->tensor;
    call->carries[i] = emit_declare(im, carry->type, carry->rank, carry->dims);
    results[i] = call->carries[i] ? call->carries[i]->tensor : 0;
  }
  if (out) results[n] = out->tensor;
  if (!import_ok(im)) return NULL;
  clave_builder_op(im->builder, "Scan", im->node);
  clave_builder_set_body(im->builder, "body_chain", body);
  clave_builder_set_tensors(im->builder, "carries", carries, (uint32_t)n);
  clave_builder_set_tensors(im->builder, "xs", xs, (uint32_t)call->n_xs);
  clave_builder_set_tensors(im->builder, "results", results, (uint32_t)n + (out != NULL));
  return out;
}
