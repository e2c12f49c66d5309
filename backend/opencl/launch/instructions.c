/* Optional instructions of GPUs. The device's list of extensions or its vendor says if it has them.
 * Because the claimed support may be wrong, a small probe kernel runs each instruction once, and
 * its results are compared with known answers. Kernels that use an instruction are built only on
 * devices that have passed its probe. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

/* A probe kernel, kernels_cl/<name>_probe.cl. Its buffer has `out` words of results, followed by
 * `in` words of input. */
typedef struct probe {
  size_t group;
  uint32_t out, in;
  uint32_t (*input)(uint32_t i);
  int32_t (*right)(uint32_t i); /* returns the correct result i */
} probe;

enum { LANES = 16, TURNS = 16 };

/* Same values as in kernels_cl/support/dots_probe.cl. */
static uint32_t probe_word(uint32_t turn, uint32_t lane) {
  return (turn * LANES + lane) * UINT32_C(2654435761) ^ (turn == 0 ? UINT32_MAX : 0);
}
static uint32_t probe_factor(uint32_t turn) {
  return turn * UINT32_C(2246822519) ^ UINT32_C(0x80808080);
}

static int32_t dots_sum(uint32_t lane) {
  int32_t sum = 0;
  for (uint32_t turn = 0; turn < TURNS; turn++)
    for (int j = 0; j < 4; j++)
      sum +=
          (int32_t)(probe_word(turn, lane) >> 8 * j & 255) * (int8_t)(probe_factor(turn) >> 8 * j);
  return sum;
}

/* Same size as in kernels_cl/support/subgroups_probe.cl. */
enum { MEMBERS = LOCAL_SIZE };
static uint32_t subgroups_input(uint32_t i) { return probe_word(1, i) >> 24; }
static int32_t subgroups_sum(uint32_t i) {
  int32_t sum = 0;
  (void)i;
  for (uint32_t k = 0; k < MEMBERS; k++) sum += (int32_t)subgroups_input(k);
  return sum;
}

/* Same layout as kernels_cl/support/mma_probe.cl: 16 rows of a and 16 columns of b, of 8 words with
 * two small integers each. */
enum { SIDE = 16, ROW_WORDS = 8, MMA_PRODUCT = SIDE * SIDE };
static uint32_t mma_input(uint32_t i) { return probe_word(i, 3) >> 7; }
/* Returns factor k of row `row` of a or, if row >= SIDE, of column row - SIDE of b. */
static int32_t mma_factor(uint32_t row, uint32_t k) {
  const uint32_t bits = mma_input(row * ROW_WORDS + k / 2) >> (k % 2 ? 8 : 0) & 15;
  return (int32_t)bits - (bits >= 8 ? 16 : 0);
}
static int32_t mma_sum(uint32_t i) {
  const uint32_t row = i % MMA_PRODUCT / SIDE, column = i % SIDE;
  int32_t sum = (int32_t)(row + 3 * column);
  for (uint32_t k = 0; k < 2 * ROW_WORDS; k++)
    sum += mma_factor(row, k) * mma_factor(SIDE + column, k);
  return sum;
}

/* Same layout as kernels_cl/support/mma_codes_probe.cl: rows of a and columns of b, of 8 words with
 * four bytes each, which are signed in a and unsigned in b. */
static uint32_t mma_codes_input(uint32_t i) { return probe_word(i, 5); }
static int32_t mma_codes_sum(uint32_t i) {
  const uint32_t row = i / SIDE, column = i % SIDE;
  int32_t sum = (int32_t)(row + 3 * column);
  for (uint32_t k = 0; k < 4 * ROW_WORDS; k++)
    sum += (int8_t)(mma_codes_input(row * ROW_WORDS + k / 4) >> k % 4 * 8) *
           (int32_t)(mma_codes_input((SIDE + column) * ROW_WORDS + k / 4) >> k % 4 * 8 & 255);
  return sum;
}

/* Same layout as kernels_cl/support/halves_probe.cl: texels of eight halves, of which the last ones
 * are factors of the others. Products are exact, and sums are rounded to 11 bits. */
enum { CHAIN = 16, TEXEL = 8, FACTORS = CHAIN * TEXEL, HALVES = FACTORS + CHAIN };
static int32_t probe_half(uint32_t i) { return (int32_t)(probe_word(i, 5) >> 7 & 63) - 18; }
static uint32_t halves_input(uint32_t i) {
  return f32_to_f16((float)probe_half(2 * i)) | (uint32_t)f32_to_f16((float)probe_half(2 * i + 1))
                                                    << 16;
}
static int32_t halves_sum(uint32_t i) {
  float sum = 0;
  for (uint32_t k = 0; k < CHAIN; k++)
    sum =
        f16_to_f32(f32_to_f16(sum + (float)(probe_half(k * TEXEL + i) * probe_half(FACTORS + k))));
  return (int32_t)sum;
}

static const probe dots_probe = {1, LANES, TURNS, probe_factor, dots_sum},
                   subgroups_probe = {MEMBERS, MEMBERS, MEMBERS, subgroups_input, subgroups_sum},
                   mma_probe = {0, 2 * MMA_PRODUCT, 2 * SIDE *ROW_WORDS, mma_input, mma_sum},
                   mma_probe_f16 = {0, MMA_PRODUCT, 2 * SIDE *ROW_WORDS, mma_input, mma_sum},
                   mma_codes_probe = {0, MMA_PRODUCT, 2 * SIDE *ROW_WORDS, mma_codes_input,
                                      mma_codes_sum},
                   halves_probe = {1, TEXEL, HALVES / 2, halves_input, halves_sum};

/* The shapes are those of kernels_cl/support/mma_units.h. The tiles of sub-groups keep their sums
 * in registers (ci/vendor_bounds.tsv). */
static const mma_unit mma_units[MMA_KINDS] = {
    [MMA_LDMATRIX] =
        {.has_bf16 = true, .lanes = 32, .rows = 16, .columns = 8, .warps = {{2, 2}, {2, 4}}},
    [MMA_SYNC] =
        {.has_bf16 = true, .lanes = 32, .rows = 16, .columns = 8, .warps = {{2, 2}, {2, 4}}},
    [MMA_TURING] = {.lanes = 32, .rows = 16, .columns = 8, .warps = {{2, 2}, {2, 4}}},
    [MMA_WMMA_11] =
        {.has_bf16 = true, .lanes = 32, .rows = 16, .columns = 16, .warps = {{2, 2}, {2, 4}}},
    [MMA_WMMA_12] =
        {.has_bf16 = true, .lanes = 32, .rows = 16, .columns = 16, .warps = {{2, 2}, {2, 4}}},
    [MMA_MFMA] =
        {.has_bf16 = true, .lanes = 64, .rows = 16, .columns = 16, .warps = {{2, 2}, {2, 2}}},
    [MMA_DPAS_8] =
        {.has_bf16 = true, .lanes = 8, .rows = 8, .columns = 8, .warps = {{2, 4}, {4, 8}}},
    [MMA_DPAS_16] = {
        .has_bf16 = true, .lanes = 16, .rows = 8, .columns = 16, .warps = {{2, 2}, {4, 4}}}};

/* The products of cl_khr_integer_dot_product, each of which a device accelerates or emulates, in
 * the order of the query's result: signed by signed bytes, unsigned by unsigned, and mixed. */
typedef enum dot_product {
  ANY_PRODUCT,
  SIGNED_PRODUCT,
  UNSIGNED_PRODUCT,
  MIXED_PRODUCT
} dot_product;

/* An instruction, recognised by an extension or the vendor. The best one for each use is first. */
typedef struct instruction {
  const char *name;
  const probe *probe;
  int how;                   /* a dots_kind or mma_kind; 1 for sub-groups */
  uint32_t lanes;            /* size of the device's smallest sub-group; 0 matches any */
  const char *extensions[2]; /* the device must have one of these */
  dot_product accelerated;   /* the product that the device must accelerate */
  const char *platform;      /* part of the platform's name; NULL matches any */
  const char *devices;       /* beginnings of devices' names; NULL matches any */
  uint32_t capability;       /* least compute capability of an NVIDIA GPU; 0 matches any */
  bool doubles_rate;         /* the device must compute halves faster than floats */
  bool must_be_named;        /* used only if CLAVE_ASM names it, for tests */
} instruction;
#define EMULATED(unit, tried, kind) \
  { .name = "emulated_" unit, .probe = &(tried), .how = (kind), .must_be_named = true }
/* A unit for matrices, which multiplies floats and bytes by different instructions. */
#define UNIT(unit, tried, kind, ...)                                    \
  {.name = unit, .probe = &(tried), .how = (kind), __VA_ARGS__}, {      \
    .name = unit, .probe = &mma_codes_probe, .how = (kind), __VA_ARGS__ \
  }
#define EMULATED_UNIT(unit, tried, kind) UNIT("emulated_" unit, tried, kind, .must_be_named = true)
static const instruction instructions[] = {
    {.name = "cl_khr_integer_dot_product",
     .probe = &dots_probe,
     .how = DOTS_PACKED,
     .extensions = {"cl_khr_integer_dot_product"},
     .accelerated = MIXED_PRODUCT},
    {.name = "dot_4x8packed_ss_int",
     .probe = &dots_probe,
     .how = DOTS_PACKED_SIGNED,
     .extensions = {"cl_khr_integer_dot_product"},
     .accelerated = SIGNED_PRODUCT},
    {.name = "dp4a",
     .probe = &dots_probe,
     .how = DOTS_NVIDIA,
     .platform = "NVIDIA",
     .capability = 61},
    {.name = "v_dot4", .probe = &dots_probe, .how = DOTS_AMD, .platform = "AMD"},
    {.name = "arm_dot",
     .probe = &dots_probe,
     .how = DOTS_ARM,
     .extensions = {"cl_arm_integer_dot_product_accumulate_int8",
                    "cl_arm_integer_dot_product_int8"}},
    {.name = "qcom_dot8_acc",
     .probe = &dots_probe,
     .how = DOTS_QUALCOMM,
     .extensions = {"cl_qcom_dot_product8"}},
    {.name = "subgroups",
     .probe = &subgroups_probe,
     .how = 1,
     .extensions = {"cl_khr_subgroups", "cl_intel_subgroups"}},
    UNIT("ldmatrix", mma_probe, MMA_LDMATRIX, .platform = "NVIDIA", .capability = 80),
    UNIT("mma_sync", mma_probe, MMA_SYNC, .platform = "NVIDIA", .capability = 80),
    UNIT("mma_turing", mma_probe_f16, MMA_TURING, .platform = "NVIDIA", .capability = 75),
    UNIT("wmma_gfx11", mma_probe, MMA_WMMA_11, .platform = "AMD", .devices = "gfx11"),
    UNIT("wmma_gfx12", mma_probe, MMA_WMMA_12, .platform = "AMD", .devices = "gfx12"),
    UNIT("mfma", mma_probe, MMA_MFMA, .platform = "AMD", .devices = "gfx90a gfx94 gfx95"),
    UNIT("dpas_8", mma_probe, MMA_DPAS_8, .lanes = 8,
         .extensions = {"cl_intel_subgroup_matrix_multiply_accumulate"}),
    UNIT("dpas_16", mma_probe, MMA_DPAS_16, .lanes = 16,
         .extensions = {"cl_intel_subgroup_matrix_multiply_accumulate"}),
    {.name = "cl_khr_fp16",
     .probe = &halves_probe,
     .how = HALVES_DEVICE,
     .extensions = {"cl_khr_fp16"},
     .doubles_rate = true},
    EMULATED("v_dot4", dots_probe, DOTS_SIGNED),
    EMULATED("cl_khr_fp16", halves_probe, HALVES_FLOATS),
    EMULATED_UNIT("ldmatrix", mma_probe, MMA_LDMATRIX),
    EMULATED_UNIT("mma_sync", mma_probe, MMA_SYNC),
    EMULATED_UNIT("mma_turing", mma_probe_f16, MMA_TURING),
    EMULATED_UNIT("wmma_gfx11", mma_probe, MMA_WMMA_11),
    EMULATED_UNIT("wmma_gfx12", mma_probe, MMA_WMMA_12),
    EMULATED_UNIT("mfma", mma_probe, MMA_MFMA),
    EMULATED_UNIT("dpas_8", mma_probe, MMA_DPAS_8),
    EMULATED_UNIT("dpas_16", mma_probe, MMA_DPAS_16)};
#undef EMULATED
#undef EMULATED_UNIT
#undef UNIT
enum { INSTRUCTIONS = sizeof instructions / sizeof *instructions };
_Static_assert(INSTRUCTIONS == sizeof((cl_device *)0)->instructions / sizeof(instruction_state),
               "a state for each");

/* True if the name begins with one of the words. */
static bool begins_with_one(const char *name, const char *words) {
  for (size_t n; *words; words += n + strspn(words + n, " ")) {
    n = strcspn(words, " ");
    if (strncmp(name, words, n) == 0) return true;
  }
  return false;
}

static bool is_usable(const cl_device *device, const instruction *tried) {
  const device_traits *traits = &device->entry->traits;
  if (traits->is_cpu) return false;
  if (tried->platform && !strstr(device->base.info.platform, tried->platform)) return false;
  if (tried->devices && !begins_with_one(device->base.info.name, tried->devices)) return false;
  if (tried->doubles_rate && !traits->doubles_halves) return false;
  if (tried->lanes && traits->min_lanes != tried->lanes) return false;
  if (traits->capability && traits->capability < tried->capability) return false;
  bool has_one = !tried->extensions[0];
  for (int i = 0; i < 2 && tried->extensions[i]; i++)
    has_one = has_one || has_word(device->base.info.extensions, tried->extensions[i]);
  return has_one;
}

/* False if the device reports that it emulates the instruction. Version 2 of the extension has the
 * query; if it fails, the probe decides. */
static bool is_accelerated(const cl_device *device, const instruction *tried) {
  enum { ACCELERATION_OF_PACKED_BYTES = 0x1075, PRODUCTS = 6 };
  cl_bool accelerated[PRODUCTS] = {1, 1, 1, 1, 1, 1};
  return tried->accelerated == ANY_PRODUCT ||
         device->cl->clGetDeviceInfo(device->entry->id, ACCELERATION_OF_PACKED_BYTES,
                                     sizeof accelerated, accelerated, NULL) != CL_SUCCESS ||
         accelerated[tried->accelerated - 1];
}

static clave_status refuse_choice(const char *choice) {
  text names = {0};
  for (int i = 0; i < INSTRUCTIONS; i++) {
    const char *next = i < INSTRUCTIONS - 1 ? instructions[i + 1].name : NULL;
    if (!next || strcmp(instructions[i].name, next) != 0)
      text_printf(&names, "%s%s", i == 0 ? "" : next ? ", " : " or ", instructions[i].name);
  }
  clave_status st = text_status(&names);
  if (!st) st = INVALID("CLAVE_ASM: expected 0, %s, got '%s'", names.data, choice);
  text_free(&names);
  return st;
}

clave_status instructions_choose(cl_device *device) {
  const char *choice = getenv("CLAVE_ASM");
  bool all = !choice || !*choice, known = all || strcmp(choice, "0") == 0;
  for (int i = 0; i < INSTRUCTIONS; i++) {
    const instruction *tried = &instructions[i];
    const bool is_named = !all && strcmp(choice, tried->name) == 0,
               is_wanted = is_named || (all && !tried->must_be_named);
    known = known || is_named;
    const bool may_run =
        is_wanted && is_usable(device, tried) && (is_named || is_accelerated(device, tried));
    device->instructions[i] = may_run ? INSTRUCTION_UNTRIED : INSTRUCTION_UNUSED;
  }
  return known ? NULL : refuse_choice(choice);
}

/* ---------------------------------------------------------------- the probe */

static bool is_of_matrices(const instruction *tried) {
  return tried->probe == &mma_probe || tried->probe == &mma_probe_f16 ||
         tried->probe == &mma_codes_probe;
}

static mma_unit unit_of(const instruction *tried) {
  mma_unit unit = mma_units[tried->how];
  unit.kind = (mma_kind)tried->how;
  unit.emulated = tried->must_be_named;
  return unit;
}

void launch_mma(launch *launch, const mma_unit *unit) {
  const bool is_dpas = unit->kind == MMA_DPAS_8 || unit->kind == MMA_DPAS_16;
  launch_define(launch, "MMA", (int)unit->kind);
  launch_define(launch, "MMA_EMULATED", unit->emulated);
  if (is_dpas && !unit->emulated) launch_define(launch, "SUB_GROUP", unit->lanes);
}

void launch_halves(launch *launch, halves_kind kind) {
  launch_define(launch, "HALVES_BY", (int)kind);
}

static void choose_probe(launch *launch, const instruction *tried) {
  if (tried->probe == &dots_probe) {
    launch_dots(launch, (dots_kind)tried->how);
    launch_args(launch, &(dots_probe_args){.sums = scratch_arg(0), .turns = TURNS});
  } else if (tried->probe == &subgroups_probe) {
    launch_subgroups(launch, true);
    launch_args(launch, &(subgroups_probe_args){.sums = scratch_arg(0)});
  } else if (tried->probe == &halves_probe) {
    launch_halves(launch, (halves_kind)tried->how);
    launch_args(launch, &(halves_probe_args){.sums = scratch_arg(0)});
  } else {
    const mma_unit unit = unit_of(tried);
    launch_mma(launch, &unit);
    if (tried->probe == &mma_codes_probe)
      launch_args(launch, &(mma_codes_probe_args){.sums = scratch_arg(0)});
    else
      launch_args(launch, &(mma_probe_args){.sums = scratch_arg(0)});
  }
}

static clave_status record_probe(cl_device *device, const instruction *tried, cl_recording *out) {
  cl_recorder recorder = {.device = device, .fast = true, .out = out};
  void *cache = NULL;
  const node node = {.cache = &cache};
  launch launch;
  launch_begin(&launch, &recorder, &node);
  choose_probe(&launch, tried);
  const size_t group = is_of_matrices(tried) ? unit_of(tried).lanes : tried->probe->group;
  clave_status st = launch_run(&launch, 1, &group, &group);
  opencl_cache_destroy(&device->base, cache);
  return st;
}

/* Runs the probe. words: receives its results, followed by its input. */
static clave_status instructions_run_probe(stream *stream, const recording *recording,
                                           const probe *probe, buffer *memory, int32_t *words) {
  const run_operands operands = {.scratch = memory};
  void *state = NULL;
  device_fault fault;
  for (uint32_t i = 0; i < probe->in; i++) words[probe->out + i] = (int32_t)probe->input(i);
  TRY(opencl_write(stream, memory, 0, words, (probe->out + probe->in) * sizeof *words));
  clave_status st = opencl_run(stream, recording, &state, &operands, 0);
  if (!st) st = opencl_finish(stream, &fault);
  opencl_state_destroy(stream, state);
  return st ? st : opencl_read(stream, memory, 0, words, probe->out * sizeof *words);
}

/* Runs the probe after a child has run it, or else under a mark: it may crash the driver. */
static clave_status run_probe_safely(stream *stream, const cl_recording *recording,
                                     const instruction *tried, buffer *memory, int32_t *words) {
  cl_device *device = ((cl_stream *)stream)->device;
  kernel_program *program = recording->launches[0].program;
  bool began;
  program_set_trial(program, (int)(tried - instructions));
  TRY(program_build(device, program));
  TRY(program_try(device, program, &began));
  clave_status st = instructions_run_probe(stream, &recording->base, tried->probe, memory, words);
  if (began) program_end_try(device, program);
  return st;
}

/* Runs an instruction's probe. Clears *right if a result is wrong or the kernel is rejected. */
static clave_status try_probe(cl_device *device, const instruction *tried, bool *right) {
  enum { MOST = 1024 };
  cl_recording *recording = calloc(1, sizeof *recording);
  stream *stream = NULL;
  buffer *memory = NULL;
  int32_t words[MOST] = {0};
  if (!recording) return status_no_memory();
  clave_status st = record_probe(device, tried, recording);
  if (!st) st = opencl_stream_create(&device->base, &stream);
  if (!st) st = opencl_buffer_create(&device->base, sizeof words, &memory);
  if (!st) st = run_probe_safely(stream, recording, tried, memory, words);
  opencl_buffer_destroy(&device->base, memory);
  opencl_stream_destroy(&device->base, stream);
  opencl_recording_destroy(&device->base, &recording->base);
  *right = !st;
  for (uint32_t i = 0; i < tried->probe->out; i++)
    *right = *right && words[i] == tried->probe->right(i);
  return st;
}

/* Runs the probe of instruction `i` once. Sets *right if its results are correct. Any failure means
 * that the instruction is not used; if the device is lost, the next call reports it. */
static clave_status try_instruction(cl_device *device, int i, bool *right) {
  mutex_lock(device->lock);
  instruction_state known = device->instructions[i];
  mutex_unlock(device->lock);
  *right = known == INSTRUCTION_RIGHT;
  if (known != INSTRUCTION_UNTRIED) return NULL;
  clave_status st = try_probe(device, &instructions[i], right); /* two threads may both do this */
  /* If only the vendor suggests an instruction and the device refuses it, there is no note. */
  const bool is_expected = instructions[i].extensions[0] || instructions[i].must_be_named;
  if (!*right && (is_expected || !st))
    device_note(device, "the instruction %s%s does not work on %s (%s), so kernels do not use it",
                instructions[i].name, instructions[i].probe == &mma_codes_probe ? " of bytes" : "",
                device->base.info.name, st ? status_message(st) : "wrong results");
  status_free(st);
  mutex_lock(device->lock);
  device->instructions[i] = *right ? INSTRUCTION_RIGHT : INSTRUCTION_UNUSED;
  mutex_unlock(device->lock);
  return NULL;
}

void instruction_try(cl_device *device, int number) {
  bool right;
  if (number < INSTRUCTIONS) status_free(try_instruction(device, number, &right));
}

/* Sets *how to instruction.how of the first working instruction with this probe, or to 0. */
static clave_status find_right(const cl_recorder *recorder, const probe *probe, int *how) {
  *how = 0;
  for (int i = 0; i < INSTRUCTIONS && !*how; i++) {
    bool right = false;
    if (instructions[i].probe == probe) TRY(try_instruction(recorder->device, i, &right));
    if (right) *how = instructions[i].how;
  }
  return NULL;
}

clave_status recorder_dots(const cl_recorder *recorder, dots_kind *out) {
  int how;
  TRY(find_right(recorder, &dots_probe, &how));
  *out = how ? (dots_kind)how : DOTS_BYTES;
  return NULL;
}

clave_status recorder_has_subgroups(const cl_recorder *recorder, bool *out) {
  int how;
  TRY(find_right(recorder, &subgroups_probe, &how));
  *out = how != 0;
  return NULL;
}

clave_status recorder_halves(const cl_recorder *recorder, halves_kind *out) {
  int how = HALVES_NONE;
  clave_status st = recorder_is_fast(recorder) ? find_right(recorder, &halves_probe, &how) : NULL;
  *out = (halves_kind)how;
  return st;
}

/* Sets *out to the first unit for matrices whose products of codes, or of floats, are right. */
static clave_status find_unit(const cl_recorder *recorder, bool of_codes, mma_unit *out) {
  *out = (mma_unit){.kind = MMA_NONE};
  for (int i = 0; i < INSTRUCTIONS && out->kind == MMA_NONE; i++) {
    const instruction *tried = &instructions[i];
    bool right = false;
    if (is_of_matrices(tried) && (tried->probe == &mma_codes_probe) == of_codes)
      TRY(try_instruction(recorder->device, i, &right));
    if (right) *out = unit_of(tried);
  }
  return NULL;
}

clave_status recorder_mma(const cl_recorder *recorder, mma_unit *out) {
  return find_unit(recorder, false, out);
}

clave_status recorder_mma_codes(const cl_recorder *recorder, mma_unit *out) {
  return find_unit(recorder, true, out);
}
