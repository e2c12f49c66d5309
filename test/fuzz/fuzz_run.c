/* Runs programs that verify twice, on small inputs and within limits, and half of them again after
 * all passes, on CLAVE_DEVICE (default: the CPU backend). Each run ends with a one-line error, or
 * with outputs whose every byte is readable. */
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
  MAX_ELEMENTS = 4096, /* elements of a tensor; an op's work is about a product of these */
  MAX_TENSORS = 200,
  MAX_STEPS = 400, /* steps that a run may take */
  MEMORY_BUDGET = 4 << 20
};

static volatile uint8_t sink;

/* ---------------------------------------------------------------- tensors from nothing */

typedef struct maker {
  uint64_t random;
  void *blocks[MAX_TENSORS]; /* owned */
  uint32_t n_blocks;
} maker;

static uint64_t next_random(maker *maker) {
  maker->random = maker->random * 6364136223846793005u + 1442695040888963407u;
  return maker->random >> 33;
}

/* Mostly small numbers, which are also valid sizes and indices. */
static void fill_element(maker *maker, clave_dtype dtype, uint8_t *at) {
  static const float special[] = {INFINITY, -INFINITY, NAN, -0.0F, 1e30F, 1e-40F};
  uint64_t r = next_random(maker), bits = next_random(maker) << 33 ^ next_random(maker);
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

static clave_tensor make_tensor(maker *maker, clave_dtype dtype, int rank, const int64_t *dims) {
  size_t n = 1, width = clave_dtype_size(dtype);
  for (int i = 0; i < rank; i++) n *= (size_t)dims[i];
  uint8_t *bytes = aligned_alloc(64, (n * width + 64) / 64 * 64);
  require(bytes && maker->n_blocks < MAX_TENSORS);
  for (size_t i = 0; i < n; i++) fill_element(maker, dtype, bytes + i * width);
  maker->blocks[maker->n_blocks++] = bytes;
  return clave_tensor_make(dtype, rank, dims, bytes);
}

static void free_blocks(maker *maker) {
  while (maker->n_blocks) free(maker->blocks[--maker->n_blocks]);
}

/* ---------------------------------------------------------------- one program */

static bool cancel(void *ctx) { return --*(int *)ctx < 0; }

static bool is_small(const tensor *tensor) {
  int64_t n = 1;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] > MAX_ELEMENTS) return false;
    if (tensor->dims[i] > 0) n *= tensor->dims[i];
    if (n > MAX_ELEMENTS) return false;
  }
  return true;
}

/* Returns a size, the same for every use of its name in the program. */
static int64_t choose_size(const clave_tensor_info *info, int i) {
  if (info->dims[i] != CLAVE_DYNAMIC) return info->dims[i];
  const char *name = info->dim_names[i];
  uint64_t up = name ? hash_bytes(name, strlen(name)) % 4 : 1;
  int64_t size = info->min_dims[i] < MAX_ELEMENTS ? info->min_dims[i] + (int64_t)up : 1;
  return size > info->max_dims[i] ? info->max_dims[i] : size;
}

static bool set_input(clave_session *session, const clave_program *program, const char *method,
                      uint32_t i, maker *maker) {
  clave_tensor_info info = {.size = sizeof info};
  int64_t dims[CLAVE_MAX_RANK], n = 1;
  require(is_good(clave_program_input(program, method, i, &info)));
  for (int k = 0; k < info.rank; k++) {
    dims[k] = choose_size(&info, k);
    if (dims[k] < 0 || dims[k] > MAX_ELEMENTS || (n *= dims[k]) > MAX_ELEMENTS) return false;
  }
  clave_tensor tensor = make_tensor(maker, info.dtype, info.rank, dims);
  return is_good(clave_session_set_input(session, method, i, &tensor));
}

static void read_output(clave_session *session, const char *method, uint32_t i) {
  clave_tensor tensor;
  if (!is_good(clave_session_output(session, method, i, &tensor))) return;
  size_t n = clave_dtype_size(tensor.dtype);
  for (int k = 0; k < tensor.rank; k++) n *= (size_t)tensor.dims[k];
  for (size_t k = 0; k < n; k++) sink = (uint8_t)(sink ^ ((const uint8_t *)tensor.data)[k]);
}

static void run_method(clave_session *session, const clave_program *program, uint32_t index,
                       int *steps, uint64_t seed) {
  clave_method_info info = {.size = sizeof info};
  maker maker = {.random = seed};
  require(is_good(clave_program_method(program, index, &info)));
  bool ready = info.n_inputs < MAX_TENSORS;
  for (uint32_t i = 0; ready && i < info.n_inputs; i++)
    ready = set_input(session, program, info.name, i, &maker);
  *steps = MAX_STEPS;
  if (ready && is_good(clave_session_run(session, info.name))) {
    for (uint32_t i = 0; i < info.n_outputs; i++) read_output(session, info.name, i);
  }
  free_blocks(&maker);
}

static clave_device *open_device(void) {
  static clave_device *device;
  clave_device_options options = {.size = sizeof options, .n_threads = 1};
  if (!device)
    require(is_good(clave_device_open(getenv("CLAVE_DEVICE") ? NULL : "cpu", &options, &device)));
  return device;
}

static void run_program(clave_program *program, uint64_t seed) {
  int steps = MAX_STEPS;
  clave_program_info info = {.size = sizeof info};
  clave_session *session;
  clave_session_options options = {.size = sizeof options,
                                   .memory_budget = MEMORY_BUDGET,
                                   .poison = true,
                                   .unchecked = true,
                                   .unfused = seed & 1,
                                   .cancel = cancel,
                                   .cancel_ctx = &steps};
  require(is_good(clave_program_get_info(program, &info)));
  if (!is_good(clave_session_create(program, open_device(), &options, &session))) return;
  for (uint32_t i = 0; i < 2 * info.n_methods && i < 8; i++)
    run_method(session, program, i % info.n_methods, &steps, seed + i);
  clave_session_destroy(session);
}

/* Optimizes the program, which succeeds even if a pass is refused, and runs the result. */
static void run_optimized(clave_program *program, uint64_t seed) {
  clave_program *made;
  if (is_good(clave_program_optimize(program, NULL, &made))) run_program(made, seed);
  clave_program_destroy(made);
}

/* Runs a program of small tensors, with constants made for it. */
static void run_verified(const uint8_t *data, size_t size, const program *program) {
  uint32_t n = program->ir.constants.count;
  clave_tensor constants[MAX_TENSORS];
  maker maker = {.random = hash_bytes(data, size)};
  clave_program *made;
  if (n >= MAX_TENSORS) return;
  for (uint32_t i = 0; i < program->ir.tensors.count; i++) {
    if (!is_small(&program->types[i])) return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const tensor *tensor = &program->types[i];
    constants[i] = make_tensor(&maker, (clave_dtype)tensor->type, tensor->rank, tensor->dims);
  }
  if (is_good(clave_program_create(data, size, constants, n, &made))) {
    run_program(made, maker.random);
    if (maker.random & 2) run_optimized(made, maker.random);
  }
  clave_program_destroy(made);
  free_blocks(&maker);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  program *program;
  require(!program_new(&program));
  clave_status st = decode_flatbuffer(data, size, program->pool, &program->ir);
  if (!st) st = verify_program(program);
  if (!st) run_verified(data, size, program);
  (void)is_good(st);
  program_destroy(program);
  return 0;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  size_t n = seed % 8 ? mutate_program(data, size, max_size, seed / 8) : 0;
  return n ? n : LLVMFuzzerMutate(data, size, max_size);
}
