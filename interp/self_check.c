/* Comparing a node's results with the CPU backend's: the bytes of its operands are copied before it
 * runs, the CPU backend runs it on the copies, and both results are read and compared. The bound is
 * loose: it must pass every way of rounding and summing, and fail wrong code. */
#include "interp/self_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp/scalar.h"

/* Nodes with more bytes than this are taken to be right: smaller ones have mostly proven their
 * kernels. */
#define CHECK_LIMIT_BYTES ((size_t)256 << 20)

static const char distrust_reason[] = "its kernels gave wrong numbers on this device";

/* The CPU backend of a session that needs one for checks only. */
struct oracle {
  backend *owner; /* owned; NULL: borrowed from the session */
  backend *cpu;
  stream *queue; /* owned */
};

void oracle_destroy(oracle *o) {
  if (!o) return;
  if (o->queue) o->cpu->vt->stream_destroy(o->cpu, o->queue);
  if (o->owner) o->owner->vt->destroy(o->owner);
  free(o);
}

/* The index of the session's own CPU backend, or -1. */
static int cpu_of(const session *s) {
  for (int b = 0; b < s->devices.count; b++)
    if (strcmp(s->devices.backends[b]->info.kind, "cpu") == 0) return b;
  return -1;
}

static clave_status oracle_of(session *s) {
  if (s->oracle) return NULL;
  oracle *o = s->oracle = calloc(1, sizeof *o);
  if (!o) return status_no_memory();
  int own = cpu_of(s);
  if (own < 0) TRY(cpu_backend_create(0, &o->owner));
  o->cpu = own < 0 ? o->owner : s->devices.backends[own];
  return o->cpu->vt->stream_create(o->cpu, &o->queue);
}

/* ---------------------------------------------------------------- copies of the operands */

/* A stretch of a device buffer that operands lie in, and its copy. */
typedef struct region {
  const bound_tensor *first; /* of the operands here: says which buffer, and where it begins */
  int64_t low, high;         /* bytes from there, high excluded */
  buffer *copy;              /* owned */
} region;

typedef struct checking {
  session *s;
  int backend;
  const node *nd;
  bound_tensor *bound; /* owned (n_slots + 2): the operands' copies */
  region *regions;     /* owned */
  uint32_t n_regions, cap_regions;
  double scale; /* the largest magnitude of a float operand */
  text verdict; /* what differs; empty: nothing */
  clave_status st;
} checking;

/* The bytes that a tensor's elements span, from the start of its buffer's stretch. */
static void find_extent(const tensor *t, int64_t *low, int64_t *high) {
  int64_t first = t->offset, last = t->offset;
  for (int i = 0; i < t->rank; i++) {
    int64_t reach = (t->dims[i] - 1) * t->strides[i];
    if (reach < 0) first += reach;
    if (reach > 0) last += reach;
  }
  int64_t size = (int64_t)dtype_size(t->type);
  *low = first * size;
  *high = (last + 1) * size;
}

static region *region_of(const checking *c, const bound_tensor *t) {
  for (uint32_t i = 0; i < c->n_regions; i++)
    if (c->regions[i].first->buf == t->buf &&
        c->regions[i].first->buffer_offset == t->buffer_offset)
      return &c->regions[i];
  return NULL;
}

static bool collect(void *ctx, const operand *o) {
  checking *c = ctx;
  const bound_tensor *t = &c->nd->tensors[o->tid];
  if (tensor_numel(&t->t) == 0) return true;
  int64_t low, high;
  find_extent(&t->t, &low, &high);
  region *r = region_of(c, t);
  if (!r) {
    c->st = grow_array((void **)&c->regions, &c->cap_regions, c->n_regions, sizeof *r);
    if (c->st) return false;
    r = &c->regions[c->n_regions++];
    *r = (region){.first = t, .low = low, .high = high};
  }
  if (low < r->low) r->low = low;
  if (high > r->high) r->high = high;
  return true;
}

static clave_status copy_region(checking *c, region *r) {
  size_t n = (size_t)(r->high - r->low);
  backend *cpu = c->s->oracle->cpu;
  TRY(cpu->vt->buffer_create(cpu, n, &r->copy));
  void *host = malloc(n);
  if (!host) return status_no_memory();
  clave_status st = c->s->devices.backends[c->backend]->vt->read(
      c->s->streams[c->backend], r->first->buf, r->first->buffer_offset + (size_t)r->low, host, n);
  if (!st) st = cpu->vt->write(c->s->oracle->queue, r->copy, 0, host, n);
  free(host);
  return st;
}

static bool bind_copy(void *ctx, const operand *o) {
  checking *c = ctx;
  const bound_tensor *t = &c->nd->tensors[o->tid];
  bound_tensor *copy = &c->bound[o->tid];
  *copy = *t;
  copy->buffer_offset = 0;
  const region *r = region_of(c, t);
  if (!r || tensor_numel(&t->t) == 0) return true;
  copy->buf = r->copy;
  copy->t.offset -= r->low / (int64_t)dtype_size(t->t.type);
  return true;
}

/* *enough: false if there is too much to copy. */
static clave_status copy_operands(checking *c, bool *enough) {
  const ir_instruction *ins = c->nd->instruction;
  for_each_operand(ins, collect, c);
  if (c->st) return c->st;
  size_t bytes = 0;
  for (uint32_t i = 0; i < c->n_regions; i++)
    bytes += (size_t)(c->regions[i].high - c->regions[i].low);
  *enough = bytes <= CHECK_LIMIT_BYTES;
  if (!*enough) return NULL;
  c->bound = calloc((size_t)slot_count(c->s) + 2, sizeof *c->bound);
  if (!c->bound) return status_no_memory();
  TRY(oracle_of(c->s));
  for (uint32_t i = 0; i < c->n_regions; i++) TRY(copy_region(c, &c->regions[i]));
  for_each_operand(ins, bind_copy, c);
  return NULL;
}

static void end_check(checking *c) {
  for (uint32_t i = 0; i < c->n_regions; i++)
    if (c->regions[i].copy)
      c->s->oracle->cpu->vt->buffer_destroy(c->s->oracle->cpu, c->regions[i].copy);
  free(c->regions);
  free(c->bound);
  text_free(&c->verdict);
}

/* ---------------------------------------------------------------- comparing */

/* How far a float result may be off, relative to its tensor's size: a wide multiple of the dtype's
 * precision, as a sum's error grows with its length. */
static double tolerance_of(dtype t) {
  switch (t) {
    case DTYPE_F64:
      return 1e-9;
    case DTYPE_F32:
      return 1e-3;
    case DTYPE_F16:
      return 1e-2;
    case DTYPE_BF16:
      return 6e-2;
    default:
      return 0;
  }
}

static double element(dtype t, const void *data, int64_t i) {
  scalar_value v;
  const unsigned char *at = (const unsigned char *)data + (size_t)i * dtype_size(t);
  if (t == DTYPE_F16) return f16_to_f32(((const uint16_t *)data)[i]);
  if (t == DTYPE_BF16) return bf16_to_f32(((const uint16_t *)data)[i]);
  if (t == DTYPE_F32) return ((const float *)data)[i];
  if (t == DTYPE_F64) return ((const double *)data)[i];
  status_free(scalar_from_bytes(t, at, IR_VALUE_TYPE_INT, &v));
  return (double)v.i;
}

static double root_mean_square(dtype t, const void *data, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = element(t, data, i);
    if (isfinite(v) && fabs(v) < 1e30) sum += v * v;
  }
  return n ? sqrt(sum / (double)n) : 0;
}

static bool is_close(double a, double b, double tolerance, double floor_) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b)) return a == b;
  return fabs(a - b) <= tolerance * fabs(b) + floor_;
}

/* A step at a threshold (floor, comparison, argmax) turns a difference in the last bit into a whole
 * one: one element of 64 may. */
static void compare(checking *c, const tensor *t, const void *got, const void *want) {
  int64_t n = tensor_numel(t), wrong = 0, at = 0;
  double tolerance = tolerance_of(t->type);
  double floor_ = tolerance * (root_mean_square(t->type, want, n) + c->scale * 0x1p-6);
  for (int64_t i = n - 1; i >= 0; i--) {
    if (is_close(element(t->type, got, i), element(t->type, want, i), tolerance, floor_)) continue;
    wrong++;
    at = i;
  }
  if (wrong <= n / 64) return;
  text_printf(&c->verdict, "%lld of %lld elements differ, such as %g for %g", (long long)wrong,
              (long long)n, element(t->type, got, at), element(t->type, want, at));
}

static clave_status read_both(checking *c, uint32_t tid, void **got, void **want) {
  const bound_tensor *t = &c->nd->tensors[tid], *copy = &c->bound[tid];
  size_t bytes, size = dtype_size(t->t.type);
  TRY(known_bytes(&t->t, &bytes));
  *got = malloc(bytes);
  *want = malloc(bytes);
  if (!*got || !*want) return status_no_memory();
  const backend_vtable *vt = c->s->devices.backends[c->backend]->vt;
  TRY(vt->read(c->s->streams[c->backend], t->buf, t->buffer_offset + (size_t)t->t.offset * size,
               *got, bytes));
  return c->s->oracle->cpu->vt->read(c->s->oracle->queue, copy->buf, (size_t)copy->t.offset * size,
                                     *want, bytes);
}

static bool compare_result(void *ctx, const operand *o) {
  checking *c = ctx;
  const tensor *t = &c->nd->tensors[o->tid].t;
  if (!(o->flags & IR_OUT) || tensor_numel(t) == 0) return true;
  void *got = NULL, *want = NULL;
  c->st = read_both(c, o->tid, &got, &want);
  if (!c->st && !c->verdict.size) compare(c, t, got, want);
  free(got);
  free(want);
  return c->st == NULL;
}

static bool measure_operand(void *ctx, const operand *o) {
  checking *c = ctx;
  const bound_tensor *t = &c->bound[o->tid];
  if ((o->flags & IR_OUT) || !dtype_is_float(t->t.type) || tensor_numel(&t->t) == 0) return true;
  const region *r = region_of(c, &c->nd->tensors[o->tid]);
  int64_t n = (r->high - r->low) / (int64_t)dtype_size(t->t.type);
  void *data = malloc((size_t)(r->high - r->low));
  if (!data) {
    c->st = status_no_memory();
    return false;
  }
  c->st =
      c->s->oracle->cpu->vt->read(c->s->oracle->queue, t->buf, 0, data, (size_t)(r->high - r->low));
  double size = c->st ? 0 : root_mean_square(t->t.type, data, n);
  if (size > c->scale) c->scale = size;
  free(data);
  return c->st == NULL;
}

/* ---------------------------------------------------------------- the check */

/* The CPU backend's results in place of the device's. */
static bool correct_result(void *ctx, const operand *o) {
  checking *c = ctx;
  const bound_tensor *t = &c->nd->tensors[o->tid];
  if (!(o->flags & IR_OUT) || tensor_numel(&t->t) == 0) return true;
  void *got = NULL, *want = NULL;
  size_t bytes;
  c->st = read_both(c, o->tid, &got, &want);
  if (!c->st) c->st = known_bytes(&t->t, &bytes);
  if (!c->st)
    c->st = c->s->devices.backends[c->backend]->vt->write(
        c->s->streams[c->backend], t->buf,
        t->buffer_offset + (size_t)t->t.offset * dtype_size(t->t.type), want, bytes);
  free(got);
  free(want);
  return c->st == NULL;
}

static clave_status distrust(checking *c, method *m, uint32_t instruction) {
  session *s = c->s;
  const char *op = op_table[c->nd->instruction->op_type].name;
  const char *device = s->devices.backends[c->backend]->info.name;
  if (cpu_of(s) < 0 || instruction >= m->n || m->where[instruction] != c->backend)
    return status_new(STATUS_DEVICE, "the kernels of %s give wrong numbers on %s: %s", op, device,
                      c->verdict.data);
  for_each_operand(c->nd->instruction, correct_result, c);
  if (c->st) return c->st;
  m->distrusted[instruction] = m->has_distrusted = true;
  text note = {0};
  text_printf(&note, "%s gives wrong numbers on %s (%s); it runs on the CPU backend", op, device,
              c->verdict.data);
  if (s->options.message && note.data) s->options.message(s->options.message_ctx, note.data);
  text_free(&note);
  return NULL;
}

/* Runs the node on both. *sure: there is a verdict. */
static clave_status run_both(checking *c, uint32_t number, bool *sure) {
  stream *queue = c->s->oracle->queue;
  void *cache = NULL;
  device_fault fault = {0};
  node copy = *c->nd;
  copy.tensors = c->bound;
  copy.cache = &cache;
  *sure = false;
  for_each_operand(c->nd->instruction, measure_operand, c);
  if (c->st) return c->st;
  TRY(c->s->devices.backends[c->backend]->vt->run(c->s->streams[c->backend], c->nd, number));
  TRY(c->s->oracle->cpu->vt->run(queue, &copy, number));
  TRY(c->s->oracle->cpu->vt->finish(queue, &fault));
  if (fault.present) return NULL; /* bad indices: the device reports them too */
  for_each_operand(c->nd->instruction, compare_result, c);
  *sure = c->st == NULL;
  return c->st;
}

static clave_status check_node(checking *c, method *m, uint32_t number, step *st) {
  const backend_vtable *vt = c->s->devices.backends[c->backend]->vt;
  stream *queue = c->s->streams[c->backend];
  bool enough, sure;
  TRY(copy_operands(c, &enough));
  if (!enough) {
    TRY(vt->prove(queue, c->nd));
    return vt->run(queue, c->nd, number);
  }
  TRY(run_both(c, number, &sure));
  if (!sure) return NULL;
  st->settled = true;
  if (c->verdict.failed) return status_no_memory();
  if (c->verdict.size) return distrust(c, m, st->instruction);
  return vt->prove(queue, c->nd);
}

clave_status run_node(session *s, method *m, step *st, uint32_t number, const node *nd) {
  const backend_vtable *vt = s->devices.backends[st->backend]->vt;
  stream *queue = s->streams[st->backend];
  if (!st->settled) {
    bool unproven = false;
    if (!s->options.unchecked && vt->is_unproven) TRY(vt->is_unproven(queue, nd, &unproven));
    st->settled = !unproven;
  }
  if (st->settled) return vt->run(queue, nd, number);
  checking c = {.s = s, .backend = st->backend, .nd = nd};
  clave_status status = check_node(&c, m, number, st);
  end_check(&c);
  return status;
}

void replace_distrusted(session *s, method *m) {
  if (!m->has_distrusted) return;
  m->has_distrusted = false;
  for (uint32_t i = 0; i < m->n; i++) {
    if (!m->distrusted[i]) continue;
    m->where[i] = (uint8_t)cpu_of(s);
    m->reason[i] = distrust_reason;
  }
  for (size_t i = 0; i < sizeof m->plans / sizeof m->plans[0]; i++) {
    plan_destroy(m->plans[i]);
    m->plans[i] = NULL;
  }
}
