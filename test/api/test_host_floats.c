/* A host may have set another rounding mode, flushed subnormal numbers or enabled traps: results
 * are the same bits on every device, no trap is taken, and the host's setting is what it was. Run
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

/* Everything of the floating-point environment but its flags. */
static unsigned tell_host(void) {
  unsigned told = (unsigned)fegetround() | (unsigned)fegetexcept() << 16;
#ifdef __x86_64__
  enum { FLAGS = 0x3F };
  told ^= (_mm_getcsr() & ~(unsigned)FLAGS) << 8;
#endif
  return told;
}

/* ---------------------------------------------------------------- what is computed */

enum { N = 67 };

typedef struct results {
  size_t size;
  unsigned char bytes[1 << 16];
} results;

static void keep(results *r, const void *data, size_t n) {
  assert_true(n <= sizeof r->bytes - r->size);
  memcpy(r->bytes + r->size, data, n);
  r->size += n;
}

/* Zeros, subnormals, numbers near the ends of the range and plain ones. No arithmetic: it would
 * follow the host. */
static void fill(float *x) {
  uint32_t bits = 12345;
  static const uint32_t special[] = {0,          0x80000000, 1,          0x00012345, 0x007FFFFF,
                                     0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
                                     0x7FC00000, 0x3F800000, 0xBF800000, 0x42B17218, 0xC2CFF1B5};
  for (size_t i = 0; i < N; i++) {
    bits = bits * 1664525u + 1013904223u;
    const uint32_t plain = (bits & 0x807FFFFF) | (0x3B800000 + (bits >> 8 & 0x0F) * 0x00800000);
    const uint32_t of = i < sizeof special / sizeof *special ? special[i] : plain;
    memcpy(&x[i], &of, sizeof of);
  }
}

static const char *const unary[] = {"exp",  "log",     "sqrt", "reciprocal",
                                    "tanh", "sigmoid", "sin",  "rsqrt"};
static const char *const binary[] = {"mul", "div", "sub", "add"};
enum { UNARY = sizeof unary / sizeof *unary, BINARY = sizeof binary / sizeof *binary };

static clave_program *build(float *constant) {
  clave_builder *b;
  clave_program *p;
  const int64_t shape[] = {N};
  const clave_operand operands[] = {{.source = CLAVE_OPERAND_INPUT, .index = 0},
                                    {.source = CLAVE_OPERAND_INPUT, .index = 1}};
  good(clave_builder_create(&b));
  const clave_tensor c = clave_tensor_make(CLAVE_F32, 1, shape, constant);
  const clave_id x = clave_builder_tensor(b, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 1, shape, NULL);
  const clave_id given = clave_builder_constant(b, "c", &c, true);
  clave_builder_method(b, "forward");
  clave_builder_input(b, "x", x);
  for (int i = 0; i < UNARY + BINARY; i++) {
    const bool is_unary = i < UNARY;
    const char *name = is_unary ? unary[i] : binary[i - UNARY];
    const clave_id inputs[] = {x, given};
    const clave_id y = clave_builder_tensor(b, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, 1, shape, NULL);
    clave_builder_op(b, "Elementwise", name);
    clave_builder_set_tensors(b, "inputs", inputs, is_unary ? 1 : 2);
    clave_builder_step(b, name, CLAVE_F32, operands, is_unary ? 1 : 2);
    clave_builder_set_tensor(b, "out", y);
    clave_builder_output(b, name, y);
  }
  good(clave_builder_finish(b, &p));
  clave_builder_destroy(b);
  return p;
}

/* NaNs are told apart by nobody: OpenCL leaves their bits to the device. */
static void keep_floats(results *r, const float *y, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &y[i], sizeof bits);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) bits = 0x7FC00000;
    keep(r, &bits, sizeof bits);
  }
}

static void run_steps(const char *spec, results *r) {
  float x[N], c[N];
  const int64_t shape[] = {N};
  clave_device *device;
  clave_session *s;
  fill(x);
  for (int i = 0; i < N; i++) c[i] = x[(i * 7 + 3) % N];
  clave_program *p = build(c);
  const clave_tensor in = clave_tensor_make(CLAVE_F32, 1, shape, x);
  good(clave_device_open(spec, NULL, &device));
  good(clave_session_create(p, device, NULL, &s));
  good(clave_session_set_input(s, NULL, 0, &in));
  good(clave_session_run(s, NULL));
  for (uint32_t i = 0; i < UNARY + BINARY; i++) {
    clave_tensor y;
    good(clave_session_output(s, NULL, i, &y));
    keep_floats(r, y.data, N);
  }
  clave_session_destroy(s);
  clave_device_destroy(device);
  clave_program_destroy(p);
}

/* Convolutions and products in the threads of a pool that is made now. */
static void classify(const char *spec, results *r) {
  static float images[8 * 28 * 28];
  const int64_t dims[] = {8, 1, 28, 28};
  uint32_t bits = 1;
  clave_device *device;
  clave_program *p;
  clave_session *s;
  clave_tensor y;
  for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
    bits = bits * 1664525u + 1013904223u;
    const uint32_t word = 0x3E000000 | bits >> 8;
    memcpy(&images[i], &word, sizeof word);
  }
  const clave_tensor x = clave_tensor_make(CLAVE_F32, 4, dims, images);
  good(clave_device_open(spec, NULL, &device));
  good(clave_program_load("examples/mnist/mnist.clv", NULL, &p));
  good(clave_session_create(p, device, NULL, &s));
  good(clave_session_set_input(s, NULL, 0, &x));
  good(clave_session_run(s, NULL));
  good(clave_session_output(s, NULL, 0, &y));
  keep(r, y.data, 8 * 10 * sizeof(float));
  clave_session_destroy(s);
  clave_program_destroy(p);
  clave_device_destroy(device);
}

static void render(results *r) {
  static const char source[] =
      "{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ x | tojson }} {{ '%.3e' | format(2 / 3) }} {{ 2.675 | "
      "round(2) }} "
      "{{ '0.1' | float }} {{ 5e-324 }} {{ 1e308 * 10 }} {{ 7.0 // 2 }} {{ 2 ** 0.5 }} {{ 1e-310 "
      "}}";
  const clave_template_inputs inputs = {.size = sizeof inputs,
                                        .messages = "[]",
                                        .arguments = "{\"x\": [0.1, 1e-7, 2.5e-320, 123456.789]}"};
  clave_template *t;
  char *text;
  size_t size;
  good(clave_template_create(source, sizeof source - 1, &t));
  good(clave_template_render(t, &inputs, &text, &size));
  keep(r, text, size);
  clave_text_free(text);
  clave_template_destroy(t);
}

static void sample(results *r) {
  float logits[256];
  for (uint32_t i = 0; i < 256; i++) {
    const uint32_t bits = 0x3F000000 | (i * 0x9E3779B9 >> 9);
    memcpy(&logits[i], &bits, sizeof bits);
  }
  clave_sampler_options o = {.size = sizeof o, .seed = 7};
  static const uint32_t halves = 0x3F400000, penalty = 0x3FA00000; /* 0.75, 1.25 */
  memcpy(&o.temperature, &halves, sizeof halves);
  memcpy(&o.top_p, &halves, sizeof halves);
  memcpy(&o.repetition_penalty, &penalty, sizeof penalty);
  clave_sampler *s;
  good(clave_sampler_create(&o, &s));
  uint32_t ids[64];
  for (size_t i = 0; i < 64; i++) good(clave_sampler_sample(s, logits, 256, ids, i, &ids[i]));
  keep(r, ids, sizeof ids);
  clave_sampler_destroy(s);
}

/* A language model's whole way: tokenizer, prompt, tokens by chance, their probabilities. */
static void talk(const char *spec, results *r) {
  clave_device *device;
  clave_llm *llm;
  clave_llm_conversation *c;
  clave_sampler_options o = {.size = sizeof o, .seed = 3};
  static const uint32_t one = 0x3F800000;
  memcpy(&o.temperature, &one, sizeof one);
  const clave_llm_conversation_options options = {.size = sizeof options, .sampler = &o};
  good(clave_device_open(spec, NULL, &device));
  good(clave_llm_load("examples/tinylm/tinylm.clv", device, NULL, &llm));
  good(clave_llm_conversation_create(llm, &options, &c));
  good(clave_llm_prompt_text(c, "The little", 10));
  for (int i = 0; i < 12; i++) {
    clave_llm_token token;
    good(clave_llm_next(c, &token));
    keep(r, &token.id, sizeof token.id);
  }
  clave_llm_conversation_destroy(c);
  clave_llm_destroy(llm);
  clave_device_destroy(device);
}

/* ---------------------------------------------------------------- tests */

static void compute(const char *spec, results *r) {
  r->size = 0;
  run_steps(spec, r);
  classify(spec, r);
  talk(spec, r);
  render(r);
  sample(r);
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
