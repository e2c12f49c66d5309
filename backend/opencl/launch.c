/* The one way to a kernel: finds (or requests) it by the key of the launch, binds the arguments by
 * the kernel's signature, enqueues. The steady state is a walk over the node's few kernels: no
 * hashing, no text, no allocation. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"

/* Beyond this many elements int indices could overflow when a kernel rounds up to its tile. */
static const int64_t max_narrow = INT32_MAX - (1 << 20);

/* ---------------------------------------------------------------- collecting */

void launch_begin(launch *l, cl_stream *s, const node *n, const char *stem, const char *kernel) {
  l->s = s;
  l->n = n;
  l->stem = stem;
  l->kernel = kernel;
  l->n_macros = l->n_values = 0;
  l->wide = l->overflow = false;
  l->generate = NULL;
  l->generate_ctx = NULL;
}

static void add_macro(launch *l, const char *name, define_kind kind, int value) {
  if (l->n_macros == MAX_LAUNCH_DEFINES) {
    l->overflow = true;
    return;
  }
  l->macros[l->n_macros++] = (launch_macro){.name = name, .kind = (int32_t)kind, .value = value};
}

void launch_dtype(launch *l, const char *name, dtype t) {
  add_macro(l, name, DEFINE_DTYPE, (int)t);
}
void launch_define(launch *l, const char *name, int value) {
  add_macro(l, name, DEFINE_INT, value);
}
static const char compute_name[] = "COMPUTE";
static const char wide_name[] = "WIDE";
void launch_compute(launch *l, dtype t) {
  dtype compute = t == DTYPE_F64 ? DTYPE_F64 : dtype_is_float(t) ? DTYPE_F32 : DTYPE_I64;
  add_macro(l, compute_name, DEFINE_DTYPE, (int)compute);
}
void launch_generated(launch *l, launch_generator generate, const void *ctx) {
  l->generate = generate;
  l->generate_ctx = ctx;
}

static launch_value *add_value(launch *l, value_kind kind) {
  static launch_value nowhere;
  if (l->n_values == MAX_LAUNCH_ARGS) {
    l->overflow = true;
    return &nowhere;
  }
  launch_value *v = &l->values[l->n_values++];
  v->kind = kind;
  return v;
}

void launch_int(launch *l, int64_t value) { add_value(l, VALUE_INT)->as.i = value; }
void launch_float(launch *l, double value) { add_value(l, VALUE_FLOAT)->as.f = value; }
void launch_local(launch *l, size_t bytes) { add_value(l, VALUE_LOCAL)->as.bytes = bytes; }
void launch_index8(launch *l, const int64_t values[8]) {
  memcpy(add_value(l, VALUE_INDEX8)->as.i8, values, sizeof(int64_t) * 8);
}
void launch_wide(launch *l) { l->wide = true; }

void launch_memory(launch *l, cl_mem memory, int64_t offset) {
  add_value(l, VALUE_MEMORY)->as.memory = memory;
  launch_int(l, offset);
}

void launch_absent(launch *l) { launch_memory(l, l->s->fault, 0); }

/* Whether an index into the tensor, or its count of elements, may not fit an int. */
static bool needs_wide(const tensor *t) {
  int64_t count = 1, extent = 0;
  for (int i = 0; i < t->rank; i++) {
    count *= t->dims[i];
    extent += (t->dims[i] - 1) * (t->strides[i] < 0 ? -t->strides[i] : t->strides[i]);
  }
  return count > max_narrow || extent > max_narrow;
}

void launch_buffer(launch *l, const bound_tensor *t) {
  if (stream_traits(l->s)->always_wide || needs_wide(&t->t)) l->wide = true;
  cl_mem memory = t->buf ? ((const cl_buffer *)t->buf)->memory : NULL;
  launch_memory(l, memory, (int64_t)(t->buffer_offset / dtype_size(t->t.type)) + t->t.offset);
}

void launch_dims(launch *l, const tensor *t) {
  int64_t v[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < t->rank; i++) v[i] = t->dims[t->rank - 1 - i];
  launch_index8(l, v);
}

void launch_strides(launch *l, const tensor *t) {
  int64_t v[8] = {0};
  for (int i = 0; i < t->rank; i++) v[i] = t->strides[t->rank - 1 - i];
  launch_index8(l, v);
}

/* ---------------------------------------------------------------- finding the kernel */

static dtype compute_of(const launch *l) {
  for (int i = 0; i < l->n_macros; i++)
    if (l->macros[i].name == compute_name) return (dtype)l->macros[i].value;
  return DTYPE_F32;
}

static bool same_key(const node_kernel *k, const launch *l) {
  if (k->stem != l->stem || k->kernel != l->kernel || k->n_macros != l->n_macros) return false;
  for (int i = 0; i < l->n_macros; i++) {
    const launch_macro *a = &k->macros[i], *b = &l->macros[i];
    if (a->name != b->name || a->value != b->value || a->kind != b->kind) return false;
  }
  return true;
}

clave_status node_cache_of(cl_stream *s, const node *n, node_cache **out) {
  *out = *n->cache;
  if (*out) return NULL;
  node_cache *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->next = s->caches;
  s->caches = c;
  *n->cache = *out = c;
  return NULL;
}

static clave_status new_kernel(const launch *l, node_cache *cache, node_kernel **out) {
  program *p;
  TRY(program_find(l->s->device, l, &p));
  const kernel_signature *signature = program_signature(p);
  if (!signature) return INVALID("there is no kernel %s in %s.cl", l->kernel, l->stem);
  node_kernel *k = calloc(1, sizeof *k);
  if (!k) return status_no_memory();
  k->stem = l->stem;
  k->kernel = l->kernel;
  k->n_macros = l->n_macros;
  memcpy(k->macros, l->macros, sizeof *l->macros * (size_t)l->n_macros);
  k->program = p;
  k->signature = signature;
  k->compute = compute_of(l);
  k->next = cache->kernels;
  cache->kernels = k;
  *out = k;
  return NULL;
}

static clave_status find_kernel(launch *l, node_kernel **out) {
  node_cache *cache;
  TRY(node_cache_of(l->s, l->n, &cache));
  for (*out = cache->kernels; *out; *out = (*out)->next)
    if (same_key(*out, l)) return NULL;
  return new_kernel(l, cache, out);
}

/* ---------------------------------------------------------------- binding */

static const char *const arg_kind_names[] = {[ARG_BUFFER] = "a buffer",
                                             [ARG_LOCAL] = "local memory",
                                             [ARG_INT] = "int",
                                             [ARG_UINT] = "uint",
                                             [ARG_LONG] = "long",
                                             [ARG_ULONG] = "ulong",
                                             [ARG_FLOAT] = "float",
                                             [ARG_DOUBLE] = "double",
                                             [ARG_REAL] = "real",
                                             [ARG_INDEX] = "index_t",
                                             [ARG_INDEX8] = "index8",
                                             [ARG_FAULT] = "the error record",
                                             [ARG_FAULT_NODE] = "the node's number"};
static const char *const value_kind_names[] = {[VALUE_MEMORY] = "a buffer",
                                               [VALUE_INT] = "an integer",
                                               [VALUE_FLOAT] = "a float",
                                               [VALUE_INDEX8] = "eight indices",
                                               [VALUE_LOCAL] = "local memory"};

/* An argument as clSetKernelArg takes it. */
typedef struct raw_arg {
  union {
    cl_mem memory;
    int32_t i;
    int64_t l;
    float f;
    double d;
    int32_t i8[8];
    int64_t l8[8];
  } as;
  size_t size;
  const void *data; /* NULL: local memory */
} raw_arg;

static bool raw_int(raw_arg *r, int64_t v) {
  r->as.i = (int32_t)v;
  r->size = sizeof r->as.i;
  return v >= INT32_MIN && v <= INT32_MAX;
}
static bool raw_uint(raw_arg *r, int64_t v) {
  r->as.i = (int32_t)(uint32_t)v;
  r->size = sizeof r->as.i;
  return v >= 0 && v <= UINT32_MAX;
}
static bool raw_long(raw_arg *r, int64_t v) {
  r->as.l = v;
  r->size = sizeof r->as.l;
  return true;
}
static bool raw_float(raw_arg *r, double v) {
  r->as.f = (float)v;
  r->size = sizeof r->as.f;
  return true;
}
static bool raw_double(raw_arg *r, double v) {
  r->as.d = v;
  r->size = sizeof r->as.d;
  return true;
}

static bool raw_index8(raw_arg *r, const int64_t v[8], bool wide) {
  if (wide) {
    memcpy(r->as.l8, v, sizeof r->as.l8);
    r->size = sizeof r->as.l8;
    return true;
  }
  r->size = sizeof r->as.i8;
  bool fits = true;
  for (int i = 0; i < 8; i++) {
    r->as.i8[i] = (int32_t)v[i];
    fits = fits && v[i] >= INT32_MIN && v[i] <= INT32_MAX;
  }
  return fits;
}

/* real: what COMPUTE says. An integer may stand for a float of any kind, a float for a long real
 * (exact ones only). */
static bool raw_real(raw_arg *r, const launch_value *v, dtype compute) {
  bool is_int = v->kind == VALUE_INT;
  if (compute == DTYPE_I64) return raw_long(r, is_int ? v->as.i : (int64_t)v->as.f);
  double d = is_int ? (double)v->as.i : v->as.f;
  return compute == DTYPE_F64 ? raw_double(r, d) : raw_float(r, d);
}

static bool raw_number(raw_arg *r, const launch_value *v, arg_kind kind, const launch *l,
                       dtype compute) {
  if (kind == ARG_REAL) return raw_real(r, v, compute);
  if (kind == ARG_FLOAT || kind == ARG_DOUBLE) {
    double d = v->kind == VALUE_INT ? (double)v->as.i : v->as.f;
    return kind == ARG_FLOAT ? raw_float(r, d) : raw_double(r, d);
  }
  if (v->kind != VALUE_INT) return false;
  if (kind == ARG_INT || (kind == ARG_INDEX && !l->wide)) return raw_int(r, v->as.i);
  return kind == ARG_UINT ? raw_uint(r, v->as.i) : raw_long(r, v->as.i);
}

/* False: the value does not fit the parameter. */
static bool make_raw(raw_arg *r, const launch_value *v, arg_kind kind, const launch *l,
                     dtype compute) {
  r->data = &r->as;
  switch (v->kind) {
    case VALUE_MEMORY:
      r->as.memory = v->as.memory;
      r->size = sizeof r->as.memory;
      return kind == ARG_BUFFER;
    case VALUE_LOCAL:
      r->data = NULL;
      r->size = v->as.bytes;
      return kind == ARG_LOCAL;
    case VALUE_INDEX8:
      return kind == ARG_INDEX8 && raw_index8(r, v->as.i8, l->wide);
    default:
      return kind >= ARG_INT && kind <= ARG_INDEX && raw_number(r, v, kind, l, compute);
  }
}

static clave_status set_arg(const launch *l, const node_kernel *k, int i, size_t size,
                            const void *data) {
  cl_int code = l->s->cl->clSetKernelArg(k->handle, (cl_uint)i, size, data);
  if (code == CL_SUCCESS) return NULL;
  return status_while(opencl_status(code, "clSetKernelArg"), "kernel %s argument %d (%s)",
                      l->kernel, i, k->signature->args[i].name);
}

static clave_status bind_fault(const launch *l, const node_kernel *k, int i, arg_kind kind) {
  cl_stream *s = l->s;
  if (kind == ARG_FAULT_NODE) return set_arg(l, k, i, sizeof s->number, &s->number);
  s->fault_armed = true;
  return set_arg(l, k, i, sizeof s->fault, &s->fault);
}

static clave_status wrong_arg(const launch *l, const arg_info *arg, int i, const launch_value *v) {
  if (v->kind == VALUE_INT)
    return INVALID("kernel %s argument %d (%s) is %s, got %lld", l->kernel, i, arg->name,
                   arg_kind_names[arg->kind], (long long)v->as.i);
  return INVALID("kernel %s argument %d (%s) is %s, got %s", l->kernel, i, arg->name,
                 arg_kind_names[arg->kind], value_kind_names[v->kind]);
}

static int expected_values(const kernel_signature *g) {
  int n = g->n_args;
  while (n > 0 && (g->args[n - 1].kind == ARG_FAULT || g->args[n - 1].kind == ARG_FAULT_NODE)) n--;
  return n;
}

static clave_status check_args(const launch *l, const node_kernel *k) {
  const kernel_signature *g = k->signature;
  int n = expected_values(g);
  if (l->n_values < n)
    return INVALID("kernel %s argument %d (%s) is missing", l->kernel, l->n_values,
                   g->args[l->n_values].name);
  if (l->n_values > n)
    return INVALID("kernel %s takes %d arguments, got %d", l->kernel, n, l->n_values);
  for (int i = 0; i < n; i++) {
    raw_arg r;
    if (!make_raw(&r, &l->values[i], g->args[i].kind, l, k->compute))
      return wrong_arg(l, &g->args[i], i, &l->values[i]);
  }
  return NULL;
}

static clave_status bind_args(const launch *l, const node_kernel *k) {
  const kernel_signature *g = k->signature;
  for (int i = 0; i < l->n_values; i++) {
    raw_arg r;
    make_raw(&r, &l->values[i], g->args[i].kind, l, k->compute);
    TRY(set_arg(l, k, i, r.size, r.data));
  }
  for (int i = l->n_values; i < g->n_args; i++) TRY(bind_fault(l, k, i, g->args[i].kind));
  return NULL;
}

/* ---------------------------------------------------------------- running */

static clave_status enqueue(const launch *l, node_kernel *k, int dims, const size_t *global,
                            const size_t *local) {
  cl_stream *s = l->s;
  clave_status st;
  cl_event *event = stream_event(s, &st);
  if (st) return st;
  cl_int code = s->cl->clEnqueueNDRangeKernel(s->queue, k->handle, (cl_uint)dims, NULL, global,
                                              local, 0, NULL, event);
  if (code != CL_SUCCESS)
    return status_while(opencl_status(code, "clEnqueueNDRangeKernel"), "kernel %s", l->kernel);
  if (event) s->n_events++;
  if (memcmp(k->local, local, sizeof k->local) != 0) {
    memcpy(k->local, local, sizeof k->local);
    if (program_mark_run(k->program, local)) s->unsaved = true;
  }
  return NULL;
}

/* No kernel for CPUs depends on the size of its groups: smaller ones do where the device has no
 * larger. */
static void shrink_group(const device_traits *t, size_t group[3]) {
  enum { SMALL = 16 };
  if (!t->is_cpu || group[0] * group[1] * group[2] <= t->max_local) return;
  group[0] = group[0] > SMALL && t->max_local >= SMALL ? SMALL : 1;
  group[1] = group[2] = 1;
}

clave_status launch_run(launch *l, int dims, const size_t *global, const size_t *local) {
  if (l->wide) add_macro(l, wide_name, DEFINE_INT, 1);
  if (l->overflow)
    return INVALID("kernel %s: more than %d macros or %d arguments", l->kernel, MAX_LAUNCH_DEFINES,
                   MAX_LAUNCH_ARGS);
  size_t rounded[3] = {1, 1, 1}, group[3] = {1, 1, 1};
  memcpy(group, local, sizeof *group * (size_t)dims);
  shrink_group(stream_traits(l->s), group);
  for (int i = 0; i < dims; i++) {
    if (global[i] == 0) return NULL;
    rounded[i] = (global[i] + group[i] - 1) / group[i] * group[i];
  }
  node_kernel *k;
  TRY(find_kernel(l, &k));
  TRY(check_args(l, k));
  if (l->s->visit == VISIT_BUILD) return stream_visit(l->s, k->program, 0);
  if (l->s->visit != VISIT_RUN)
    return stream_visit(l->s, k->program, launch_class(l, k->signature, rounded, group));
  if (!k->handle) TRY(program_kernel(l->s->device, k->program, &k->handle));
  TRY(bind_args(l, k));
  return enqueue(l, k, dims, rounded, group);
}

clave_status launch_items(launch *l, int64_t n) {
  size_t global = n > 0 ? (size_t)n : 0, local = LOCAL_SIZE;
  return launch_run(l, 1, &global, &local);
}

clave_status launch_groups(launch *l, int64_t groups, size_t local) {
  size_t global = groups > 0 ? (size_t)groups * local : 0;
  return launch_run(l, 1, &global, &local);
}
