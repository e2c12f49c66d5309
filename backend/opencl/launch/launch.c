/* The one way to a kernel: collects what a launch needs, finds the program by its key, has the
 * arguments checked (args.c), and records it (submit.c runs what was recorded). */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

/* ---------------------------------------------------------------- collecting */

void launch_begin(launch *l, cl_recorder *s, const node *n) {
  l->s = s;
  l->n = n;
  l->stem = l->kernel = NULL;
  l->signature = NULL;
  l->n_macros = l->n_values = 0;
  l->wide = l->overflow = false;
  l->fast = recorder_is_fast(s);
  l->always_wide = recorder_traits(s)->always_wide;
  l->standard = "CL1.2";
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
void launch_dots(launch *l, dots_kind kind) {
  launch_define(l, "DOTS", (int)kind);
  if (kind == DOTS_PACKED) l->standard = "CL3.0";
}
void launch_subgroups(launch *l, bool has) {
  launch_define(l, "SUBGROUPS", has);
  if (has) l->standard = recorder_traits(l->s)->opencl_3 ? "CL3.0" : "CL2.0";
}
void launch_encoding(launch *l, const encoding *e) {
  if (e->kind == ENCODING_BLOCKS) {
    add_macro(l, "ENCODING", DEFINE_BLOCKS, e->format);
    return;
  }
  add_macro(l, "CODE", DEFINE_CODE, e->code);
  add_macro(l, "BITS", DEFINE_INT, e->bits);
  add_macro(l, "SCALE_TYPE", DEFINE_DTYPE, e->scale);
  add_macro(l, "HAS_ZEROS", DEFINE_INT, e->has_zeros);
}

void launch_generated(launch *l, const char *name, launch_generator generate, const void *ctx) {
  l->stem = l->kernel = name;
  l->generate = generate;
  l->generate_ctx = ctx;
}

void launch_wide(launch *l) { l->wide = true; }

/* ---------------------------------------------------------------- finding the program */

/* A program that an instruction uses, found by the key of the launch: no text is made again. */
typedef struct known_program {
  struct known_program *next;
  const char *stem, *kernel;
  launch_variant variant;
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

static bool same_key(const known_program *k, const launch *l, const launch_variant *v) {
  if (memcmp(&k->variant, v, sizeof *v) != 0) return false;
  if (k->stem != l->stem || k->kernel != l->kernel || k->n_macros != l->n_macros ||
      k->fast != l->s->fast)
    return false;
  for (int i = 0; i < l->n_macros; i++) {
    const launch_macro *a = &k->macros[i], *b = &l->macros[i];
    if (a->name != b->name || a->value != b->value || a->kind != b->kind) return false;
  }
  return true;
}

static clave_status find_program(const launch *l, const launch_variant *v, kernel_program **out) {
  known_program *k = *l->n->cache;
  while (k && !same_key(k, l, v)) k = k->next;
  if (!k) {
    kernel_program *p;
    TRY(program_find(l->s->device, l, v, &p));
    k = calloc(1, sizeof *k);
    if (!k) return status_no_memory();
    *k = (known_program){.next = *l->n->cache,
                         .stem = l->stem,
                         .kernel = l->kernel,
                         .n_macros = l->n_macros,
                         .fast = l->s->fast,
                         .variant = *v,
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
  if (!l->kernel) return INVALID("a launch has no arguments, which say of which kernel it is");
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
  launch_variant variant = variant_of(l->s->device, rounded, group);
  TRY(find_program(l, &variant, &p));
  const kernel_signature *g = program_signature(p);
  dtype compute = compute_of(l);
  TRY(launch_check(l, g, compute));
  recorded_launch r = {.program = p,
                       .signature = g,
                       .n_values = l->n_values,
                       .wide = l->wide,
                       .compute = compute,
                       .dims = dims,
                       .class = launch_class(l, g, rounded, group)};
  args_place(g, l->wide, compute, &r.places);
  memcpy(r.global, rounded, sizeof r.global);
  memcpy(r.local, group, sizeof r.local);
  for (int i = 0; i < 3; i++) r.items[i] = i < dims ? global[i] : 1;
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
