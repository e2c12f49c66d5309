/* What a program that is carried has to compare its results with. */
#include "compile/carry_tests.h"

#include <stdlib.h>

#include "compile/self_test.h"

/* Where the tests are written. */
typedef struct tests_writer {
  const program *p;
  const compile_options *o;
  test_bench bench;
  text *to;
  text rows;     /* owned: of `tests` */
  text elements; /* owned */
} tests_writer;

static void write_outputs(tests_writer *w, const test_output *kept, uint32_t n, uint32_t number) {
  text_printf(w->to, "static const model_bytes outputs_%u[] = {\n", number);
  for (uint32_t i = 0; i < n; i++)
    text_printf(w->to, "  {carried_expected + %zu, %zu},\n", kept[i].offset, kept[i].bytes);
  text_puts(w->to, "  {0}};\n");
}

static clave_status write_method(tests_writer *w, uint32_t number, test_output *kept) {
  const uint32_t n = w->p->ir.methods.items[number].outputs.count;
  TRY(self_test_run(w->p, w->o, w->bench.x, w->bench.store, number, kept,
                    w->o->is_opencl ? &w->elements : NULL));
  write_digests(kept, n, number, w->to);
  text_printf(&w->rows, "  {.digests = digests_%u", number);
  if (w->o->is_opencl) {
    write_outputs(w, kept, n, number);
    text_printf(&w->rows, ", .outputs = outputs_%u", number);
  }
  text_puts(&w->rows, "},\n");
  return text_status(&w->rows);
}

static clave_status test_method(tests_writer *w, uint32_t number) {
  const uint32_t n = w->p->ir.methods.items[number].outputs.count;
  test_output *kept = calloc((size_t)n + 1, sizeof *kept);
  clave_status st = kept ? write_method(w, number, kept) : status_no_memory();
  free(kept);
  return st;
}

static clave_status write_all(tests_writer *w, project *k) {
  if (w->o->is_opencl) text_puts(w->to, "extern const unsigned char carried_expected[];\n\n");
  for (uint32_t i = 0; i < w->p->ir.methods.count; i++)
    if (plan_has_method(w->o, i)) TRY(test_method(w, i));
  text_printf(w->to, "static const model_test tests[] = {\n%s};\n", w->rows.data);
  write_processor(w->bench.cpu, w->to);
  if (!w->o->is_opencl) return NULL;
  TRY(project_write_file(k, embedded_expected.file, w->elements.data, w->elements.size));
  return project_embed(k, &embedded_expected);
}

clave_status carry_write_tests(const program *p, const compile_options *o, project *k, text *to) {
  tests_writer w = {.p = p, .o = o, .to = to};
  clave_status st = test_bench_create(p, &w.bench);
  if (!st) st = write_all(&w, k);
  test_bench_destroy(&w.bench);
  text_free(&w.rows);
  text_free(&w.elements);
  return st;
}
