#ifndef TEST_BACKEND_PAIR_H
#define TEST_BACKEND_PAIR_H
/* Runs one hand-made node on the CPU backend and on an OpenCL device and compares what they write.
 *
 * A case's tensors are text, one item per slot, separated by ';':   T(3,5,7)^+n; I(4)<7; >T(3,5)
 *   type   T the case's dtype; f h b d c u s i l o S U L e g = F32 F16 BF16 F64 I8 U8 I16 I32 I64
 * BOOL U16 U32 U64 F8_E4M3 F8_E5M2; I = I64
 *   before '>' it is written; '%' it is written over a copy of slot 0 (an output that reuses)
 *   after  '^' stored with the dimensions in reverse order, '+' at an offset of 5 elements, '-' the
 * last dimension backwards, '=' the first dimension repeated (stride 0), '_' a gap after each row,
 * 'n' some NaN, 'z' small integers (many equal), '<k' integers in [0, k), '~k' in [-k, k), 'p'
 * positive, 'q' -infinity all over */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend/recorded.h"
#include "base/hash.h"
#include "compare.h"

enum { PAIR_MAX_SLOTS = 12, PAIR_GUARD = 64 };

typedef struct pair_case {
  const char *name;
  ir_op op;
  const void *fields;
  const char *tensors;
  const char *types; /* the dtypes for T, in turn */
  /* Allowed error before a result is rounded to its dtype (compare.h), in units of f32's epsilon
   * (F64: of f64's), relative to the larger of |expected| and the output's root mean square. 0:
   * results must be equal. */
  double tolerance;
} pair_case;

/* A slot: its layout, and its whole storage on the host. */
typedef struct pair_slot {
  bound_tensor bound;
  bool written, copies;
  size_t bytes;
  char *data;
} pair_slot;

typedef struct pair_node {
  pair_slot slots[PAIR_MAX_SLOTS];
  int n_slots;
  char fill[PAIR_MAX_SLOTS];
  int64_t limit[PAIR_MAX_SLOTS];
} pair_node;

static const char pair_letters[] = "fhbdcusiloSULeg"; /* by dtype */

static uint64_t pair_state = 88172645463325252ull;
static uint32_t pair_random(void) {
  pair_state ^= pair_state << 13;
  pair_state ^= pair_state >> 7;
  pair_state ^= pair_state << 17;
  return (uint32_t)(pair_state >> 16);
}
static double pair_normal(void) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += pair_random() / 4294967296.0;
  return sum;
}

static void pair_store(dtype t, void *memory, int64_t i, double v) {
  switch (t) {
    case DTYPE_F32:
      ((float *)memory)[i] = (float)v;
      break;
    case DTYPE_F16:
      ((uint16_t *)memory)[i] = f32_to_f16((float)v);
      break;
    case DTYPE_BF16:
      ((uint16_t *)memory)[i] = f32_to_bf16((float)v);
      break;
    case DTYPE_F64:
      ((double *)memory)[i] = v;
      break;
    case DTYPE_I16:
      ((int16_t *)memory)[i] = (int16_t)v;
      break;
    case DTYPE_I32:
      ((int32_t *)memory)[i] = (int32_t)v;
      break;
    case DTYPE_I64:
      ((int64_t *)memory)[i] = (int64_t)v;
      break;
    case DTYPE_I8:
      ((int8_t *)memory)[i] = (int8_t)v;
      break;
    case DTYPE_U16:
      ((uint16_t *)memory)[i] = (uint16_t)(int64_t)v;
      break;
    case DTYPE_U32:
      ((uint32_t *)memory)[i] = (uint32_t)(int64_t)v;
      break;
    case DTYPE_U64:
      ((uint64_t *)memory)[i] = (uint64_t)(int64_t)v;
      break;
    case DTYPE_F8_E4M3:
      ((uint8_t *)memory)[i] = f32_to_f8_e4m3((float)v);
      break;
    case DTYPE_F8_E5M2:
      ((uint8_t *)memory)[i] = f32_to_f8_e5m2((float)v);
      break;
    default:
      ((uint8_t *)memory)[i] = (uint8_t)(t == DTYPE_BOOL ? v != 0 : (int64_t)v);
      break;
  }
}

static double pair_load(dtype t, const void *memory, int64_t i) {
  return element_number(t, (const char *)memory + (size_t)i * dtype_size(t));
}

/* ---- reading a case */

static void pair_reverse(tensor *tensor) {
  int64_t stride = 1;
  for (int d = 0; d < tensor->rank; d++) {
    tensor->strides[d] = stride;
    stride *= tensor->dims[d];
  }
}

static void pair_gap(tensor *tensor) {
  int64_t stride = tensor->rank ? tensor->dims[tensor->rank - 1] + 3 : 1;
  for (int d = tensor->rank - 2; d >= 0; d--) {
    tensor->strides[d] = stride;
    stride *= tensor->dims[d];
  }
}

static const char *pair_flags(const char *text, pair_node *node, int slot) {
  tensor *tensor = &node->slots[slot].bound.tensor;
  for (; *text && *text != ';'; text++) {
    if (*text == '^') pair_reverse(tensor);
    if (*text == '_') pair_gap(tensor);
    if (*text == '+') tensor->offset += 5;
    if (*text == '=') tensor->strides[0] = 0;
    if (*text == '-') {
      tensor->offset += (tensor->dims[tensor->rank - 1] - 1) * tensor->strides[tensor->rank - 1];
      tensor->strides[tensor->rank - 1] *= -1;
    }
    if (strchr("nzpq<~", *text)) node->fill[slot] = *text;
    if (*text == '<' || *text == '~') node->limit[slot] = strtoll(text + 1, NULL, 10);
  }
  return *text ? text + 1 : text;
}

static const char *pair_slot_read(const char *text, pair_node *node, char letter) {
  pair_slot *slot = &node->slots[node->n_slots];
  tensor *tensor = &slot->bound.tensor;
  while (*text == ' ') text++;
  slot->written = *text == '>' || *text == '%';
  slot->copies = *text == '%';
  if (slot->written) text++;
  char type = *text == 'T' ? letter : *text == 'I' ? 'l' : *text;
  tensor->type = (dtype)(strchr(pair_letters, type) - pair_letters);
  for (text += 2; *text != ')'; text += *text == ',')
    tensor->dims[tensor->rank++] = strtoll(text, (char **)&text, 10);
  tensor_set_contiguous(tensor);
  return pair_flags(text + 1, node, node->n_slots++);
}

static void pair_fill(pair_node *node, int slot) {
  pair_slot *pair_slot = &node->slots[slot];
  dtype t = pair_slot->bound.tensor.type;
  int64_t n = (int64_t)(pair_slot->bytes / dtype_size(t)), limit = node->limit[slot];
  for (int64_t i = 0; i < n; i++) {
    double v = pair_normal();
    if (t == DTYPE_BOOL)
      v = pair_random() % 4 != 0;
    else if (node->fill[slot] == 'z')
      v = (double)(pair_random() % 5) - (t == DTYPE_U8 ? 0 : 2);
    else if (node->fill[slot] == '<')
      v = (double)(pair_random() % (uint32_t)limit);
    else if (node->fill[slot] == '~')
      v = (double)(pair_random() % (uint32_t)(2 * limit)) - (double)limit;
    else if (node->fill[slot] == 'p')
      v = fabs(v) + 0.1;
    else if (node->fill[slot] == 'q')
      v = -INFINITY;
    else if (!dtype_is_float(t))
      v = (double)(pair_random() % 100);
    else if (node->fill[slot] == 'n' && pair_random() % 37 == 0)
      v = NAN;
    pair_store(t, pair_slot->data, i, v);
  }
}

/* Returns the number of elements of the storage, up to the highest one used, plus a guard. */
static int64_t pair_extent(const tensor *tensor) {
  int64_t last = tensor->offset;
  for (int d = 0; d < tensor->rank; d++)
    if (tensor->strides[d] > 0 && tensor->dims[d] > 0)
      last += (tensor->dims[d] - 1) * tensor->strides[d];
  return last + 1;
}

static void pair_read(const pair_case *pair_case, char letter, pair_node *node) {
  memset(node, 0, sizeof *node);
  for (const char *at = pair_case->tensors; *at;) at = pair_slot_read(at, node, letter);
  for (int i = 0; i < node->n_slots; i++) {
    pair_slot *slot = &node->slots[i];
    slot->bytes = (size_t)pair_extent(&slot->bound.tensor) * dtype_size(slot->bound.tensor.type);
    slot->data = calloc(1, slot->bytes + PAIR_GUARD);
    assert_non_null(slot->data);
    if (!slot->written) pair_fill(node, i);
    if (slot->copies) memcpy(slot->data, node->slots[0].data, slot->bytes);
  }
}

static void pair_free(pair_node *node) {
  for (int i = 0; i < node->n_slots; i++) free(node->slots[i].data);
}

/* ---- running */

static void pair_check(clave_status st, const char *what) {
  if (!st) return;
  print_error("%s: %s\n", what, status_message(st));
  status_free(st);
  fail();
}

/* Checks that the op's rule accepts the case, since the verifier lets only such nodes through. */
static void pair_check_rule(const pair_case *pair_case, const pair_node *node) {
  tensor types[PAIR_MAX_SLOTS];
  for (int i = 0; i < node->n_slots; i++) types[i] = node->slots[i].bound.tensor;
  const ir_program program = {.tensors = {.count = (uint32_t)node->n_slots}};
  const rule_context rules = {.program = &program, .tensors = types};
  pair_check(op_table[pair_case->op].rule(&rules, pair_case->fields), pair_case->name);
}

/* Runs the node `times` times; results[i]: the bytes of slot i, which the caller frees; NULL if it
 * is not written. */
static void pair_run(backend *backend, const pair_case *pair_case, pair_node *pair_node, int times,
                     char **results, device_fault *fault) {
  stream *stream;
  bound_tensor bound[PAIR_MAX_SLOTS];
  recorded recorded;
  ir_instruction instruction = {
      .op_type = pair_case->op, .op = (void *)pair_case->fields, .name = pair_case->name};
  pair_check(backend->vt->stream_create(backend, &stream), pair_case->name);
  for (int i = 0; i < pair_node->n_slots; i++) {
    bound[i] = pair_node->slots[i].bound;
    bound[i].slot = (uint32_t)i;
    pair_check(
        backend->vt->buffer_create(backend, pair_node->slots[i].bytes + PAIR_GUARD, &bound[i].buf),
        pair_case->name);
  }
  pair_check(make_recorded(backend, stream, (node){.instruction = &instruction, .tensors = bound},
                           &recorded),
             pair_case->name);
  for (int t = 0; t < times; t++) {
    for (int i = 0; i < pair_node->n_slots; i++)
      pair_check(backend->vt->write(stream, bound[i].buf, 0, pair_node->slots[i].data,
                                    pair_node->slots[i].bytes + PAIR_GUARD),
                 pair_case->name);
    pair_check(run_recorded(&recorded, bound, 7), pair_case->name);
  }
  pair_check(backend->vt->finish(stream, fault), pair_case->name);
  for (int i = 0; i < pair_node->n_slots; i++) {
    results[i] = NULL;
    if (!pair_node->slots[i].written) continue;
    results[i] = malloc(pair_node->slots[i].bytes + PAIR_GUARD);
    assert_non_null(results[i]);
    pair_check(backend->vt->read(stream, bound[i].buf, 0, results[i],
                                 pair_node->slots[i].bytes + PAIR_GUARD),
               pair_case->name);
  }
  free_recorded(&recorded);
  backend->vt->stream_destroy(backend, stream);
  for (int i = 0; i < pair_node->n_slots; i++) backend->vt->buffer_destroy(backend, bound[i].buf);
}

static float_format pair_format(dtype t) {
  return t == DTYPE_F16    ? format_f16
         : t == DTYPE_BF16 ? format_bf16
         : t == DTYPE_F64  ? format_f64
                           : format_f32;
}

/* The tolerance of n expected values of a float dtype. */
static tolerance pair_tolerance(double units, dtype t, const double *want, size_t n) {
  double squares = 0, finite = 0, part = units * (t == DTYPE_F64 ? 2.3e-16 : 1.2e-7);
  for (size_t i = 0; i < n; i++)
    if (isfinite(want[i])) finite += 1, squares += want[i] * want[i];
  return (tolerance){.rtol = part, .atol = finite > 0 ? part * sqrt(squares / finite) : 0};
}

/* Compares n values of a float dtype and prints the first problem, also if wrong values would pass.
 * Returns the number of failures. */
static int pair_compare_floats(const char *name, dtype t, double units, const double *want,
                               const double *got, size_t n) {
  float_format format = pair_format(t);
  tolerance allowed = pair_tolerance(units, t, want, n);
  comparison comparison = compare_floats(got, want, n, format, allowed);
  const char *fault = comparison_fault(&comparison, format, allowed);
  sabotage passes = accepted_sabotage(want, n, format, allowed);
  if (fault)
    print_error(
        "%s: %s; %zu of %zu: element %zu: cpu %.9g, opencl %.9g; errors in parts of the allowance: "
        "mean %.2g, size %.2g\n",
        name, fault, comparison.wrong, n, comparison.first, want[comparison.first],
        got[comparison.first], comparison.sum / comparison.n, comparison.size / comparison.n);
  if (passes < N_SABOTAGES) print_error("%s: %s would pass\n", name, sabotage_names[passes]);
  return fault || passes < N_SABOTAGES;
}

static double *pair_values(dtype t, const char *data, size_t n) {
  double *values = malloc((n + 1) * sizeof *values);
  assert_non_null(values);
  for (size_t i = 0; i < n; i++) values[i] = pair_load(t, data, (int64_t)i);
  return values;
}

static int pair_compare(const pair_case *pair_case, char letter, const pair_slot *pair_slot,
                        int slot, const char *want, const char *got) {
  dtype t = pair_slot->bound.tensor.type;
  char name[300];
  snprintf(name, sizeof name, "%s (%c) slot %d", pair_case->name, letter, slot);
  size_t n = pair_slot->bytes / dtype_size(t);
  double *wanted = pair_values(t, want, n), *computed = pair_values(t, got, n);
  bool wrong = false;
  if (dtype_is_float(t)) {
    wrong = pair_compare_floats(name, t, pair_case->tolerance, wanted, computed, n);
  } else if (memcmp(want, got, pair_slot->bytes)) {
    size_t i = 0;
    while (i + 1 < n && wanted[i] == computed[i]) i++;
    print_error("%s element %zu: cpu %.9g, opencl %.9g\n", name, i, wanted[i], computed[i]);
    wrong = true;
  }
  free(wanted);
  free(computed);
  if (memcmp(got + pair_slot->bytes, pair_slot->data + pair_slot->bytes, PAIR_GUARD) == 0)
    return wrong;
  print_error("%s: written beyond the end\n", name);
  return 1;
}

static int pair_compare_faults(const pair_case *pair_case, const device_fault *cpu,
                               const device_fault *opencl) {
  if (cpu->present == opencl->present &&
      (!cpu->present ||
       (cpu->node == opencl->node && cpu->fault.kind == opencl->fault.kind &&
        cpu->fault.low == opencl->fault.low && cpu->fault.high == opencl->fault.high)))
    return 0;
  print_error("%s: cpu fault %d %lld in [%lld, %lld], opencl %d %lld in [%lld, %lld]\n",
              pair_case->name, cpu->present, (long long)cpu->fault.value, (long long)cpu->fault.low,
              (long long)cpu->fault.high, opencl->present, (long long)opencl->fault.value,
              (long long)opencl->fault.low, (long long)opencl->fault.high);
  return 1;
}

/* True if the case runs. CLAVE_TEST_ONLY selects cases by a part of their name; else
 * CLAVE_TEST_SHARE=N selects one in N, which differ by CLAVE_TEST_TURN (a commit). */
static bool pair_is_wanted(const pair_case *pair_case, char letter) {
  const char *only = getenv("CLAVE_TEST_ONLY"), *share = getenv("CLAVE_TEST_SHARE"),
             *turn = getenv("CLAVE_TEST_TURN");
  if (only) return strstr(pair_case->name, only);
  char text[512];
  snprintf(text, sizeof text, "%s %c %s", turn ? turn : "", letter, pair_case->name);
  int n = share ? atoi(share) : 1;
  return n < 2 || hash_bytes(text, strlen(text)) % (uint64_t)n == 0;
}

static struct { backend *cpu, *device; } pair;

/* Opens both devices. Returns false, and says so, if there is no OpenCL device. */
static bool pair_open(void) {
  const char *number = getenv("CLAVE_TEST_OPENCL"), *reason;
  const backend_info *infos;
  int count;
  pair_check(opencl_devices(&infos, &count, &reason), "listing devices");
  if (count == 0) {
    printf("skipped: %s\n", reason);
    return false;
  }
  opencl_options options = {.cache_dir = getenv("CLAVE_TEST_CACHE"),
                            .kernel_dir = getenv("CLAVE_KERNEL_DIR")};
  pair_check(cpu_backend_create(1, &pair.cpu), "cpu backend");
  pair_check(opencl_backend_create(number ? atoi(number) : 0, &options, &pair.device),
             "opencl backend");
  return true;
}

static void pair_close(void) {
  pair.device->vt->destroy(pair.device);
  pair.cpu->vt->destroy(pair.cpu);
}

/* Returns the number of failures of one case with T = letter. */
static int pair_test(backend *cpu, backend *device, const pair_case *pair_case, char letter) {
  if (!pair_is_wanted(pair_case, letter)) return 0;
  pair_node node;
  char *want[PAIR_MAX_SLOTS], *got[PAIR_MAX_SLOTS];
  device_fault cpu_fault, device_fault_;
  int failures = 0;
  pair_read(pair_case, letter, &node);
  pair_check_rule(pair_case, &node);
  pair_run(cpu, pair_case, &node, 1, want, &cpu_fault);
  pair_run(device, pair_case, &node, 2, got, &device_fault_);
  failures += pair_compare_faults(pair_case, &cpu_fault, &device_fault_);
  for (int i = 0; i < node.n_slots; i++) {
    if (node.slots[i].written && !cpu_fault.present)
      failures += pair_compare(pair_case, letter, &node.slots[i], i, want[i], got[i]);
    free(want[i]);
    free(got[i]);
  }
  pair_free(&node);
  return failures;
}

#endif
