/* Instructions that only some GPUs have. The device's list of extensions names them, or its
 * driver's name implies them. Because a driver may get wrong what it claims to support, a small
 * probe kernel runs each instruction once, and its results are compared with the known answer.
 * Kernels that use an instruction are built only on devices that passed. */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

/* A probe kernel, kernels_cl/<name>_probe.cl. Its buffer has `out` words for results, followed by
 * `in` words of input. */
typedef struct probe {
  size_t group;
  uint32_t out, in;
  uint32_t (*input)(uint32_t i);
  int32_t (*right)(uint32_t i); /* the right result i */
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

/* Same layout as kernels_cl/support/mma_probe.cl: a lane has 4 words of a, 2 of b, ordered as in
 * mma.h. */
enum { WARP = 32, FRAGMENT = 6, MMA_SUMS = 4 };
static uint32_t mma_input(uint32_t i) { return probe_word(i, 3) >> 7; }
/* Returns factor k of row `row` of a, or of column `row` of b, from its lane's words. */
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

static const probe dots_probe = {1, LANES, TURNS, probe_factor, dots_sum},
                   subgroups_probe = {MEMBERS, MEMBERS, MEMBERS, subgroups_input, subgroups_sum},
                   mma_probe = {WARP, 2 * WARP *MMA_SUMS, WARP *FRAGMENT, mma_input, mma_sum};

/* An instruction, named by an extension or as in PTX. The best one for each probe comes first. */
typedef struct instruction {
  const char *name;
  const probe *probe;
  int how;                   /* a dots_kind or mma_kind; 1 for sub-groups */
  const char *extensions[2]; /* the device must have one of these */
  const char *platform;      /* part of the platform's name; NULL matches any */
  bool must_be_named;        /* used only if CLAVE_ASM names it: for tests */
} instruction;
static const instruction instructions[] = {
    {.name = "cl_khr_integer_dot_product",
     .probe = &dots_probe,
     .how = DOTS_PACKED,
     .extensions = {"cl_khr_integer_dot_product"}},
    {.name = "subgroups",
     .probe = &subgroups_probe,
     .how = 1,
     .extensions = {"cl_khr_subgroups", "cl_intel_subgroups"}},
    {.name = "mma_sync", .probe = &mma_probe, .how = MMA_PTX, .platform = "NVIDIA"},
    {.name = "mma_local", .probe = &mma_probe, .how = MMA_LOCAL, .must_be_named = true}};
enum { INSTRUCTIONS = sizeof instructions / sizeof *instructions };
_Static_assert(INSTRUCTIONS == sizeof((cl_device *)0)->instructions / sizeof(instruction_state),
               "a state for each");

static bool is_usable(const cl_device *device, const instruction *tried) {
  if (device->entry->traits.is_cpu) return false;
  if (tried->platform && !strstr(device->base.info.platform, tried->platform)) return false;
  bool has_one = !tried->extensions[0];
  for (int i = 0; i < 2 && tried->extensions[i]; i++)
    has_one = has_one || has_word(device->base.info.extensions, tried->extensions[i]);
  return has_one;
}

static clave_status refuse_choice(const char *choice) {
  text names = {0};
  for (int i = 0; i < INSTRUCTIONS; i++)
    text_printf(&names, "%s%s",
                i == 0                 ? ""
                : i < INSTRUCTIONS - 1 ? ", "
                                       : " or ",
                instructions[i].name);
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
               may_run = (all && !tried->must_be_named) || is_named;
    known = known || is_named;
    device->instructions[i] =
        may_run && is_usable(device, tried) ? INSTRUCTION_UNTRIED : INSTRUCTION_UNUSED;
  }
  return known ? NULL : refuse_choice(choice);
}

/* ---------------------------------------------------------------- the probe */

static void choose_probe(launch *launch, const instruction *tried) {
  if (tried->probe == &dots_probe) {
    launch_dots(launch, (dots_kind)tried->how);
    launch_args(launch, &(dots_probe_args){.sums = scratch_arg(0), .turns = TURNS});
  } else if (tried->probe == &subgroups_probe) {
    launch_subgroups(launch, true);
    launch_args(launch, &(subgroups_probe_args){.sums = scratch_arg(0)});
  } else {
    launch_define(launch, "MMA", tried->how);
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
  clave_status st = launch_run(&launch, 1, &tried->probe->group, &tried->probe->group);
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

/* Runs the probe of an instruction. Sets *right to false if a result is wrong or the device rejects
 * it. */
static clave_status try_probe(cl_device *device, const instruction *tried, bool *right) {
  enum { MOST = 512 };
  cl_recording *recording = calloc(1, sizeof *recording);
  stream *stream = NULL;
  buffer *memory = NULL;
  int32_t words[MOST] = {0};
  if (!recording) return status_no_memory();
  clave_status st = record_probe(device, tried, recording);
  if (!st) st = opencl_stream_create(&device->base, &stream);
  if (!st) st = opencl_buffer_create(&device->base, sizeof words, &memory);
  if (!st) st = instructions_run_probe(stream, &recording->base, tried->probe, memory, words);
  opencl_buffer_destroy(&device->base, memory);
  opencl_stream_destroy(&device->base, stream);
  opencl_recording_destroy(&device->base, &recording->base);
  *right = !st;
  for (uint32_t i = 0; i < tried->probe->out; i++)
    *right = *right && words[i] == tried->probe->right(i);
  return st;
}

/* Runs the probe of instruction `i` once. Sets *right if its results are correct. Whatever else
 * happens means that the instruction is not used: if the device is lost, the next call says so. */
static clave_status try_instruction(cl_device *device, int i, bool *right) {
  mutex_lock(device->lock);
  instruction_state known = device->instructions[i];
  mutex_unlock(device->lock);
  *right = known == INSTRUCTION_RIGHT;
  if (known != INSTRUCTION_UNTRIED) return NULL;
  clave_status st = try_probe(device, &instructions[i], right); /* two threads may both do this */
  if (!*right)
    device_note(device, "the instruction %s does not work on %s (%s), so other kernels run instead",
                instructions[i].name, device->base.info.name,
                st ? status_message(st) : "wrong results");
  status_free(st);
  mutex_lock(device->lock);
  device->instructions[i] = *right ? INSTRUCTION_RIGHT : INSTRUCTION_UNUSED;
  mutex_unlock(device->lock);
  return NULL;
}

/* Sets *how to the `how` of the first working instruction with this probe, or to 0. */
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

clave_status recorder_mma(const cl_recorder *recorder, mma_kind *out) {
  int how;
  TRY(find_right(recorder, &mma_probe, &how));
  *out = (mma_kind)how;
  return NULL;
}
