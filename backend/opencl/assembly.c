/* Instructions that not every device has. Those of the CPU stand in kernels as inline assembly: of
 * PoCL, whose compiler is clang, alone; those of NVIDIA's GPUs for NVIDIA's driver. A kernel with
 * an instruction that the compiler does not know is built without it, and what the CPU does not
 * know ends the process. So the CPU's flags must name it; an extension, which kernels for GPUs use,
 * the device; a GPU's, its driver's name. Then a kernel that does little else is run and held
 * against what it should give. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "base/amx.h"

/* What is run to find out: kernels_cl/<name>_probe.cl on `in` words behind `out` of results. */
typedef struct probe {
  size_t group;
  uint32_t out, in;
  uint32_t (*input)(uint32_t i);
  int32_t (*right)(uint32_t i); /* result i */
} probe;

enum { LANES = 16, TURNS = 16 };

/* As in kernels_cl/dots_probe.cl and pairs_probe.cl. */
static uint32_t probe_word(uint32_t turn, uint32_t lane) {
  return (turn * LANES + lane) * UINT32_C(2654435761) ^ (turn == 0 ? UINT32_MAX : 0);
}
static uint32_t probe_factor(uint32_t turn) {
  return turn * UINT32_C(2246822519) ^ UINT32_C(0x80808080);
}

static int32_t sum_bytes(uint32_t lane, int bytes) {
  int32_t sum = 0;
  for (uint32_t turn = 0; turn < TURNS; turn++)
    for (int j = 0; j < bytes; j++)
      sum +=
          (int32_t)(probe_word(turn, lane) >> 8 * j & 255) * (int8_t)(probe_factor(turn) >> 8 * j);
  return sum;
}
static int32_t dots_sum(uint32_t lane) { return sum_bytes(lane, 4); }
static int32_t pairs_sum(uint32_t lane) { return sum_bytes(lane, 2); }

/* As in kernels_cl/subgroups_probe.cl. */
enum { MEMBERS = LOCAL_SIZE };
static uint32_t subgroups_input(uint32_t i) { return probe_word(1, i) >> 24; }
static int32_t subgroups_sum(uint32_t i) {
  int32_t sum = 0;
  (void)i;
  for (uint32_t k = 0; k < MEMBERS; k++) sum += (int32_t)subgroups_input(k);
  return sum;
}

/* As in kernels_cl/mma_probe.cl: a lane has 4 words of a and 2 of b, by the order of mma.h. */
enum { WARP = 32, FRAGMENT = 6, MMA_SUMS = 4 };
static uint32_t mma_input(uint32_t i) { return probe_word(i, 3) >> 7; }
/* Factor k of row `row` of a, or of column `row` of b: of a word of the lane that has it. */
static int32_t mma_factor(bool is_b, uint32_t row, uint32_t k) {
  uint32_t word = k / 2, lane = row % 8 * 4 + word % 4,
           at = is_b ? 4 + word / 4 : row / 8 + word / 4 * 2,
           bits = mma_input(lane * FRAGMENT + at) >> (k % 2 ? 8 : 0) & 15;
  return (int32_t)bits - (bits >= 8 ? 16 : 0);
}
static int32_t mma_sum(uint32_t i) {
  uint32_t lane = i / MMA_SUMS % WARP, at = i % MMA_SUMS, row = lane / 4 + at / 2 * 8,
           column = lane % 4 * 2 + at % 2;
  int32_t sum = (int32_t)at + 1;
  for (uint32_t k = 0; k < 16; k++) sum += mma_factor(false, row, k) * mma_factor(true, column, k);
  return sum;
}

/* As in kernels_cl/amx_probe.cl: two panels of a of two tiles of 16 rows of 16 words, of which 20
 * are multiplied by 32 columns of b. */
enum {
  TILE = 16,
  AMX_PANEL = 2 * TILE * TILE,
  AMX_WORDS = 20,
  AMX_SUMS = 2 * TILE * 2 * TILE,
  OF_B = 4096,
  OF_ROW = 64
};
static int32_t amx_factor(uint32_t i) {
  const uint32_t bits = i * UINT32_C(2654435761) >> 28;
  return (int32_t)bits - (bits >= 8 ? 16 : 0);
}
static uint32_t amx_input(uint32_t i) {
  const uint32_t row = i / AMX_PANEL * TILE + i / TILE % TILE,
                 word = i % AMX_PANEL / (TILE * TILE) * TILE + i % TILE;
  uint32_t made = 0;
  for (uint32_t h = 0; h < 2; h++) {
    const float factor = (float)amx_factor(row * OF_ROW + 2 * word + h);
    uint32_t bits;
    memcpy(&bits, &factor, sizeof bits);
    made |= bits >> 16 << 16 * h;
  }
  return made;
}
static int32_t amx_sum(uint32_t i) {
  const uint32_t row = i / (2 * TILE) * OF_ROW, column = OF_B + i % (2 * TILE) * OF_ROW;
  int32_t sum = 0;
  for (uint32_t k = 0; k < 2 * AMX_WORDS; k++) sum += amx_factor(row + k) * amx_factor(column + k);
  return sum;
}

/* As in kernels_cl/amx_bytes_probe.cl: words of a's rows are those of b's, too. */
enum { BLOCK = 32, ROW_WORDS = 16, BLOCK_SUMS = BLOCK * BLOCK };
static uint32_t amx_bytes_input(uint32_t i) { return probe_word(i, 5) ^ i << 7; }
static int32_t amx_bytes_sum(uint32_t i) {
  int32_t sum = 0;
  for (uint32_t k = 0; k < 4 * ROW_WORDS; k++) {
    const uint32_t a = amx_bytes_input(i / BLOCK * ROW_WORDS + k / 4),
                   b = amx_bytes_input(k / 4 * BLOCK + i % BLOCK);
    sum += (int8_t)(a >> k % 4 * 8) * (int32_t)(b >> k % 4 * 8 & 255);
  }
  return sum;
}

static const probe dots_probe = {1, LANES, TURNS, probe_factor, dots_sum},
                   pairs_probe = {1, LANES, TURNS, probe_factor, pairs_sum},
                   amx_bytes_probe = {1, BLOCK_SUMS, BLOCK *ROW_WORDS, amx_bytes_input,
                                      amx_bytes_sum},
                   subgroups_probe = {MEMBERS, MEMBERS, MEMBERS, subgroups_input, subgroups_sum},
                   amx_probe = {1, AMX_SUMS, 2 * AMX_PANEL, amx_input, amx_sum},
                   mma_probe = {WARP, 2 * WARP *MMA_SUMS, WARP *FRAGMENT, mma_input, mma_sum};

/* As in kernels_cl/pairs.h. */
enum { PAIRS_ASM = 1, PAIRS_LOCAL };

/* By the names of /proc/cpuinfo, of an extension, or of PTX, the best of a probe first. */
typedef struct instruction_set {
  const char *name;
  const probe *probe;
  int how;                   /* dots_kind, mma_kind */
  uint32_t vector_width;     /* of the CPU, at least; 0: not a CPU's */
  const char *base;          /* another's name that it needs; NULL: none */
  bool (*is_allowed)(void);  /* by the system; NULL: always */
  const char *extensions[2]; /* one of which the device has */
  const char *platform;      /* part of its name; NULL: any */
  bool must_be_named;        /* by CLAVE_ASM: for tests */
} instruction_set;
static const instruction_set sets[] = {
    {.name = "avx512_vnni", .probe = &dots_probe, .how = DOTS_AVX512_VNNI, .vector_width = 16},
    {.name = "avx_vnni", .probe = &dots_probe, .how = DOTS_AVX_VNNI, .vector_width = 8},
    {.name = "cl_khr_integer_dot_product",
     .probe = &dots_probe,
     .how = DOTS_PACKED,
     .extensions = {"cl_khr_integer_dot_product"}},
    {.name = "avx512_bf16", .probe = &pairs_probe, .how = PAIRS_ASM, .vector_width = 16},
    {.name = "amx_bf16",
     .probe = &amx_probe,
     .how = AMX_ASM,
     .vector_width = 16,
     .base = "avx512_bf16",
     .is_allowed = amx_is_allowed},
    {.name = "pairs_local",
     .probe = &pairs_probe,
     .how = PAIRS_LOCAL,
     .vector_width = 16,
     .must_be_named = true},
    {.name = "amx_bf16_local",
     .probe = &amx_probe,
     .how = AMX_LOCAL,
     .vector_width = 16,
     .base = "pairs_local",
     .must_be_named = true},
    {.name = "amx_int8",
     .probe = &amx_bytes_probe,
     .how = AMX_BYTES_ASM,
     .vector_width = 16,
     .is_allowed = amx_is_allowed},
    {.name = "amx_int8_local",
     .probe = &amx_bytes_probe,
     .how = AMX_BYTES_LOCAL,
     .vector_width = 1,
     .must_be_named = true},
    {.name = "subgroups",
     .probe = &subgroups_probe,
     .how = 1,
     .extensions = {"cl_khr_subgroups", "cl_intel_subgroups"}},
    {.name = "mma_sync", .probe = &mma_probe, .how = MMA_PTX, .platform = "NVIDIA"},
    {.name = "mma_local", .probe = &mma_probe, .how = MMA_LOCAL, .must_be_named = true}};
enum { SETS = sizeof sets / sizeof *sets };
_Static_assert(SETS == sizeof((cl_device *)0)->assembly / sizeof(asm_state), "a state for each");

/* flags: the CPU's; NULL: there are none. */
static bool is_usable(const cl_device *d, const instruction_set *set, const char *flags) {
  const device_traits *t = &d->entry->traits;
  if (set->vector_width)
    return t->is_cpu && t->vector_width >= set->vector_width &&
           (set->must_be_named || (flags && has_word(flags, set->name))) &&
           (!set->is_allowed || set->is_allowed());
  if (t->is_cpu || (set->platform && !strstr(d->base.info.platform, set->platform))) return false;
  bool has_one = !set->extensions[0];
  for (int i = 0; i < 2 && set->extensions[i]; i++)
    has_one = has_one || has_word(d->base.info.extensions, set->extensions[i]);
  return has_one;
}

static clave_status refuse_choice(const char *choice) {
  text names = {0};
  for (int i = 0; i < SETS; i++)
    text_printf(&names, "%s%s", i == 0 ? "" : i < SETS - 1 ? ", " : " or ", sets[i].name);
  clave_status st = text_status(&names);
  if (!st) st = INVALID("CLAVE_ASM: expected 0, %s, got '%s'", names.data, choice);
  text_free(&names);
  return st;
}

/* Whether `choice` is that instruction, or one that needs it. */
static bool is_named(const instruction_set *set, const char *choice) {
  bool named = strcmp(choice, set->name) == 0;
  for (int i = 0; i < SETS; i++)
    named = named || (sets[i].base && strcmp(choice, sets[i].name) == 0 &&
                      strcmp(sets[i].base, set->name) == 0);
  return named;
}

clave_status assembly_choose(cl_device *d) {
  const char *choice = getenv("CLAVE_ASM");
  bool all = !choice || !*choice, known = all || strcmp(choice, "0") == 0;
  text flags = {0};
  if (quirk_assembly(d->base.info.platform, d->base.info.name)) append_cpu_flags(&flags);
  clave_status st = text_status(&flags);
  if (flags.size && !st) flags.data[flags.size - 1] = 0; /* the end of the line */
  for (int i = 0; i < SETS && !st; i++) {
    bool named = !all && is_named(&sets[i], choice);
    known = known || named;
    bool usable = ((all && !sets[i].must_be_named) || named) && is_usable(d, &sets[i], flags.data);
    d->assembly[i] = usable ? ASM_UNTRIED : ASM_UNUSED;
  }
  text_free(&flags);
  return st || known ? st : refuse_choice(choice);
}

/* ---------------------------------------------------------------- the probe */

static void choose_probe(launch *l, const instruction_set *set) {
  if (set->probe == &dots_probe) {
    launch_dots(l, (dots_kind)set->how);
    launch_args(l, &(dots_probe_args){.sums = scratch_arg(0), .turns = TURNS});
  } else if (set->probe == &pairs_probe) {
    launch_define(l, "PAIRS", set->how);
    launch_args(l, &(pairs_probe_args){.sums = scratch_arg(0), .turns = TURNS});
  } else if (set->probe == &amx_bytes_probe) {
    launch_define(l, "AMX_BYTES", set->how);
    launch_args(l, &(amx_bytes_probe_args){.sums = scratch_arg(0)});
  } else if (set->probe == &subgroups_probe) {
    launch_subgroups(l, true);
    launch_args(l, &(subgroups_probe_args){.sums = scratch_arg(0)});
  } else if (set->probe == &amx_probe) {
    launch_define(l, "PAIRS", set->how);
    launch_define(l, "AMX", set->how);
    launch_args(l, &(amx_probe_args){.sums = scratch_arg(0)});
  } else {
    launch_define(l, "MMA", set->how);
    launch_args(l, &(mma_probe_args){.sums = scratch_arg(0)});
  }
}

static clave_status record_probe(cl_device *d, const instruction_set *set, cl_recording *out) {
  cl_recorder s = {.device = d, .fast = true, .out = out};
  void *cache = NULL;
  const node n = {.cache = &cache};
  launch l;
  launch_begin(&l, &s, &n);
  choose_probe(&l, set);
  clave_status st = launch_run(&l, 1, &set->probe->group, &set->probe->group);
  opencl_cache_destroy(&d->base, cache);
  return st;
}

/* words: the probe's results, then its input. */
static clave_status run_probe(stream *s, const recording *r, const probe *p, buffer *memory,
                              int32_t *words) {
  const run_operands o = {.scratch = memory};
  void *state = NULL;
  device_fault fault;
  for (uint32_t i = 0; i < p->in; i++) words[p->out + i] = (int32_t)p->input(i);
  TRY(opencl_write(s, memory, 0, words, (p->out + p->in) * sizeof *words));
  clave_status st = opencl_run(s, r, &state, &o, 0);
  if (!st) st = opencl_finish(s, &fault);
  opencl_state_destroy(s, state);
  return st ? st : opencl_read(s, memory, 0, words, p->out * sizeof *words);
}

static clave_status try_probe(cl_device *d, const instruction_set *set, bool *right) {
  enum { MOST = 2048 };
  cl_recording *r = calloc(1, sizeof *r);
  stream *s = NULL;
  buffer *memory = NULL;
  int32_t words[MOST] = {0};
  if (!r) return status_no_memory();
  clave_status st = record_probe(d, set, r);
  if (!st) st = opencl_stream_create(&d->base, &s);
  if (!st) st = opencl_buffer_create(&d->base, sizeof words, &memory);
  if (!st) st = run_probe(s, &r->base, set->probe, memory, words);
  opencl_buffer_destroy(&d->base, memory);
  opencl_stream_destroy(&d->base, s);
  opencl_recording_destroy(&d->base, &r->base);
  *right = !st;
  for (uint32_t i = 0; i < set->probe->out; i++)
    *right = *right && words[i] == set->probe->right(i);
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
  TRY(try_probe(d, &sets[i], right)); /* by two threads at once: the same */
  if (!*right)
    device_note(d, "%s does not work in kernels on %s: others run instead", sets[i].name,
                d->base.info.name);
  mutex_lock(d->lock);
  d->assembly[i] = *right ? ASM_RIGHT : ASM_UNUSED;
  mutex_unlock(d->lock);
  return NULL;
}

/* How the first set of a probe that is right does it; 0: none is. */
static clave_status find_right(const cl_recorder *s, const probe *p, int *how) {
  *how = 0;
  for (int i = 0; i < SETS && !*how; i++) {
    bool right = false;
    if (sets[i].probe == p) TRY(try_set(s->device, i, &right));
    if (right) *how = sets[i].how;
  }
  return NULL;
}

clave_status recorder_dots(const cl_recorder *s, dots_kind *out) {
  int how;
  TRY(find_right(s, &dots_probe, &how));
  *out = how ? (dots_kind)how : recorder_traits(s)->is_cpu ? DOTS_PORTABLE : DOTS_BYTES;
  return NULL;
}

clave_status recorder_amx_bytes(const cl_recorder *s, amx_bytes_kind *out) {
  int how;
  TRY(find_right(s, &amx_bytes_probe, &how));
  *out = (amx_bytes_kind)how;
  return NULL;
}

clave_status recorder_has_pairs(const cl_recorder *s, bool *out) {
  int how;
  TRY(find_right(s, &pairs_probe, &how));
  *out = how != 0;
  return NULL;
}

clave_status recorder_amx(const cl_recorder *s, amx_kind *out) {
  int how;
  TRY(find_right(s, &amx_probe, &how));
  *out = (amx_kind)how;
  return NULL;
}

void launch_pairs(launch *l, bool pairs) {
  cl_device *d = l->s->device;
  int how = 0;
  mutex_lock(d->lock);
  for (int i = 0; i < SETS && pairs && !how; i++)
    if (sets[i].probe == &pairs_probe && d->assembly[i] == ASM_RIGHT) how = sets[i].how;
  mutex_unlock(d->lock);
  launch_define(l, "PAIRS", how);
}

clave_status recorder_has_subgroups(const cl_recorder *s, bool *out) {
  int how;
  TRY(find_right(s, &subgroups_probe, &how));
  *out = how != 0;
  return NULL;
}

clave_status recorder_mma(const cl_recorder *s, mma_kind *out) {
  int how;
  TRY(find_right(s, &mma_probe, &how));
  *out = (mma_kind)how;
  return NULL;
}
