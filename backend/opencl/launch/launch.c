/* The only way to run a kernel: collects the macros and arguments of a launch, finds the program by
 * its key, checks the arguments (args.c), and records the launch (submit.c runs recordings). */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

/* ---------------------------------------------------------------- collecting */

void launch_begin(launch *launch, cl_recorder *recorder, const node *node) {
  launch->recorder = recorder;
  launch->node = node;
  launch->stem = launch->kernel = NULL;
  launch->signature = NULL;
  launch->n_macros = launch->n_values = 0;
  launch->wide = launch->overflow = false;
  launch->fast = recorder_is_fast(recorder);
  launch->always_wide = recorder_traits(recorder)->always_wide;
  launch->standard = "CL1.2";
  launch->generate = NULL;
  launch->generate_ctx = NULL;
}

static void add_macro(launch *launch, const char *name, define_kind kind, int value) {
  if (launch->n_macros == MAX_LAUNCH_DEFINES) {
    launch->overflow = true;
    return;
  }
  launch->macros[launch->n_macros++] =
      (launch_macro){.name = name, .kind = (int32_t)kind, .value = value};
}

void launch_dtype(launch *launch, const char *name, dtype t) {
  add_macro(launch, name, DEFINE_DTYPE, (int)t);
}
void launch_define(launch *launch, const char *name, int value) {
  add_macro(launch, name, DEFINE_INT, value);
}
static const char compute_name[] = "COMPUTE";
static const char wide_name[] = "WIDE";
void launch_compute(launch *launch, dtype t) {
  dtype compute = t == DTYPE_F64 ? DTYPE_F64 : dtype_is_float(t) ? DTYPE_F32 : DTYPE_I64;
  add_macro(launch, compute_name, DEFINE_DTYPE, (int)compute);
}
void launch_dots(launch *launch, dots_kind kind) {
  launch_define(launch, "DOTS", (int)kind);
  if (kind == DOTS_PACKED || kind == DOTS_PACKED_SIGNED) launch->standard = "CL3.0";
}
void launch_subgroups(launch *launch, bool has) {
  launch_define(launch, "SUBGROUPS", has);
  if (has) launch->standard = recorder_traits(launch->recorder)->opencl_3 ? "CL3.0" : "CL2.0";
}
void launch_encoding(launch *launch, const encoding *encoding) {
  if (encoding->kind == ENCODING_BLOCKS) {
    add_macro(launch, "ENCODING", DEFINE_BLOCKS, encoding->format);
    return;
  }
  add_macro(launch, "CODE", DEFINE_CODE, encoding->code);
  add_macro(launch, "BITS", DEFINE_INT, encoding->bits);
  add_macro(launch, "SCALE_TYPE", DEFINE_DTYPE, encoding->scale);
  add_macro(launch, "HAS_ZEROS", DEFINE_INT, encoding->has_zeros);
}

void launch_generated(launch *launch, const char *name, launch_generator generate,
                      const void *ctx) {
  launch->stem = launch->kernel = name;
  launch->generate = generate;
  launch->generate_ctx = ctx;
}

void launch_wide(launch *launch) { launch->wide = true; }

/* ---------------------------------------------------------------- finding the program */

/* A node's program, and the launch key that finds it again without generating its source. */
typedef struct known_program {
  struct known_program *next;
  const char *stem, *kernel;
  launch_variant variant;
  int n_macros;
  launch_macro macros[MAX_LAUNCH_DEFINES + 1];
  bool fast;
  kernel_program *program;
} known_program;

static dtype compute_of(const launch *launch) {
  for (int i = 0; i < launch->n_macros; i++)
    if (launch->macros[i].name == compute_name) return (dtype)launch->macros[i].value;
  return DTYPE_F32;
}

static bool launch_same_key(const known_program *program, const launch *launch,
                            const launch_variant *variant) {
  if (memcmp(&program->variant, variant, sizeof *variant) != 0) return false;
  if (program->stem != launch->stem || program->kernel != launch->kernel ||
      program->n_macros != launch->n_macros || program->fast != launch->recorder->fast)
    return false;
  for (int i = 0; i < launch->n_macros; i++) {
    const launch_macro *macro = &program->macros[i], *wanted = &launch->macros[i];
    if (macro->name != wanted->name || macro->value != wanted->value || macro->kind != wanted->kind)
      return false;
  }
  return true;
}

/* Finds the program of a launch in the cache of the node, else among the programs of the device. */
static clave_status find_program(const launch *launch, const launch_variant *variant,
                                 kernel_program **out) {
  known_program *known = *launch->node->cache;
  while (known && !launch_same_key(known, launch, variant)) known = known->next;
  if (!known) {
    kernel_program *program;
    TRY(program_find(launch->recorder->device, launch, variant, &program));
    known = calloc(1, sizeof *known);
    if (!known) return status_no_memory();
    *known = (known_program){.next = *launch->node->cache,
                             .stem = launch->stem,
                             .kernel = launch->kernel,
                             .n_macros = launch->n_macros,
                             .fast = launch->recorder->fast,
                             .variant = *variant,
                             .program = program};
    memcpy(known->macros, launch->macros, sizeof *launch->macros * (size_t)launch->n_macros);
    *launch->node->cache = known;
  }
  *out = known->program;
  return NULL;
}

void opencl_cache_destroy(backend *backend, void *cache) {
  (void)backend;
  for (known_program *k = cache, *next; k; k = next) {
    next = k->next;
    free(k);
  }
}

/* ---------------------------------------------------------------- recording */

/* Shrinks a group that is too large for the device, which then runs kernels for CPUs: these work
 * with any group size. */
static void shrink_group(const device_traits *traits, size_t group[3]) {
  enum { SMALL = 16 };
  if (!traits->is_cpu || group[0] * group[1] * group[2] <= traits->max_local) return;
  group[0] = group[0] > SMALL && traits->max_local >= SMALL ? SMALL : 1;
  group[1] = group[2] = 1;
}

clave_status launch_run(launch *launch, int dims, const size_t *global, const size_t *local) {
  if (!launch->kernel) return INVALID("a launch has no arguments, so its kernel is unknown");
  if (launch->wide) add_macro(launch, wide_name, DEFINE_INT, 1);
  const bool is_split = launch->kernel != custom_kernel_name && launch_is_long(launch->recorder);
  if (is_split) add_macro(launch, "SPLIT_LAUNCH", DEFINE_INT, 1);
  if (launch->overflow)
    return INVALID("kernel %s: more than %d macros or %d arguments", launch->kernel,
                   MAX_LAUNCH_DEFINES, MAX_LAUNCH_ARGS);
  size_t rounded[3] = {1, 1, 1}, group[3] = {1, 1, 1};
  memcpy(group, local, sizeof *group * (size_t)dims);
  shrink_group(recorder_traits(launch->recorder), group);
  for (int i = 0; i < dims; i++) {
    if (global[i] == 0) return NULL;
    rounded[i] = (global[i] + group[i] - 1) / group[i] * group[i];
  }
  kernel_program *program;
  launch_variant variant = variant_of(launch->recorder->device, rounded, group);
  TRY(find_program(launch, &variant, &program));
  if (program_was_refused(program, group[0] * group[1] * group[2]))
    recorder_note_refused(launch->recorder, program);
  const kernel_signature *signature = program_signature(program);
  dtype compute = compute_of(launch);
  TRY(launch_check(launch, signature, compute));
  recorded_launch recorded_launch = {.program = program,
                                     .signature = signature,
                                     .n_values = launch->n_values,
                                     .wide = launch->wide,
                                     .compute = compute,
                                     .dims = dims,
                                     .class = launch_class(launch, signature, rounded, group)};
  args_place(signature, launch->wide, compute, &recorded_launch.places);
  memcpy(recorded_launch.global, rounded, sizeof recorded_launch.global);
  memcpy(recorded_launch.local, group, sizeof recorded_launch.local);
  for (int i = 0; i < 3; i++) recorded_launch.items[i] = i < dims ? global[i] : 1;
  if (is_split) split_launch(launch->recorder, &recorded_launch);
  return recorder_add(launch->recorder, &recorded_launch, launch->values);
}

clave_status launch_items(launch *launch, int64_t n) {
  size_t global = n > 0 ? (size_t)n : 0, local = LOCAL_SIZE;
  return launch_run(launch, 1, &global, &local);
}

clave_status launch_groups(launch *launch, int64_t groups, size_t local) {
  size_t global = groups > 0 ? (size_t)groups * local : 0;
  return launch_run(launch, 1, &global, &local);
}
