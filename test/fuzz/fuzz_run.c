/* FlatBuffers programs that verify are run, twice, on small inputs and within limits, and half of
 * them again as the passes rewrite them, on the device that CLAVE_DEVICE names (the CPU backend if
 * unset): an error of one line, or outputs whose every byte is there. */
#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "clave.h"
#include "clave_builder.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"
#include "test/fuzz/mutate.h"
#include "test/fuzz/target.h"

enum {
  MAX_ELEMENTS = 4096, /* of a tensor: an op's work is at most about their product */
  MAX_TENSORS = 200,
  MAX_STEPS = 400, /* that a run may take */
  MEMORY_BUDGET = 4 << 20
};

static volatile uint8_t sink;

/* ---------------------------------------------------------------- tensors from nothing */

typedef struct maker {
  uint64_t random;
  void *blocks[MAX_TENSORS]; /* owned */
  uint32_t n_blocks;
} maker;

static uint64_t next_random(maker *m) {
  m->random = m->random * 6364136223846793005u + 1442695040888963407u;
  return m->random >> 33;
}

/* Mostly small numbers, which are good sizes and indices too. */
static void fill_element(maker *m, clave_dtype dtype, uint8_t *at) {
  static const float special[] = {INFINITY, -INFINITY, NAN, -0.0F, 1e30F, 1e-40F};
  uint64_t r = next_random(m), bits = next_random(m) << 33 ^ next_random(m);
  float f = r % 64 ? ((float)(r % 33) - 16) / 8 : special[r / 64 % 6];
  int64_t small = r % 64 ? (int64_t)(r / 64 % 4) : (int64_t)bits;
  double d = f;
  uint16_t half = (uint16_t)(r % 64 ? 0x3000 | (r & 0x8FFF) : bits);
  if (dtype == CLAVE_F32) memcpy(at, &f, sizeof f);
  if (dtype == CLAVE_F64) memcpy(at, &d, sizeof d);
  if (dtype == CLAVE_F16 || dtype == CLAVE_BF16) memcpy(at, &half, sizeof half);
  if (dtype == CLAVE_BOOL) *at = r & 1;
  if (dtype != CLAVE_BOOL && dtype >= CLAVE_I8) memcpy(at, &small, clave_dtype_size(dtype));
}

static clave_tensor make_tensor(maker *m, clave_dtype dtype, int rank, const int64_t *dims) {
  size_t n = 1, width = clave_dtype_size(dtype);
  for (int i = 0; i < rank; i++) n *= (size_t)dims[i];
  uint8_t *bytes = aligned_alloc(64, (n * width + 64) / 64 * 64);
  require(bytes && m->n_blocks < MAX_TENSORS);
  for (size_t i = 0; i < n; i++) fill_element(m, dtype, bytes + i * width);
  m->blocks[m->n_blocks++] = bytes;
  return clave_tensor_make(dtype, rank, dims, bytes);
}

static void free_blocks(maker *m) {
  while (m->n_blocks) free(m->blocks[--m->n_blocks]);
}

/* ---------------------------------------------------------------- one program */

static bool cancel(void *ctx) { return --*(int *)ctx < 0; }

static bool is_small(const tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] > MAX_ELEMENTS) return false;
    if (t->dims[i] > 0) n *= t->dims[i];
    if (n > MAX_ELEMENTS) return false;
  }
  return true;
}

/* A size that is the same wherever the program has it under this name. */
static int64_t choose_size(const clave_tensor_info *info, int i) {
  if (info->dims[i] != CLAVE_DYNAMIC) return info->dims[i];
  const char *name = info->dim_names[i];
  uint64_t up = name ? hash_bytes(name, strlen(name)) % 4 : 1;
  int64_t size = info->min_dims[i] < MAX_ELEMENTS ? info->min_dims[i] + (int64_t)up : 1;
  return size > info->max_dims[i] ? info->max_dims[i] : size;
}

static bool set_input(clave_session *s, const clave_program *p, const char *method, uint32_t i,
                      maker *m) {
  clave_tensor_info info = {.size = sizeof info};
  int64_t dims[CLAVE_MAX_RANK], n = 1;
  require(is_good(clave_program_input(p, method, i, &info)));
  for (int k = 0; k < info.rank; k++) {
    dims[k] = choose_size(&info, k);
    if (dims[k] < 0 || dims[k] > MAX_ELEMENTS || (n *= dims[k]) > MAX_ELEMENTS) return false;
  }
  clave_tensor t = make_tensor(m, info.dtype, info.rank, dims);
  return is_good(clave_session_set_input(s, method, i, &t));
}

static void read_output(clave_session *s, const char *method, uint32_t i) {
  clave_tensor t;
  if (!is_good(clave_session_output(s, method, i, &t))) return;
  size_t n = clave_dtype_size(t.dtype);
  for (int k = 0; k < t.rank; k++) n *= (size_t)t.dims[k];
  for (size_t k = 0; k < n; k++) sink = (uint8_t)(sink ^ ((const uint8_t *)t.data)[k]);
}

static void run_method(clave_session *s, const clave_program *p, uint32_t index, int *steps,
                       uint64_t seed) {
  clave_method_info info = {.size = sizeof info};
  maker m = {.random = seed};
  require(is_good(clave_program_method(p, index, &info)));
  bool ready = info.n_inputs < MAX_TENSORS;
  for (uint32_t i = 0; ready && i < info.n_inputs; i++) ready = set_input(s, p, info.name, i, &m);
  *steps = MAX_STEPS;
  if (ready && is_good(clave_session_run(s, info.name))) {
    for (uint32_t i = 0; i < info.n_outputs; i++) read_output(s, info.name, i);
  }
  free_blocks(&m);
}

static clave_device *open_device(void) {
  static clave_device *device;
  clave_device_options o = {.size = sizeof o, .n_threads = 1};
  if (!device)
    require(is_good(clave_device_open(getenv("CLAVE_DEVICE") ? NULL : "cpu", &o, &device)));
  return device;
}

static void run_program(clave_program *p, uint64_t seed) {
  int steps = MAX_STEPS;
  clave_program_info info = {.size = sizeof info};
  clave_session *s;
  clave_session_options o = {.size = sizeof o,
                             .memory_budget = MEMORY_BUDGET,
                             .poison = true,
                             .unchecked = true,
                             .unfused = seed & 1,
                             .cancel = cancel,
                             .cancel_ctx = &steps};
  require(is_good(clave_program_get_info(p, &info)));
  if (!is_good(clave_session_create(p, open_device(), &o, &s))) return;
  for (uint32_t i = 0; i < 2 * info.n_methods && i < 8; i++)
    run_method(s, p, i % info.n_methods, &steps, seed + i);
  clave_session_destroy(s);
}

/* What the passes make of it: a pass may be refused, but the program is good then, too. */
static void run_optimized(clave_program *p, uint64_t seed) {
  clave_program *made;
  if (is_good(clave_program_optimize(p, NULL, &made))) run_program(made, seed);
  clave_program_destroy(made);
}

/* A program of small tensors, with constants made for it. */
static void run_verified(const uint8_t *data, size_t size, const program *p) {
  uint32_t n = p->ir.constants.count;
  clave_tensor constants[MAX_TENSORS];
  maker m = {.random = hash_bytes(data, size)};
  clave_program *made;
  if (n >= MAX_TENSORS) return;
  for (uint32_t i = 0; i < p->ir.tensors.count; i++) {
    if (!is_small(&p->types[i])) return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const tensor *t = &p->types[i];
    constants[i] = make_tensor(&m, (clave_dtype)t->type, t->rank, t->dims);
  }
  if (is_good(clave_program_create(data, size, constants, n, &made))) {
    run_program(made, m.random);
    if (m.random & 2) run_optimized(made, m.random);
  }
  clave_program_destroy(made);
  free_blocks(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  program *p;
  require(!program_new(&p));
  clave_status st = decode_flatbuffer(data, size, p->pool, &p->ir);
  if (!st) st = verify_program(p);
  if (!st) run_verified(data, size, p);
  (void)is_good(st);
  program_destroy(p);
  return 0;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  size_t n = seed % 8 ? mutate_program(data, size, max_size, seed / 8) : 0;
  return n ? n : LLVMFuzzerMutate(data, size, max_size);
}
