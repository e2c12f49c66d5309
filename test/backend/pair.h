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
  const char *types; /* what T stands for, in turn */
  /* In units of f32's epsilon (F64: of f64's), relative to the larger of |expected| and the
   * output's root mean square: what may be lost before a result is rounded to its dtype
   * (compare.h). 0: nothing may differ. */
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

static void pair_store(dtype t, void *p, int64_t i, double v) {
  switch (t) {
    case DTYPE_F32:
      ((float *)p)[i] = (float)v;
      break;
    case DTYPE_F16:
      ((uint16_t *)p)[i] = f32_to_f16((float)v);
      break;
    case DTYPE_BF16:
      ((uint16_t *)p)[i] = f32_to_bf16((float)v);
      break;
    case DTYPE_F64:
      ((double *)p)[i] = v;
      break;
    case DTYPE_I16:
      ((int16_t *)p)[i] = (int16_t)v;
      break;
    case DTYPE_I32:
      ((int32_t *)p)[i] = (int32_t)v;
      break;
    case DTYPE_I64:
      ((int64_t *)p)[i] = (int64_t)v;
      break;
    case DTYPE_I8:
      ((int8_t *)p)[i] = (int8_t)v;
      break;
    case DTYPE_U16:
      ((uint16_t *)p)[i] = (uint16_t)(int64_t)v;
      break;
    case DTYPE_U32:
      ((uint32_t *)p)[i] = (uint32_t)(int64_t)v;
      break;
    case DTYPE_U64:
      ((uint64_t *)p)[i] = (uint64_t)(int64_t)v;
      break;
    case DTYPE_F8_E4M3:
      ((uint8_t *)p)[i] = f32_to_f8_e4m3((float)v);
      break;
    case DTYPE_F8_E5M2:
      ((uint8_t *)p)[i] = f32_to_f8_e5m2((float)v);
      break;
    default:
      ((uint8_t *)p)[i] = (uint8_t)(t == DTYPE_BOOL ? v != 0 : (int64_t)v);
      break;
  }
}

static double pair_load(dtype t, const void *p, int64_t i) {
  return element_number(t, (const char *)p + (size_t)i * dtype_size(t));
}

/* ---- reading a case */

static void pair_reverse(tensor *t) {
  int64_t stride = 1;
  for (int d = 0; d < t->rank; d++) {
    t->strides[d] = stride;
    stride *= t->dims[d];
  }
}

static void pair_gap(tensor *t) {
  int64_t stride = t->rank ? t->dims[t->rank - 1] + 3 : 1;
  for (int d = t->rank - 2; d >= 0; d--) {
    t->strides[d] = stride;
    stride *= t->dims[d];
  }
}

static const char *pair_flags(const char *c, pair_node *p, int slot) {
  tensor *t = &p->slots[slot].bound.t;
  for (; *c && *c != ';'; c++) {
    if (*c == '^') pair_reverse(t);
    if (*c == '_') pair_gap(t);
    if (*c == '+') t->offset += 5;
    if (*c == '=') t->strides[0] = 0;
    if (*c == '-') {
      t->offset += (t->dims[t->rank - 1] - 1) * t->strides[t->rank - 1];
      t->strides[t->rank - 1] *= -1;
    }
    if (strchr("nzpq<~", *c)) p->fill[slot] = *c;
    if (*c == '<' || *c == '~') p->limit[slot] = strtoll(c + 1, NULL, 10);
  }
  return *c ? c + 1 : c;
}

static const char *pair_slot_read(const char *c, pair_node *p, char letter) {
  pair_slot *s = &p->slots[p->n_slots];
  tensor *t = &s->bound.t;
  while (*c == ' ') c++;
  s->written = *c == '>' || *c == '%';
  s->copies = *c == '%';
  if (s->written) c++;
  char type = *c == 'T' ? letter : *c == 'I' ? 'l' : *c;
  t->type = (dtype)(strchr(pair_letters, type) - pair_letters);
  for (c += 2; *c != ')'; c += *c == ',') t->dims[t->rank++] = strtoll(c, (char **)&c, 10);
  tensor_set_contiguous(t);
  return pair_flags(c + 1, p, p->n_slots++);
}

static void pair_fill(pair_node *p, int slot) {
  pair_slot *s = &p->slots[slot];
  dtype t = s->bound.t.type;
  int64_t n = (int64_t)(s->bytes / dtype_size(t)), limit = p->limit[slot];
  for (int64_t i = 0; i < n; i++) {
    double v = pair_normal();
    if (t == DTYPE_BOOL)
      v = pair_random() % 4 != 0;
    else if (p->fill[slot] == 'z')
      v = (double)(pair_random() % 5) - (t == DTYPE_U8 ? 0 : 2);
    else if (p->fill[slot] == '<')
      v = (double)(pair_random() % (uint32_t)limit);
    else if (p->fill[slot] == '~')
      v = (double)(pair_random() % (uint32_t)(2 * limit)) - (double)limit;
    else if (p->fill[slot] == 'p')
      v = fabs(v) + 0.1;
    else if (p->fill[slot] == 'q')
      v = -INFINITY;
    else if (!dtype_is_float(t))
      v = (double)(pair_random() % 100);
    else if (p->fill[slot] == 'n' && pair_random() % 37 == 0)
      v = NAN;
    pair_store(t, s->data, i, v);
  }
}

/* Elements of the storage: the highest one reached, and a guard. */
static int64_t pair_extent(const tensor *t) {
  int64_t last = t->offset;
  for (int d = 0; d < t->rank; d++)
    if (t->strides[d] > 0 && t->dims[d] > 0) last += (t->dims[d] - 1) * t->strides[d];
  return last + 1;
}

static void pair_read(const pair_case *c, char letter, pair_node *p) {
  memset(p, 0, sizeof *p);
  for (const char *at = c->tensors; *at;) at = pair_slot_read(at, p, letter);
  for (int i = 0; i < p->n_slots; i++) {
    pair_slot *s = &p->slots[i];
    s->bytes = (size_t)pair_extent(&s->bound.t) * dtype_size(s->bound.t.type);
    s->data = calloc(1, s->bytes + PAIR_GUARD);
    assert_non_null(s->data);
    if (!s->written) pair_fill(p, i);
    if (s->copies) memcpy(s->data, p->slots[0].data, s->bytes);
  }
}

static void pair_free(pair_node *p) {
  for (int i = 0; i < p->n_slots; i++) free(p->slots[i].data);
}

/* ---- running */

static void pair_check(clave_status st, const char *what) {
  if (!st) return;
  print_error("%s: %s\n", what, status_message(st));
  status_free(st);
  fail();
}

/* The rule must accept the case: it is what the verifier would let through. */
static void pair_check_rule(const pair_case *c, const pair_node *p) {
  tensor types[PAIR_MAX_SLOTS];
  for (int i = 0; i < p->n_slots; i++) types[i] = p->slots[i].bound.t;
  const ir_program program = {.tensors = {.count = (uint32_t)p->n_slots}};
  const rule_context rules = {.program = &program, .tensors = types};
  pair_check(op_table[c->op].rule(&rules, c->fields), c->name);
}

/* Runs the node `times` times; results[i]: the bytes of slot i, owned by the caller (NULL unless
 * written). */
static void pair_run(backend *b, const pair_case *c, pair_node *p, int times, char **results,
                     device_fault *fault) {
  stream *s;
  bound_tensor bound[PAIR_MAX_SLOTS];
  recorded r;
  ir_instruction instruction = {.op_type = c->op, .op = (void *)c->fields, .name = c->name};
  pair_check(b->vt->stream_create(b, &s), c->name);
  for (int i = 0; i < p->n_slots; i++) {
    bound[i] = p->slots[i].bound;
    bound[i].slot = (uint32_t)i;
    pair_check(b->vt->buffer_create(b, p->slots[i].bytes + PAIR_GUARD, &bound[i].buf), c->name);
  }
  pair_check(make_recorded(b, s, (node){.instruction = &instruction, .tensors = bound}, &r),
             c->name);
  for (int t = 0; t < times; t++) {
    for (int i = 0; i < p->n_slots; i++)
      pair_check(b->vt->write(s, bound[i].buf, 0, p->slots[i].data, p->slots[i].bytes + PAIR_GUARD),
                 c->name);
    pair_check(run_recorded(&r, bound, 7), c->name);
  }
  pair_check(b->vt->finish(s, fault), c->name);
  for (int i = 0; i < p->n_slots; i++) {
    results[i] = NULL;
    if (!p->slots[i].written) continue;
    results[i] = malloc(p->slots[i].bytes + PAIR_GUARD);
    assert_non_null(results[i]);
    pair_check(b->vt->read(s, bound[i].buf, 0, results[i], p->slots[i].bytes + PAIR_GUARD),
               c->name);
  }
  free_recorded(&r);
  b->vt->stream_destroy(b, s);
  for (int i = 0; i < p->n_slots; i++) b->vt->buffer_destroy(b, bound[i].buf);
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

/* Prints what is wrong with n values of a float dtype; also where wrong ones would not be noticed.
 */
static int pair_compare_floats(const char *name, dtype t, double units, const double *want,
                               const double *got, size_t n) {
  float_format f = pair_format(t);
  tolerance allowed = pair_tolerance(units, t, want, n);
  comparison c = compare_floats(got, want, n, f, allowed);
  const char *fault = comparison_fault(&c, f, allowed);
  sabotage passes = accepted_sabotage(want, n, f, allowed);
  if (fault)
    print_error(
        "%s: %s; %zu of %zu: element %zu: cpu %.9g, opencl %.9g; errors in parts of the allowance: "
        "mean %.2g, size %.2g\n",
        name, fault, c.wrong, n, c.first, want[c.first], got[c.first], c.sum / c.n, c.size / c.n);
  if (passes < N_SABOTAGES) print_error("%s: %s would pass\n", name, sabotage_names[passes]);
  return fault || passes < N_SABOTAGES;
}

static double *pair_values(dtype t, const char *data, size_t n) {
  double *values = malloc((n + 1) * sizeof *values);
  assert_non_null(values);
  for (size_t i = 0; i < n; i++) values[i] = pair_load(t, data, (int64_t)i);
  return values;
}

static int pair_compare(const pair_case *c, char letter, const pair_slot *s, int slot,
                        const char *want, const char *got) {
  dtype t = s->bound.t.type;
  char name[300];
  snprintf(name, sizeof name, "%s (%c) slot %d", c->name, letter, slot);
  size_t n = s->bytes / dtype_size(t);
  double *a = pair_values(t, want, n), *b = pair_values(t, got, n);
  bool wrong = false;
  if (dtype_is_float(t)) {
    wrong = pair_compare_floats(name, t, c->tolerance, a, b, n);
  } else if (memcmp(want, got, s->bytes)) {
    size_t i = 0;
    while (i + 1 < n && a[i] == b[i]) i++;
    print_error("%s element %zu: cpu %.9g, opencl %.9g\n", name, i, a[i], b[i]);
    wrong = true;
  }
  free(a);
  free(b);
  if (memcmp(got + s->bytes, s->data + s->bytes, PAIR_GUARD) == 0) return wrong;
  print_error("%s: written beyond the end\n", name);
  return 1;
}

static int pair_compare_faults(const pair_case *c, const device_fault *a, const device_fault *b) {
  if (a->present == b->present &&
      (!a->present || (a->node == b->node && a->fault.kind == b->fault.kind &&
                       a->fault.low == b->fault.low && a->fault.high == b->fault.high)))
    return 0;
  print_error("%s: cpu fault %d %lld in [%lld, %lld], opencl %d %lld in [%lld, %lld]\n", c->name,
              a->present, (long long)a->fault.value, (long long)a->fault.low,
              (long long)a->fault.high, b->present, (long long)b->fault.value,
              (long long)b->fault.low, (long long)b->fault.high);
  return 1;
}

/* CLAVE_TEST_ONLY: cases with that in their name; else CLAVE_TEST_SHARE=N: one in N, others with
 * each CLAVE_TEST_TURN (a commit). */
static bool pair_is_wanted(const pair_case *c, char letter) {
  const char *only = getenv("CLAVE_TEST_ONLY"), *share = getenv("CLAVE_TEST_SHARE"),
             *turn = getenv("CLAVE_TEST_TURN");
  if (only) return strstr(c->name, only);
  char text[512];
  snprintf(text, sizeof text, "%s %c %s", turn ? turn : "", letter, c->name);
  int n = share ? atoi(share) : 1;
  return n < 2 || hash_bytes(text, strlen(text)) % (uint64_t)n == 0;
}

static struct { backend *cpu, *device; } pair;

/* Opens both; false: there is no OpenCL device, which is said. */
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
static int pair_test(backend *cpu, backend *device, const pair_case *c, char letter) {
  if (!pair_is_wanted(c, letter)) return 0;
  pair_node p;
  char *want[PAIR_MAX_SLOTS], *got[PAIR_MAX_SLOTS];
  device_fault cpu_fault, device_fault_;
  int failures = 0;
  pair_read(c, letter, &p);
  pair_check_rule(c, &p);
  pair_run(cpu, c, &p, 1, want, &cpu_fault);
  pair_run(device, c, &p, 2, got, &device_fault_);
  failures += pair_compare_faults(c, &cpu_fault, &device_fault_);
  for (int i = 0; i < p.n_slots; i++) {
    if (p.slots[i].written && !cpu_fault.present)
      failures += pair_compare(c, letter, &p.slots[i], i, want[i], got[i]);
    free(want[i]);
    free(got[i]);
  }
  pair_free(&p);
  return failures;
}

#endif
