/* Computes the expected results of a compiled program on random inputs by the interpreter. */
#include "compile/self_test.h"

#include <stdlib.h>
#include <string.h>

#include "compile/fields.h"
#include "interp/interp.h"
#include "interp/scalar.h"

static size_t self_test_bytes_of(const tensor *tensor) {
  return (size_t)tensor_numel(tensor) * dtype_size(tensor->type);
}

size_t self_test_bytes(const compile_plan *plan) {
  const ir_arguments *all = &plan->graph->method->inputs;
  size_t bytes = 0;
  for (uint32_t i = 0; i < all->count; i++)
    if (all->items[i].tensor != IR_NONE)
      bytes += plan_aligned(self_test_bytes_of(&plan->schedule->types[all->items[i].tensor]));
  return bytes;
}

/* ---------------------------------------------------------------- inputs */

/* A method under test. */
typedef struct self_test {
  const program *program;
  const compile_options *options;
  session *session;
  uint32_t method;
  uint64_t seed;
} self_test;

static dtype scalar_dtype(const ir_value *value) {
  return value->type == IR_VALUE_TYPE_FLOAT  ? DTYPE_F64
         : value->type == IR_VALUE_TYPE_BOOL ? DTYPE_BOOL
                                             : DTYPE_I64;
}

/* Sets a scalar input to its fixed value, or to a random one. A fixed scalar is not an input of the
 * compiled program, so no random number is drawn for it. */
static clave_status set_scalar(self_test *test, uint32_t i, const ir_argument *argument) {
  const ir_value *declared = &test->program->ir.values.items[argument->value];
  const compile_dim *fixed = plan_find_dim(test->options, declared->name);
  unsigned char bytes[8] = {0};
  host_tensor tensor = {.t = {.type = scalar_dtype(declared)}, .data = bytes};
  if (fixed) {
    scalar_value value = {.known = true, .type = declared->type, .i = fixed->size};
    if (declared->type == IR_VALUE_TYPE_FLOAT) value.f = (double)fixed->size;
    scalar_to_bytes(&value, &tensor.t, bytes);
  } else {
    draw_elements(tensor.t.type, 1, bytes, &test->seed);
  }
  return session_set_input(test->session, test->method, i, &tensor);
}

static int64_t choose_dim(const self_test *test, const ir_int_or_vid *value) {
  if (value->vid == IR_NONE) return value->literal;
  const ir_value *size = &test->program->ir.values.items[value->vid];
  const compile_dim *fixed = plan_find_dim(test->options, size->name);
  if (fixed) return fixed->size;
  return drawn_size(size->min.present ? size->min.value : 0,
                    size->max.present ? size->max.value : INT64_MAX);
}

static clave_status self_test_set_tensor(self_test *test, uint32_t i, const ir_argument *argument) {
  const ir_tensor *of = &test->program->ir.tensors.items[argument->tensor];
  host_tensor tensor = {
      .t = {.type = test->program->types[argument->tensor].type, .rank = (int)of->shape.count}};
  size_t bytes = dtype_size(tensor.t.type);
  for (uint32_t k = 0; k < of->shape.count; k++) {
    tensor.t.dims[k] = choose_dim(test, &of->shape.items[k]);
    if (__builtin_mul_overflow(bytes, (size_t)tensor.t.dims[k], &bytes)) return status_no_memory();
  }
  tensor_set_contiguous(&tensor.t);
  tensor.data = malloc(bytes + 1);
  if (!tensor.data) return status_no_memory();
  draw_elements(tensor.t.type, bytes / dtype_size(tensor.t.type), tensor.data, &test->seed);
  clave_status st = session_set_input(test->session, test->method, i, &tensor);
  free(tensor.data);
  return st;
}

/* ---------------------------------------------------------------- runs */

static clave_status self_test_take_output(const self_test *test, uint32_t i, test_output *out,
                                          text *elements) {
  static const char zeros[MEMORY_ALIGNMENT];
  host_tensor tensor;
  TRY(session_output(test->session, test->method, i, &tensor));
  *out = (test_output){.bytes = self_test_bytes_of(&tensor.t)};
  digest_elements(tensor.t.type, (size_t)tensor_numel(&tensor.t), tensor.data, out->digest);
  if (!elements) return NULL;
  out->offset = elements->size;
  text_append(elements, tensor.data, out->bytes);
  text_append(elements, zeros, plan_aligned(out->bytes) - out->bytes);
  return text_status(elements);
}

static clave_status run_and_draw(self_test *test, test_output *out, text *elements) {
  const ir_method *method = &test->program->ir.methods.items[test->method];
  for (uint32_t i = 0; i < method->inputs.count; i++) {
    const ir_argument *argument = &method->inputs.items[i];
    TRY(argument->tensor == IR_NONE ? set_scalar(test, i, argument)
                                    : self_test_set_tensor(test, i, argument));
  }
  TRY(session_run(test->session, test->method));
  for (uint32_t i = 0; i < method->outputs.count; i++)
    TRY(self_test_take_output(test, i, &out[i], elements));
  return NULL;
}

clave_status self_test_run(const program *program, const compile_options *options,
                           executable *executable, constant_store *store, uint32_t number,
                           test_output *out, text *elements) {
  self_test test = {.program = program, .options = options, .method = number, .seed = DRAWN_SEED};
  clave_status st = session_create(executable, &store, &(session_options){0}, &test.session);
  if (!st) st = run_and_draw(&test, out, elements);
  session_destroy(test.session);
  return status_while(st, "running method '%s' on random inputs for the results of --verify",
                      program->ir.methods.items[number].name);
}

/* ---------------------------------------------------------------- the bench */

static clave_status set_up(const program *program, test_bench *bench) {
  TRY(cpu_backend_create(0, &bench->cpu));
  const device_set devices = {.backends = {bench->cpu}, .count = 1};
  TRY(executable_create(program, &devices, &(executable_options){0}, &bench->executable));
  return constant_store_create(program, bench->cpu, &bench->store);
}

clave_status test_bench_create(const program *program, test_bench *out) {
  *out = (test_bench){0};
  clave_status st = set_up(program, out);
  if (st) test_bench_destroy(out);
  return st;
}

void test_bench_destroy(test_bench *bench) {
  constant_store_destroy(bench->store);
  executable_destroy(bench->executable);
  if (bench->cpu) bench->cpu->vt->destroy(bench->cpu);
  *bench = (test_bench){0};
}

void write_digests(const test_output *kept, uint32_t n, uint32_t number, text *to) {
  text_printf(to, "static const char *const digests_%u[] = {\n", number);
  for (uint32_t i = 0; i < n; i++) text_printf(to, "  \"%s\",\n", kept[i].digest);
  text_puts(to, "  NULL};\n");
}

void write_processor(const backend *cpu, text *to) {
  text_puts(to, "static const char processor[] = ");
  write_string(to, cpu->info.weight_layout);
  text_puts(to, ";\n\n");
}
