/* Compares the device's results with the CPU backend's. Integers and booleans must be equal. Floats
 * may differ by a tolerance relative to their own size or the median magnitude (for sums that
 * cancel).
 *
 * Backends may round intermediate values differently, which a threshold (floor, a comparison) or
 * cancellation amplifies. So if an element exceeds the tolerance, the CPU backend runs again with
 * the last bits of its operands changed, and the element may also differ by as much as that change
 * moves it. Exact ops, such as a single comparison or argmax, get no such allowance, because both
 * backends compare the same bits. */
#include "interp/check/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/distance.h"
#include "base/hash.h"
#include "interp/check/operands.h"
#include "interp/host_copy.h"

/* ---------------------------------------------------------------- elements */

/* Returns the tolerance of float results, relative to the element and to the median magnitude. It
 * is a multiple of the dtype's precision, because errors accumulate in chains and sums. */
static double results_tolerance_of(dtype t) {
  switch (t) {
    case DTYPE_F64:
      return 1e-10;
    case DTYPE_F32:
      return 1e-4;
    case DTYPE_F16:
      return 4e-3;
    case DTYPE_BF16:
      return 3e-2;
    default:
      return 0;
  }
}

static dtype results_type_of(const result *result) { return result->view->tensor.type; }

static double results_element(dtype t, const void *data, int64_t i) {
  return element_number(t, (const char *)data + (size_t)i * dtype_size(t));
}

static bool same_bits(const result *result, int64_t i) {
  size_t size = dtype_size(results_type_of(result)), at = (size_t)i * size;
  return memcmp((const char *)result->got + at, (const char *)result->want + at, size) == 0;
}

/* Returns how far rounding may move element i: twice its measured sensitivity. An element that
 * moved only a little in these few runs gets at least the median of the elements that moved. */
static double results_allowance_of(const result *result, int64_t i, double usual) {
  if (!result->sensitivity || result->sensitivity[i] == 0) return 0;
  return 2 * fmax(result->sensitivity[i], usual);
}

/* Counts the elements that exceed the tolerance; sets *at to one of them. */
static int64_t count_wrong(const result *result, int64_t *at) {
  dtype t = results_type_of(result);
  double tolerance = results_tolerance_of(t);
  double absolute = tolerance > 0 ? tolerance * median_magnitude(t, result->want, result->n) : 0;
  int64_t wrong = 0;
  double usual =
      result->sensitivity ? median_magnitude(DTYPE_F64, result->sensitivity, result->n) : 0;
  for (int64_t i = result->n - 1; i >= 0; i--) {
    if (same_bits(result, i)) continue;
    double got = results_element(t, result->got, i), want = results_element(t, result->want, i);
    double reach = results_allowance_of(result, i, usual);
    bool close = isinf(reach) || (tolerance == 0 && reach == 0
                                      ? false
                                      : number_is_close(got, want, tolerance, absolute + reach));
    if (close) continue;
    wrong++;
    *at = i;
  }
  return wrong;
}

/* ---------------------------------------------------------------- sensitivity */

/* True if rounding of intermediate floats can change the op's integer and boolean results. */
static bool rounds_before(const ir_instruction *ins) {
  if (ins->op_type == IR_OP_CUSTOM) return true;
  if (ins->op_type == IR_OP_ATTENTION_CACHED) return true; /* I8 caches hold rounded rows */
  return ins->op_type == IR_OP_ELEMENTWISE && ((const ir_elementwise *)ins->op)->steps.count > 1;
}

/* Returns the units in the last place by which operands are changed: for f32 and f64, the error
 * that OpenCL allows a function; fewer for 16-bit types, because these are computed in f32.
 * Sums of halves lose at most 2^-7 of each product. A change of 2^-6 of the operands usually moves
 * a result by 8 standard deviations of this. */
static uint64_t ulps_of(dtype t, rounding rounds) {
  if (rounds == ROUNDS_TO_F16) return t == DTYPE_F32 ? 1 << 17 : t == DTYPE_F16 ? 16 : 4;
  return t == DTYPE_F32 || t == DTYPE_F64 ? 16 : 2;
}

/* Moves a magnitude by `steps` units in the last place. Zero, infinity and NaN do not change. */
static uint64_t perturb(uint64_t bits, uint64_t sign, uint64_t infinity, uint64_t steps, bool up) {
  uint64_t size = bits & ~sign;
  if (size == 0 || size >= infinity) return bits;
  if (up) return (bits & sign) | (size + steps < infinity ? size + steps : infinity - 1);
  return (bits & sign) | (size > steps ? size - steps : 1);
}

static void perturb_all(dtype t, void *data, int64_t n, uint64_t ulps, uint64_t pattern) {
  static const uint64_t infinities[] = {[DTYPE_F32] = 0x7f800000,
                                        [DTYPE_F16] = 0x7c00,
                                        [DTYPE_BF16] = 0x7f80,
                                        [DTYPE_F64] = 0x7ff0000000000000};
  size_t size = dtype_size(t);
  uint64_t sign = UINT64_C(1) << (8 * size - 1);
  for (int64_t i = 0; i < n; i++) {
    unsigned char *at = (unsigned char *)data + (size_t)i * size;
    uint64_t bits = 0, word = (uint64_t)i >> 6;
    memcpy(&bits, at, size); /* little-endian, like the file format */
    bool up = (hash_bytes(&word, sizeof word) ^ pattern) >> (i & 63) & 1;
    bits = perturb(bits, sign, infinities[t], ulps, up);
    memcpy(at, &bits, size);
  }
}

static clave_status read_copy(const checking *checking, const result *result, void **out) {
  const oracle *oracle = checking->session->oracle;
  size_t bytes, size = dtype_size(result->copy->tensor.type);
  TRY(known_bytes(&result->copy->tensor, &bytes));
  *out = malloc(bytes);
  if (!*out) return status_no_memory();
  return oracle->cpu->vt->read(oracle->queue, result->copy->buf,
                               (size_t)result->copy->tensor.offset * size, *out, bytes);
}

static clave_status results_update_sensitivity(const checking *checking, result *result) {
  dtype t = results_type_of(result);
  void *moved = NULL;
  if (!result->sensitivity)
    result->sensitivity = calloc((size_t)result->n, sizeof *result->sensitivity);
  if (!result->sensitivity) return status_no_memory();
  clave_status st = read_copy(checking, result, &moved);
  for (int64_t i = 0; i < result->n && !st; i++) {
    double by = number_distance(results_element(t, moved, i), results_element(t, result->want, i));
    if (by > result->sensitivity[i]) result->sensitivity[i] = by;
  }
  free(moved);
  return st;
}

static clave_status run_perturbed(checking *checking, const region *region, uint64_t pattern) {
  const oracle *oracle = checking->session->oracle;
  size_t bytes = region_bytes(region);
  device_fault fault;
  TRY(restore_copies(checking));
  void *moved = malloc(bytes);
  if (!moved) return status_no_memory();
  memcpy(moved, region->host, bytes);
  perturb_all(region->type, moved, (int64_t)(bytes / dtype_size(region->type)),
              ulps_of(region->type, checking->rounds), pattern);
  clave_status st = oracle->cpu->vt->write(oracle->queue, region->copy, 0, moved, bytes);
  free(moved);
  if (!st) st = run_oracle(checking, &fault);
  for (int i = 0; i < checking->n_results && !st; i++)
    st = results_update_sensitivity(checking, &checking->results[i]);
  return st;
}

/* Measures the sensitivity of the results: changes one region of operands at a time, by a pattern
 * of ups and downs and then by the opposite pattern. Sums of halves need more patterns, because
 * their errors differ between results. */
static clave_status results_measure_sensitivity(checking *checking) {
  static const uint64_t patterns[6] = {0,
                                       UINT64_MAX,
                                       UINT64_C(0x5555555555555555),
                                       UINT64_C(0x3333333333333333),
                                       UINT64_C(0x0f0f0f0f0f0f0f0f),
                                       UINT64_C(0x00ff00ff00ff00ff)};
  const int n = checking->rounds == ROUNDS_TO_F16 ? 6 : 2;
  for (uint32_t i = 0; i < checking->n_regions; i++) {
    const region *region = &checking->regions[i];
    if (!region->host || !dtype_is_float(region->type)) continue;
    for (int k = 0; k < n; k++) TRY(run_perturbed(checking, region, patterns[k]));
  }
  return NULL;
}

/* ---------------------------------------------------------------- results */

static clave_status read_result(checking *checking, uint32_t tid) {
  const bound_tensor *tensor = &checking->view[tid];
  if (tensor_numel(&tensor->tensor) == 0 || checking->n_results == MAX_RESULTS) return NULL;
  result *made = &checking->results[checking->n_results++];
  *made =
      (result){.view = tensor, .copy = &checking->copy[tid], .n = tensor_numel(&tensor->tensor)};
  size_t bytes, size = dtype_size(tensor->tensor.type);
  TRY(known_bytes(&tensor->tensor, &bytes));
  made->got = malloc((size_t)made->n * dtype_size(results_type_of(made)));
  if (!made->got) return status_no_memory();
  TRY(checking->session->devices.backends[checking->backend]->vt->read(
      checking->session->streams[checking->backend], tensor->buf,
      tensor->buffer_offset + (size_t)tensor->tensor.offset * size, made->got, bytes));
  return read_copy(checking, made, &made->want);
}

static void results_describe(checking *checking, const result *result, int64_t wrong, int64_t at) {
  dtype t = results_type_of(result);
  text_printf(&checking->verdict, "%lld of %lld elements differ, such as %g for %g",
              (long long)wrong, (long long)result->n, results_element(t, result->got, at),
              results_element(t, result->want, at));
}

clave_status compare_results(checking *checking) {
  for (operand_iter i = operands_of(checking->nd->instruction); next_operand(&i);)
    if (i.operand.flags & IR_OUT) TRY(read_result(checking, i.operand.tid));
  int64_t at = 0, wrong = 0;
  bool measured = false;
  for (int i = 0; i < checking->n_results && !wrong; i++) {
    result *result = &checking->results[i];
    wrong = count_wrong(result, &at);
    bool excusable =
        dtype_is_float(results_type_of(result)) || rounds_before(checking->nd->instruction);
    if (wrong && excusable) {
      if (!measured) TRY(results_measure_sensitivity(checking));
      measured = true;
      wrong = count_wrong(result, &at);
    }
    if (wrong) results_describe(checking, result, wrong, at);
  }
  return checking->verdict.failed ? status_no_memory() : NULL;
}

void free_results(checking *checking) {
  for (int i = 0; i < checking->n_results; i++) {
    free(checking->results[i].got);
    free(checking->results[i].want);
    free(checking->results[i].sensitivity);
  }
  text_free(&checking->verdict);
}
