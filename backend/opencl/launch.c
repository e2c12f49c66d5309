/* The one way to a kernel: collects what a launch needs, finds the program by its key, checks the
 * arguments by the kernel's signature, and records it (submit.c runs what was recorded). */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"

/* Beyond this many elements int indices could overflow when a kernel rounds up to its tile. */
static const int64_t max_narrow = INT32_MAX - (1 << 20);

/* ---------------------------------------------------------------- collecting */

void launch_begin(launch *l, cl_recorder *s, const node *n, const char *stem, const char *kernel) {
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

void launch_seed(launch *l) { add_value(l, VALUE_SEED); }
void launch_random_run(launch *l) { add_value(l, VALUE_RUN); }

void launch_scratch(launch *l, int64_t offset) {
  add_value(l, VALUE_SCRATCH);
  launch_int(l, offset);
}

void launch_absent(launch *l) {
  add_value(l, VALUE_ABSENT);
  launch_int(l, 0);
}

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
  if (recorder_traits(l->s)->always_wide || needs_wide(&t->t)) l->wide = true;
  launch_value *v = add_value(l, VALUE_OPERAND);
  v->as.operand.slot = t->slot;
  v->as.operand.type = t->t.type;
  launch_int(l, t->t.offset);
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

/* ---------------------------------------------------------------- finding the program */

/* A program that an instruction uses, found by the key of the launch: no text is made again. */
typedef struct known_program {
  struct known_program *next;
  const char *stem, *kernel;
  int n_macros;
  launch_macro macros[MAX_LAUNCH_DEFINES + 1];
  bool fast;
  kernel_program *program;
} known_program;

static dtype compute_of(const launch *l) {
  for (int i = 0; i < l->n_macros; i++)
    if (l->macros[i].name == compute_name) return (dtype)l->macros[i].value;
  return DTYPE_F32;
}

static bool same_key(const known_program *k, const launch *l) {
  if (k->stem != l->stem || k->kernel != l->kernel || k->n_macros != l->n_macros ||
      k->fast != l->s->fast)
    return false;
  for (int i = 0; i < l->n_macros; i++) {
    const launch_macro *a = &k->macros[i], *b = &l->macros[i];
    if (a->name != b->name || a->value != b->value || a->kind != b->kind) return false;
  }
  return true;
}

static clave_status find_program(const launch *l, kernel_program **out) {
  known_program *k = *l->n->cache;
  while (k && !same_key(k, l)) k = k->next;
  if (!k) {
    kernel_program *p;
    TRY(program_find(l->s->device, l, &p));
    k = calloc(1, sizeof *k);
    if (!k) return status_no_memory();
    *k = (known_program){.next = *l->n->cache,
                         .stem = l->stem,
                         .kernel = l->kernel,
                         .n_macros = l->n_macros,
                         .fast = l->s->fast,
                         .program = p};
    memcpy(k->macros, l->macros, sizeof *l->macros * (size_t)l->n_macros);
    *l->n->cache = k;
  }
  *out = k->program;
  return NULL;
}

void opencl_cache_destroy(backend *b, void *cache) {
  (void)b;
  for (known_program *k = cache, *next; k; k = next) {
    next = k->next;
    free(k);
  }
}

/* ---------------------------------------------------------------- arguments */

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
static const char *const value_kind_names[] = {
    [VALUE_OPERAND] = "a buffer", [VALUE_SCRATCH] = "a buffer",     [VALUE_ABSENT] = "a buffer",
    [VALUE_SEED] = "an integer",  [VALUE_RUN] = "an integer",       [VALUE_INT] = "an integer",
    [VALUE_FLOAT] = "a float",    [VALUE_INDEX8] = "eight indices", [VALUE_LOCAL] = "local memory"};

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

static bool raw_number(raw_arg *r, const launch_value *v, arg_kind kind, bool wide, dtype compute) {
  if (kind == ARG_REAL) return raw_real(r, v, compute);
  if (kind == ARG_FLOAT || kind == ARG_DOUBLE) {
    double d = v->kind == VALUE_INT ? (double)v->as.i : v->as.f;
    return kind == ARG_FLOAT ? raw_float(r, d) : raw_double(r, d);
  }
  if (v->kind != VALUE_INT) return false;
  if (kind == ARG_INT || (kind == ARG_INDEX && !wide)) return raw_int(r, v->as.i);
  return kind == ARG_UINT ? raw_uint(r, v->as.i) : raw_long(r, v->as.i);
}

bool launch_raw(const launch_value *v, arg_kind kind, bool wide, dtype compute, raw_arg *r) {
  r->data = &r->as;
  switch (v->kind) {
    case VALUE_OPERAND:
    case VALUE_SCRATCH:
    case VALUE_ABSENT:
      return kind == ARG_BUFFER;
    case VALUE_SEED:
      return kind == ARG_ULONG && raw_long(r, 0);
    case VALUE_RUN:
      return kind == ARG_UINT && raw_uint(r, 0);
    case VALUE_LOCAL:
      r->data = NULL;
      r->size = v->as.bytes;
      return kind == ARG_LOCAL;
    case VALUE_INDEX8:
      return kind == ARG_INDEX8 && raw_index8(r, v->as.i8, wide);
    default:
      return kind >= ARG_INT && kind <= ARG_INDEX && raw_number(r, v, kind, wide, compute);
  }
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

static clave_status check_args(const launch *l, const kernel_signature *g) {
  int n = expected_values(g);
  if (l->n_values < n)
    return INVALID("kernel %s argument %d (%s) is missing", l->kernel, l->n_values,
                   g->args[l->n_values].name);
  if (l->n_values > n)
    return INVALID("kernel %s takes %d arguments, got %d", l->kernel, n, l->n_values);
  for (int i = 0; i < n; i++) {
    raw_arg r;
    if (!launch_raw(&l->values[i], g->args[i].kind, l->wide, compute_of(l), &r))
      return wrong_arg(l, &g->args[i], i, &l->values[i]);
  }
  return NULL;
}

/* ---------------------------------------------------------------- recording */

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
  shrink_group(recorder_traits(l->s), group);
  for (int i = 0; i < dims; i++) {
    if (global[i] == 0) return NULL;
    rounded[i] = (global[i] + group[i] - 1) / group[i] * group[i];
  }
  kernel_program *p;
  TRY(find_program(l, &p));
  const kernel_signature *g = program_signature(p);
  if (!g) return INVALID("there is no kernel %s in %s.cl", l->kernel, l->stem);
  TRY(check_args(l, g));
  recorded_launch r = {.program = p,
                       .signature = g,
                       .n_values = l->n_values,
                       .wide = l->wide,
                       .compute = compute_of(l),
                       .dims = dims,
                       .class = launch_class(l, g, rounded, group)};
  memcpy(r.global, rounded, sizeof r.global);
  memcpy(r.local, group, sizeof r.local);
  return recorder_add(l->s, &r, l->values);
}

clave_status launch_items(launch *l, int64_t n) {
  size_t global = n > 0 ? (size_t)n : 0, local = LOCAL_SIZE;
  return launch_run(l, 1, &global, &local);
}

clave_status launch_groups(launch *l, int64_t groups, size_t local) {
  size_t global = groups > 0 ? (size_t)groups * local : 0;
  return launch_run(l, 1, &global, &local);
}
