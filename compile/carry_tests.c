/* Writes the expected results of an executable that embeds its program. */
#include "compile/carry_tests.h"

#include <stdlib.h>

#include "compile/self_test.h"

/* State while the tests are written. */
typedef struct tests_writer {
  const program *program;
  const compile_options *options;
  test_bench bench;
  text *to;
  text rows;     /* owned; rows of `tests` */
  text elements; /* owned */
} tests_writer;

static void carry_tests_write_outputs(tests_writer *writer, const test_output *kept, uint32_t n,
                                      uint32_t number) {
  text_printf(writer->to, "static const model_bytes outputs_%u[] = {\n", number);
  for (uint32_t i = 0; i < n; i++)
    text_printf(writer->to, "  {carried_expected + %zu, %zu},\n", kept[i].offset, kept[i].bytes);
  text_puts(writer->to, "  {0}};\n");
}

static clave_status carry_tests_write_method(tests_writer *writer, uint32_t number,
                                             test_output *kept) {
  const uint32_t n = writer->program->ir.methods.items[number].outputs.count;
  TRY(self_test_run(writer->program, writer->options, writer->bench.executable, writer->bench.store,
                    number, kept, writer->options->is_opencl ? &writer->elements : NULL));
  write_digests(kept, n, number, writer->to);
  text_printf(&writer->rows, "  {.digests = digests_%u", number);
  if (writer->options->is_opencl) {
    carry_tests_write_outputs(writer, kept, n, number);
    text_printf(&writer->rows, ", .outputs = outputs_%u", number);
  }
  text_puts(&writer->rows, "},\n");
  return text_status(&writer->rows);
}

static clave_status test_method(tests_writer *writer, uint32_t number) {
  const uint32_t n = writer->program->ir.methods.items[number].outputs.count;
  test_output *kept = calloc((size_t)n + 1, sizeof *kept);
  clave_status st = kept ? carry_tests_write_method(writer, number, kept) : status_no_memory();
  free(kept);
  return st;
}

static clave_status carry_tests_write_all(tests_writer *writer, project *project) {
  if (writer->options->is_opencl)
    text_puts(writer->to, "extern const unsigned char carried_expected[];\n\n");
  for (uint32_t i = 0; i < writer->program->ir.methods.count; i++)
    if (plan_has_method(writer->options, i)) TRY(test_method(writer, i));
  text_printf(writer->to, "static const model_test tests[] = {\n%s};\n", writer->rows.data);
  write_processor(writer->bench.cpu, writer->to);
  if (!writer->options->is_opencl) return NULL;
  TRY(project_write_file(project, embedded_expected.file, writer->elements.data,
                         writer->elements.size));
  return project_embed(project, &embedded_expected);
}

clave_status carry_write_tests(const program *program, const compile_options *options,
                               project *project, text *to) {
  tests_writer writer = {.program = program, .options = options, .to = to};
  clave_status st = test_bench_create(program, &writer.bench);
  if (!st) st = carry_tests_write_all(&writer, project);
  test_bench_destroy(&writer.bench);
  text_free(&writer.rows);
  text_free(&writer.elements);
  return st;
}
