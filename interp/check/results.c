/* Comparing the device's results with the CPU backend's. Every element must be within the bound:
 * integers and truth values equal, floats within a few last bits of their own size or of the
 * typical one (sums that cancel). Backends may round differently on the way, which a step at a
 * threshold (floor, a comparison) or one that cancels makes large. So where an element is beyond
 * the bound, the CPU backend runs again on operands whose last bits are changed: an element may be
 * as far off as that moves it. Exact ops, such as one comparison or argmax, have no such excuse:
 * both backends decide by the same bits. */
#include "interp/check/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/distance.h"
#include "base/hash.h"
#include "interp/check/operands.h"
#include "interp/host_copy.h"

/* ---------------------------------------------------------------- elements */

/* How far a float result may be off, relative to its own size and to the typical one: a multiple of
 * the dtype's precision, as errors add up in chains and sums. */
static double tolerance_of(dtype t) {
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

static dtype type_of(const result *r) { return r->view->t.type; }

static double element(dtype t, const void *data, int64_t i) {
  return element_number(t, (const char *)data + (size_t)i * dtype_size(t));
}

static bool same_bits(const result *r, int64_t i) {
  size_t size = dtype_size(type_of(r)), at = (size_t)i * size;
  return memcmp((const char *)r->got + at, (const char *)r->want + at, size) == 0;
}

/* How far rounding may move element i, twice what it was seen to do. Of sums that cancel some move
 * by little in the few tries, so at least what is usual among those that move. */
static double reach_of(const result *r, int64_t i, double usual) {
  if (!r->reach || r->reach[i] == 0) return 0;
  return 2 * fmax(r->reach[i], usual);
}

/* How many elements are beyond the bound, and one of them. */
static int64_t count_wrong(const result *r, int64_t *at) {
  dtype t = type_of(r);
  double tolerance = tolerance_of(t);
  double absolute = tolerance > 0 ? tolerance * median_magnitude(t, r->want, r->n) : 0;
  int64_t wrong = 0;
  double usual = r->reach ? median_magnitude(DTYPE_F64, r->reach, r->n) : 0;
  for (int64_t i = r->n - 1; i >= 0; i--) {
    if (same_bits(r, i)) continue;
    double got = element(t, r->got, i), want = element(t, r->want, i);
    double reach = reach_of(r, i, usual);
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

/* Whether an op's integer and truth results may depend on how floats were rounded on the way. */
static bool rounds_before(const ir_instruction *ins) {
  if (ins->op_type == IR_OP_CUSTOM) return true;
  if (ins->op_type == IR_OP_ATTENTION_CACHED) return true; /* rounds to integers for I8 caches */
  return ins->op_type == IR_OP_ELEMENTWISE && ((const ir_elementwise *)ins->op)->steps.count > 1;
}

/* Steps of the last bit that a result may be off by its operand's: what OpenCL allows a function
 * in f32 and f64; 16-bit types are computed in f32. */
static uint64_t steps_of(dtype t) { return t == DTYPE_F32 || t == DTYPE_F64 ? 16 : 2; }

/* A magnitude moved by that much, up or down. Zero, infinity and NaN stay. */
static uint64_t nudge(uint64_t bits, uint64_t sign, uint64_t infinity, uint64_t steps, bool up) {
  uint64_t size = bits & ~sign;
  if (size == 0 || size >= infinity) return bits;
  if (up) return (bits & sign) | (size + steps < infinity ? size + steps : infinity - 1);
  return (bits & sign) | (size > steps ? size - steps : 1);
}

static void nudge_all(dtype t, void *data, int64_t n, uint64_t pattern) {
  static const uint64_t infinities[] = {[DTYPE_F32] = 0x7f800000,
                                        [DTYPE_F16] = 0x7c00,
                                        [DTYPE_BF16] = 0x7f80,
                                        [DTYPE_F64] = 0x7ff0000000000000};
  size_t size = dtype_size(t);
  uint64_t sign = UINT64_C(1) << (8 * size - 1);
  for (int64_t i = 0; i < n; i++) {
    unsigned char *at = (unsigned char *)data + (size_t)i * size;
    uint64_t bits = 0, word = (uint64_t)i >> 6;
    memcpy(&bits, at, size); /* little-endian, as the file format */
    bool up = (hash_bytes(&word, sizeof word) ^ pattern) >> (i & 63) & 1;
    bits = nudge(bits, sign, infinities[t], steps_of(t), up);
    memcpy(at, &bits, size);
  }
}

static clave_status read_copy(const checking *c, const result *r, void **out) {
  const oracle *o = c->s->oracle;
  size_t bytes, size = dtype_size(r->copy->t.type);
  TRY(known_bytes(&r->copy->t, &bytes));
  *out = malloc(bytes);
  if (!*out) return status_no_memory();
  return o->cpu->vt->read(o->queue, r->copy->buf, (size_t)r->copy->t.offset * size, *out, bytes);
}

static clave_status widen_reach(const checking *c, result *r) {
  dtype t = type_of(r);
  void *moved = NULL;
  if (!r->reach) r->reach = calloc((size_t)r->n, sizeof *r->reach);
  if (!r->reach) return status_no_memory();
  clave_status st = read_copy(c, r, &moved);
  for (int64_t i = 0; i < r->n && !st; i++) {
    double by = number_distance(element(t, moved, i), element(t, r->want, i));
    if (by > r->reach[i]) r->reach[i] = by;
  }
  free(moved);
  return st;
}

static clave_status run_nudged(checking *c, const region *r, uint64_t pattern) {
  const oracle *o = c->s->oracle;
  size_t bytes = region_bytes(r);
  bool faulty;
  TRY(restore_copies(c));
  void *moved = malloc(bytes);
  if (!moved) return status_no_memory();
  memcpy(moved, r->host, bytes);
  nudge_all(r->type, moved, (int64_t)(bytes / dtype_size(r->type)), pattern);
  clave_status st = o->cpu->vt->write(o->queue, r->copy, 0, moved, bytes);
  free(moved);
  if (!st) st = run_oracle(c, &faulty);
  for (int i = 0; i < c->n_results && !st; i++) st = widen_reach(c, &c->results[i]);
  return st;
}

/* One operand at a time, by a pattern of ups and downs and by its opposite. */
static clave_status measure_reach(checking *c) {
  for (uint32_t i = 0; i < c->n_regions; i++) {
    const region *r = &c->regions[i];
    if (!r->host || !dtype_is_float(r->type)) continue;
    TRY(run_nudged(c, r, 0));
    TRY(run_nudged(c, r, UINT64_MAX));
  }
  return NULL;
}

/* ---------------------------------------------------------------- results */

static clave_status read_result(checking *c, uint32_t tid) {
  const bound_tensor *t = &c->view[tid];
  if (tensor_numel(&t->t) == 0 || c->n_results == MAX_RESULTS) return NULL;
  result *r = &c->results[c->n_results++];
  *r = (result){.view = t, .copy = &c->copy[tid], .n = tensor_numel(&t->t)};
  size_t bytes, size = dtype_size(t->t.type);
  TRY(known_bytes(&t->t, &bytes));
  r->got = malloc((size_t)r->n * dtype_size(type_of(r)));
  if (!r->got) return status_no_memory();
  TRY(c->s->devices.backends[c->backend]->vt->read(c->s->streams[c->backend], t->buf,
                                                   t->buffer_offset + (size_t)t->t.offset * size,
                                                   r->got, bytes));
  return read_copy(c, r, &r->want);
}

static void describe(checking *c, const result *r, int64_t wrong, int64_t at) {
  dtype t = type_of(r);
  text_printf(&c->verdict, "%lld of %lld elements differ, such as %g for %g", (long long)wrong,
              (long long)r->n, element(t, r->got, at), element(t, r->want, at));
}

clave_status compare_results(checking *c) {
  for (operand_iter i = operands_of(c->nd->instruction); next_operand(&i);)
    if (i.o.flags & IR_OUT) TRY(read_result(c, i.o.tid));
  int64_t at = 0, wrong = 0;
  bool measured = false;
  for (int i = 0; i < c->n_results && !wrong; i++) {
    result *r = &c->results[i];
    wrong = count_wrong(r, &at);
    bool excusable = dtype_is_float(type_of(r)) || rounds_before(c->nd->instruction);
    if (wrong && excusable) {
      if (!measured) TRY(measure_reach(c));
      measured = true;
      wrong = count_wrong(r, &at);
    }
    if (wrong) describe(c, r, wrong, at);
  }
  return c->verdict.failed ? status_no_memory() : NULL;
}

void free_results(checking *c) {
  for (int i = 0; i < c->n_results; i++) {
    free(c->results[i].got);
    free(c->results[i].want);
    free(c->results[i].reach);
  }
  text_free(&c->verdict);
}
