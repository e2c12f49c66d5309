/* A host may have set another rounding mode, flushed subnormal numbers or enabled traps. Results
 * still have the same bits on every device, no trap occurs, and the host's settings are kept. Run
 * from the project's root. */
#include <cmocka.h>
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "clave_builder.h"
#include "clave_files.h"
#include "clave_llm.h"
#include "test/api/expect.h"

/* ---------------------------------------------------------------- hosts */

typedef enum host { PLAIN, UPWARD, DOWNWARD, TOWARD_ZERO, FLUSHED, TRAPPED, N_HOSTS } host;

static void set_host(host h) {
  static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  assert_int_equal(fesetenv(FE_DFL_ENV), 0);
  if (h <= TOWARD_ZERO) assert_int_equal(fesetround(modes[h]), 0);
#ifdef __x86_64__
  enum { FLUSH_AND_ZERO = 0x8040 };
  if (h == FLUSHED) _mm_setcsr(_mm_getcsr() | FLUSH_AND_ZERO);
#endif
  if (h == TRAPPED) (void)feenableexcept(FE_ALL_EXCEPT);
}

/* Returns the floating-point environment without its exception flags. */
static unsigned tell_host(void) {
  unsigned told = (unsigned)fegetround() | (unsigned)fegetexcept() << 16;
#ifdef __x86_64__
  enum { FLAGS = 0x3F };
  told ^= (_mm_getcsr() & ~(unsigned)FLAGS) << 8;
#endif
  return told;
}

/* ---------------------------------------------------------------- computations */

enum { N = 67 };

typedef struct results {
  size_t size;
  unsigned char bytes[1 << 16];
} results;

static void keep(results *results, const void *data, size_t n) {
  assert_true(n <= sizeof results->bytes - results->size);
  memcpy(results->bytes + results->size, data, n);
  results->size += n;
}

/* Writes zeros, subnormals, numbers near the ends of the range and ordinary numbers. Uses no
 * arithmetic, which would depend on the host's settings. */
static void fill(float *values) {
  uint32_t bits = 12345;
  static const uint32_t special[] = {0,          0x80000000, 1,          0x00012345, 0x007FFFFF,
                                     0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
                                     0x7FC00000, 0x3F800000, 0xBF800000, 0x42B17218, 0xC2CFF1B5};
  for (size_t i = 0; i < N; i++) {
    bits = bits * 1664525u + 1013904223u;
    const uint32_t plain = (bits & 0x807FFFFF) | (0x3B800000 + (bits >> 8 & 0x0F) * 0x00800000);
    const uint32_t of = i < sizeof special / sizeof *special ? special[i] : plain;
    memcpy(&values[i], &of, sizeof of);
  }
}

static const char *const unary[] = {"exp",  "log",     "sqrt", "reciprocal",
                                    "tanh", "sigmoid", "sin",  "rsqrt"};
static const char *const binary[] = {"mul", "div", "sub", "add"};
enum { UNARY = sizeof unary / sizeof *unary, BINARY = sizeof binary / sizeof *binary };

static clave_program *build(float *constant) {
  clave_builder *builder;
  clave_program *program;
  const int64_t shape[] = {N};
  const clave_operand operands[] = {{.source = CLAVE_OPERAND_INPUT, .index = 0},
                                    {.source = CLAVE_OPERAND_INPUT, .index = 1}};
  good(clave_builder_create(&builder));
  const clave_tensor tensor = clave_tensor_make(CLAVE_F32, 1, shape, constant);
  const clave_id x =
      clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 1, shape, NULL);
  const clave_id given = clave_builder_constant(builder, "c", &tensor, true);
  clave_builder_method(builder, "forward");
  clave_builder_input(builder, "x", x);
  for (int i = 0; i < UNARY + BINARY; i++) {
    const bool is_unary = i < UNARY;
    const char *name = is_unary ? unary[i] : binary[i - UNARY];
    const clave_id inputs[] = {x, given};
    const clave_id y =
        clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, 1, shape, NULL);
    clave_builder_op(builder, "Elementwise", name);
    clave_builder_set_tensors(builder, "inputs", inputs, is_unary ? 1 : 2);
    clave_builder_step(builder, name, CLAVE_F32, operands, is_unary ? 1 : 2);
    clave_builder_set_tensor(builder, "out", y);
    clave_builder_output(builder, name, y);
  }
  good(clave_builder_finish(builder, &program));
  clave_builder_destroy(builder);
  return program;
}

/* Keeps floats for comparison. All NaNs become one, because their bits depend on the device. */
static void keep_floats(results *results, const float *y_values, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &y_values[i], sizeof bits);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) bits = 0x7FC00000;
    keep(results, &bits, sizeof bits);
  }
}

static void run_steps(const char *spec, results *results) {
  float x[N], c[N];
  const int64_t shape[] = {N};
  clave_device *device;
  clave_session *session;
  fill(x);
  for (int i = 0; i < N; i++) c[i] = x[(i * 7 + 3) % N];
  clave_program *program = build(c);
  const clave_tensor in = clave_tensor_make(CLAVE_F32, 1, shape, x);
  good(clave_device_open(spec, NULL, &device));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &in));
  good(clave_session_run(session, NULL));
  for (uint32_t i = 0; i < UNARY + BINARY; i++) {
    clave_tensor tensor;
    good(clave_session_output(session, NULL, i, &tensor));
    keep_floats(results, tensor.data, N);
  }
  clave_session_destroy(session);
  clave_device_destroy(device);
  clave_program_destroy(program);
}

/* Runs convolutions and products in the threads of a new pool. */
static void classify(const char *spec, results *results) {
  static float images[8 * 28 * 28];
  const int64_t dims[] = {8, 1, 28, 28};
  uint32_t bits = 1;
  clave_device *device;
  clave_program *program;
  clave_session *session;
  clave_tensor tensor;
  for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
    bits = bits * 1664525u + 1013904223u;
    const uint32_t word = 0x3E000000 | bits >> 8;
    memcpy(&images[i], &word, sizeof word);
  }
  const clave_tensor value = clave_tensor_make(CLAVE_F32, 4, dims, images);
  good(clave_device_open(spec, NULL, &device));
  good(clave_program_load("examples/mnist/mnist.clv", NULL, &program));
  good(clave_session_create(program, device, NULL, &session));
  good(clave_session_set_input(session, NULL, 0, &value));
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &tensor));
  keep(results, tensor.data, 8 * 10 * sizeof(float));
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
}

static void render(results *results) {
  static const char source[] =
      "{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ x | tojson }} {{ '%.3e' | format(2 / 3) }} {{ 2.675 | "
      "round(2) }} "
      "{{ '0.1' | float }} {{ 5e-324 }} {{ 1e308 * 10 }} {{ 7.0 // 2 }} {{ 2 ** 0.5 }} {{ 1e-310 "
      "}}";
  const clave_template_inputs inputs = {.size = sizeof inputs,
                                        .messages = "[]",
                                        .arguments = "{\"x\": [0.1, 1e-7, 2.5e-320, 123456.789]}"};
  clave_template *template;
  char *text;
  size_t size;
  good(clave_template_create(source, sizeof source - 1, &template));
  good(clave_template_render(template, &inputs, &text, &size));
  keep(results, text, size);
  clave_text_free(text);
  clave_template_destroy(template);
}

static void sample(results *results) {
  float logits[256];
  for (uint32_t i = 0; i < 256; i++) {
    const uint32_t bits = 0x3F000000 | (i * 0x9E3779B9 >> 9);
    memcpy(&logits[i], &bits, sizeof bits);
  }
  clave_sampler_options options = {.size = sizeof options, .seed = 7};
  static const uint32_t halves = 0x3F400000, penalty = 0x3FA00000; /* 0.75, 1.25 */
  memcpy(&options.temperature, &halves, sizeof halves);
  memcpy(&options.top_p, &halves, sizeof halves);
  memcpy(&options.repetition_penalty, &penalty, sizeof penalty);
  clave_sampler *sampler;
  good(clave_sampler_create(&options, &sampler));
  uint32_t ids[64];
  for (size_t i = 0; i < 64; i++) good(clave_sampler_sample(sampler, logits, 256, ids, i, &ids[i]));
  keep(results, ids, sizeof ids);
  clave_sampler_destroy(sampler);
}

/* Runs a language model from end to end: tokenizer, prompt, sampled tokens, their probabilities. */
static void talk(const char *spec, results *results) {
  clave_device *device;
  clave_llm *llm;
  clave_llm_conversation *conversation;
  clave_sampler_options sampler_options = {.size = sizeof sampler_options, .seed = 3};
  static const uint32_t one = 0x3F800000;
  memcpy(&sampler_options.temperature, &one, sizeof one);
  const clave_llm_conversation_options options = {.size = sizeof options,
                                                  .sampler = &sampler_options};
  good(clave_device_open(spec, NULL, &device));
  good(clave_llm_load("examples/tinylm/tinylm.clv", device, NULL, &llm));
  good(clave_llm_conversation_create(llm, &options, &conversation));
  good(clave_llm_prompt_text(conversation, "The little", 10));
  for (int i = 0; i < 12; i++) {
    clave_llm_token token;
    good(clave_llm_next(conversation, &token));
    keep(results, &token.id, sizeof token.id);
  }
  clave_llm_conversation_destroy(conversation);
  clave_llm_destroy(llm);
  clave_device_destroy(device);
}

/* ---------------------------------------------------------------- tests */

static void compute(const char *spec, results *results) {
  results->size = 0;
  run_steps(spec, results);
  classify(spec, results);
  talk(spec, results);
  render(results);
  sample(results);
}

static void compare(const char *spec) {
  static results plain, got;
  set_host(PLAIN);
  compute(spec, &plain);
  for (host h = UPWARD; h < N_HOSTS; h++) {
    set_host(h);
    const unsigned before = tell_host();
    compute(spec, &got);
    const unsigned after = tell_host();
    set_host(PLAIN);
    assert_int_equal(before, after);
    assert_int_equal(got.size, plain.size);
    for (size_t i = 0; i < got.size; i++)
      if (got.bytes[i] != plain.bytes[i])
        fail_msg("host %d: byte %zu of results differs", (int)h, i);
  }
}

static void test_cpu(void **state) {
  (void)state;
  compare("cpu");
}

static void test_opencl(void **state) {
  (void)state;
  if (clave_devices_hint()) skip();
  compare("opencl");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu), cmocka_unit_test(test_opencl)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
