/* Instructions that not every device has. Those of the CPU stand in kernels as inline assembly: of
 * PoCL, whose compiler is clang, alone. A kernel with an instruction that the compiler does not
 * know is built without it, and what the CPU does not know ends the process. So the CPU's flags
 * must name it; an extension, which kernels for GPUs use, the device. Then a kernel that does
 * little else is run and held against what it should give. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"

/* By the names of /proc/cpuinfo, or of an extension, the best first. */
typedef struct instruction_set {
  const char *name;
  dots_kind dots;        /* of bytes; DOTS_PORTABLE: none */
  bool pairs;            /* of BF16 */
  uint32_t vector_width; /* of the CPU, at least; 0: an extension */
} instruction_set;
static const instruction_set sets[] = {{"avx512_vnni", DOTS_AVX512_VNNI, false, 16},
                                       {"avx_vnni", DOTS_AVX_VNNI, false, 8},
                                       {"cl_khr_integer_dot_product", DOTS_PACKED, false, 0},
                                       {"avx512_bf16", DOTS_PORTABLE, true, 16}};
enum { SETS = sizeof sets / sizeof *sets, BF16_SET = SETS - 1 };
_Static_assert(SETS == sizeof((cl_device *)0)->assembly / sizeof(asm_state), "a state for each");

/* flags: the CPU's; NULL: there are none. */
static bool is_usable(const cl_device *d, const instruction_set *set, const char *flags) {
  const device_traits *t = &d->entry->traits;
  if (!set->vector_width) return !t->is_cpu && has_word(d->base.info.extensions, set->name);
  return t->is_cpu && t->vector_width >= set->vector_width && flags && has_word(flags, set->name);
}

clave_status assembly_choose(cl_device *d) {
  const char *choice = getenv("CLAVE_ASM");
  bool all = !choice || !*choice, known = all || strcmp(choice, "0") == 0;
  text flags = {0};
  if (quirk_assembly(d->base.info.platform, d->base.info.name)) append_cpu_flags(&flags);
  clave_status st = text_status(&flags);
  if (flags.size && !st) flags.data[flags.size - 1] = 0; /* the end of the line */
  for (int i = 0; i < SETS && !st; i++) {
    bool named = !all && strcmp(choice, sets[i].name) == 0;
    known = known || named;
    bool usable = (all || named) && is_usable(d, &sets[i], flags.data);
    d->assembly[i] = usable ? ASM_UNTRIED : ASM_UNUSED;
  }
  text_free(&flags);
  if (st || known) return st;
  return INVALID("CLAVE_ASM is '%s', not 0, %s, %s, %s or %s", choice, sets[0].name, sets[1].name,
                 sets[2].name, sets[3].name);
}

/* ---------------------------------------------------------------- the probe */

enum { LANES = 16, TURNS = 16, PROBE_WORDS = LANES + TURNS };

/* As in kernels_cl/dots_probe.cl and pairs_probe.cl. */
static uint32_t probe_word(uint32_t turn, uint32_t lane) {
  return (turn * LANES + lane) * UINT32_C(2654435761) ^ (turn == 0 ? UINT32_MAX : 0);
}
static uint32_t probe_factor(uint32_t turn) {
  return turn * UINT32_C(2246822519) ^ UINT32_C(0x80808080);
}

static int32_t probe_sum(const instruction_set *set, uint32_t lane) {
  int32_t sum = 0;
  for (uint32_t turn = 0; turn < TURNS; turn++)
    for (int j = 0; j < (set->pairs ? 2 : 4); j++)
      sum +=
          (int32_t)(probe_word(turn, lane) >> 8 * j & 255) * (int8_t)(probe_factor(turn) >> 8 * j);
  return sum;
}

static clave_status record_probe(cl_device *d, const instruction_set *set, cl_recording *out) {
  cl_recorder s = {.device = d, .fast = true, .out = out};
  void *cache = NULL;
  const node n = {.cache = &cache};
  launch l;
  launch_begin(&l, &s, &n);
  if (set->pairs) {
    launch_define(&l, "PAIRS", 1);
    launch_args(&l, &(pairs_probe_args){.sums = scratch_arg(0), .turns = TURNS});
  } else {
    launch_dots(&l, set->dots);
    launch_args(&l, &(dots_probe_args){.sums = scratch_arg(0), .turns = TURNS});
  }
  size_t one = 1;
  clave_status st = launch_run(&l, 1, &one, &one);
  opencl_cache_destroy(&d->base, cache);
  return st;
}

static clave_status run_probe(stream *s, const recording *r, buffer *words, int32_t *got) {
  const run_operands o = {.scratch = words};
  void *state = NULL;
  device_fault fault;
  for (uint32_t i = 0; i < TURNS; i++) got[LANES + i] = (int32_t)probe_factor(i);
  TRY(opencl_write(s, words, 0, got, PROBE_WORDS * sizeof *got));
  clave_status st = opencl_run(s, r, &state, &o, 0);
  if (!st) st = opencl_finish(s, &fault);
  opencl_state_destroy(s, state);
  return st ? st : opencl_read(s, words, 0, got, LANES * sizeof *got);
}

static clave_status probe(cl_device *d, const instruction_set *set, bool *right) {
  cl_recording *r = calloc(1, sizeof *r);
  stream *s = NULL;
  buffer *words = NULL;
  int32_t got[PROBE_WORDS] = {0};
  if (!r) return status_no_memory();
  clave_status st = record_probe(d, set, r);
  if (!st) st = opencl_stream_create(&d->base, &s);
  if (!st) st = opencl_buffer_create(&d->base, sizeof got, &words);
  if (!st) st = run_probe(s, &r->base, words, got);
  opencl_buffer_destroy(&d->base, words);
  opencl_stream_destroy(&d->base, s);
  opencl_recording_destroy(&d->base, &r->base);
  *right = !st;
  for (uint32_t i = 0; i < LANES; i++) *right = *right && got[i] == probe_sum(set, i);
  if (status_code_of(st) != STATUS_UNSUPPORTED) return st;
  status_free(st);
  return NULL;
}

/* Whether an instruction is right, which is tried once. */
static clave_status try_set(cl_device *d, int i, bool *right) {
  mutex_lock(d->lock);
  asm_state known = d->assembly[i];
  mutex_unlock(d->lock);
  *right = known == ASM_RIGHT;
  if (known != ASM_UNTRIED) return NULL;
  TRY(probe(d, &sets[i], right)); /* by two threads at once: the same */
  if (!*right)
    device_note(d, "%s does not work in kernels on %s: others run instead", sets[i].name,
                d->base.info.name);
  mutex_lock(d->lock);
  d->assembly[i] = *right ? ASM_RIGHT : ASM_UNUSED;
  mutex_unlock(d->lock);
  return NULL;
}

clave_status recorder_dots(const cl_recorder *s, dots_kind *out) {
  *out = recorder_traits(s)->is_cpu ? DOTS_PORTABLE : DOTS_BYTES;
  for (int i = 0; i < BF16_SET; i++) {
    bool right;
    TRY(try_set(s->device, i, &right));
    if (!right) continue;
    *out = sets[i].dots;
    break;
  }
  return NULL;
}

clave_status recorder_has_pairs(const cl_recorder *s, bool *out) {
  return try_set(s->device, BF16_SET, out);
}
