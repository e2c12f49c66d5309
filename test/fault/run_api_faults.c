/* Faults in the functions that run_faults does not call: programs described, changed, saved, made
 * from memory; states read, written and copied; runs observed and profiled; the cache on disk.
 *
 *   run_api_faults alloc|calls PROGRAM DATA DEVICE FOLDER [FIRST STEP]
 *
 * PROGRAM: a .clv with one method, "forward", whose first output does not depend on its state.
 * FOLDER: for files that are written. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clave_builder.h"
#include "clave_debug.h"
#include "clave_files.h"
#include "clave_host.h"
#include "test/fault/net.h"

enum { MAX_CONSTANTS = 64, MAX_STATES = 8, PATH_SIZE = 512 };

typedef struct scenario {
  const char *program_path, *data_path, *device_name, *folder;
  clave_device *device;
  clave_program *program, *saved, *made;
  clave_tensors *data;
  clave_session *session, *other;
  clave_placement *places;
  uint32_t n_observed, n_timings;
  float result[1024]; /* memory to which the first output is bound */
} scenario;

static const char *in_folder(const scenario *scenario, const char *name) {
  static char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/%s", scenario->folder, name);
  return path;
}

/* ---------------------------------------------------------------- programs */

static clave_status describe(const clave_program *program) {
  clave_program_info info = {.size = sizeof info};
  clave_method_info method_info = {.size = sizeof method_info};
  clave_tensor_info tensor_info = {.size = sizeof tensor_info};
  clave_node_info node = {.size = sizeof node};
  clave_tensor constant;
  TRY(clave_program_get_info(program, &info));
  TRY(clave_program_method(program, 0, &method_info));
  for (uint32_t i = 0; i < method_info.n_inputs; i++)
    TRY(clave_program_input(program, method_info.name, i, &tensor_info));
  for (uint32_t i = 0; i < method_info.n_outputs; i++)
    TRY(clave_program_output(program, method_info.name, i, &tensor_info));
  for (uint32_t i = 0; i < method_info.n_nodes; i++)
    TRY(clave_program_node(program, method_info.name, i, &node));
  for (uint32_t i = 0; i < info.n_slots; i++) TRY(clave_program_slot(program, i, &tensor_info));
  for (uint32_t i = 0; i < info.n_state; i++) TRY(clave_program_state(program, i, &tensor_info));
  for (uint32_t i = 0; i < info.n_constants; i++)
    TRY(clave_program_constant(program, i, &constant));
  return clave_program_check_hashes(program);
}

static clave_status optimize(scenario *scenario) {
  const clave_optimize_options options = {.size = sizeof options};
  clave_program *made;
  void *bytes;
  size_t n;
  TRY(clave_program_optimize(scenario->program, &options, &made));
  clave_status st = clave_program_encode(made, &bytes, &n);
  free(bytes);
  clave_program_destroy(made);
  return st;
}

static clave_status change_and_save(scenario *scenario) {
  TRY(clave_program_set_metadata(scenario->program, "{\"a\": 1}"));
  TRY(clave_program_save(scenario->program, in_folder(scenario, "saved.json")));
  TRY(clave_program_set_section(scenario->program, "TEST", "some bytes", 10));
  TRY(clave_program_set_section(scenario->program, "MORE", "x", 1));
  TRY(clave_program_set_section(scenario->program, "MORE", NULL, 0));
  return clave_program_save(scenario->program, in_folder(scenario, "saved.clv"));
}

/* Returns the program in a .clv. The entry of a section is tag, flags, offset and size
 * (docs/reference/formats.md). */
static const uint8_t *find_flatbuffer(const uint8_t *file, size_t *size) {
  enum { SECTIONS = 64, SECTION = 32 };
  uint64_t offset = 0, bytes = 0;
  for (const uint8_t *s = file + SECTIONS; !bytes; s += SECTION) {
    if (memcmp(s, "PROG", 4) != 0) continue;
    memcpy(&offset, s + 8, sizeof offset);
    memcpy(&bytes, s + 16, sizeof bytes);
  }
  *size = (size_t)bytes;
  return file + offset;
}

/* The runner's own allocations do not fail: only the library is under test. */
static void *read_whole(const char *path, size_t *size) {
  static _Alignas(4096) uint8_t bytes[1 << 20];
  FILE *file = fopen(path, "rb");
  *size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file) (void)fclose(file);
  return *size && *size < sizeof bytes ? bytes : NULL;
}

/* Finds the constant of that name in the loaded program. */
static bool find_constant(void *ctx, const char *name, clave_tensor *constant) {
  const scenario *scenario = ctx;
  clave_tensor_info slot = {.size = sizeof slot};
  for (uint32_t i = 0; i < MAX_CONSTANTS; i++) {
    clave_status st = clave_program_slot(scenario->program, i, &slot);
    const bool found = !st && strcmp(slot.name, name) == 0;
    if (found) st = clave_program_constant(scenario->program, i, constant);
    clave_status_free(st);
    if (found || st) return found && !st;
  }
  return false;
}

static clave_status make_by_name(scenario *scenario, const uint8_t *flatbuffer, size_t size) {
  clave_program *program;
  TRY(clave_program_create_by_name(flatbuffer, size, find_constant, scenario, &program));
  clave_program_destroy(program);
  return NULL;
}

static clave_status make_program(scenario *scenario) {
  clave_tensor constants[MAX_CONSTANTS];
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(scenario->program, &info));
  for (uint32_t i = 0; i < info.n_constants; i++)
    TRY(clave_program_constant(scenario->program, i, &constants[i]));
  size_t size;
  const uint8_t *bytes = find_flatbuffer(read_whole(scenario->program_path, &size), &size);
  TRY(make_by_name(scenario, bytes, size));
  TRY(clave_program_create(bytes, size, constants, info.n_constants, &scenario->made));
  return clave_program_own_constants(scenario->made);
}

/* Reads the program in place, as executables that carry a program do. */
static clave_status load_bytes(const scenario *scenario) {
  clave_program *program;
  size_t size;
  const uint8_t *bytes = read_whole(scenario->program_path, &size);
  TRY(clave_program_load_clv(bytes, size, scenario->program_path, &program));
  clave_program_destroy(program);
  TRY(clave_program_load_bytes(bytes, size, scenario->program_path, &program));
  clave_status st = describe(program);
  clave_program_destroy(program);
  return st;
}

static clave_status use_programs(scenario *scenario) {
  TRY(clave_program_load(scenario->program_path, NULL, &scenario->program));
  TRY(describe(scenario->program));
  TRY(load_bytes(scenario));
  TRY(optimize(scenario));
  TRY(change_and_save(scenario));
  TRY(clave_program_load(in_folder(scenario, "saved.clv"), NULL, &scenario->saved));
  return make_program(scenario);
}

/* ---------------------------------------------------------------- sessions */

static bool observe(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  scenario *scenario = ctx;
  (void)node;
  (void)slot;
  scenario->n_observed += value->rank >= 0;
  return true;
}

static bool edit(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value, bool *edited) {
  *edited = true; /* with what it is */
  return observe(ctx, node, slot, value);
}

static clave_status open_sessions(scenario *scenario) {
  clave_session_options options = {.size = sizeof options, .profile = true};
  clave_device_options device = {.size = sizeof device, .n_threads = 2};
  clave_device_info info = {.size = sizeof info};
  clave_memory_info memory = {.size = sizeof memory};
  TRY(clave_device_open(scenario->device_name, &device, &scenario->device));
  TRY(clave_device_get_info(scenario->device, &info));
  clave_device_destroy(clave_device_retain(scenario->device));
  TRY(clave_session_create(scenario->made, scenario->device, &options, &scenario->session));
  TRY(clave_session_memory(scenario->session, &memory));
  return clave_session_create(scenario->made, scenario->device, &options, &scenario->other);
}

static clave_status read_places(const scenario *scenario) {
  clave_method_info method_info = {.size = sizeof method_info};
  clave_placement_info info = {.size = sizeof info};
  TRY(clave_program_method(scenario->made, 0, &method_info));
  for (uint32_t i = 0; i < method_info.n_nodes; i++)
    TRY(clave_placement_get(scenario->places, method_info.name, i, &info));
  return NULL;
}

static clave_status place(scenario *scenario) {
  TRY(clave_program_supported(scenario->made, scenario->device, NULL, &scenario->places));
  TRY(read_places(scenario));
  clave_placement_destroy(scenario->places);
  TRY(clave_session_placement(scenario->session, &scenario->places));
  return read_places(scenario);
}

static clave_status run(clave_session *session, const scenario *scenario) {
  TRY(set_inputs(session, scenario->data));
  return clave_session_run(session, "forward");
}

/* Copies each state through the host to the other session, and all of them back. */
static clave_status move_states(scenario *scenario) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(scenario->made, &info));
  for (uint32_t i = 0; i < info.n_state && i < MAX_STATES; i++) {
    static char bytes[1 << 16];
    clave_tensor_info tensor_info = {.size = sizeof tensor_info};
    TRY(clave_program_state(scenario->made, i, &tensor_info));
    size_t size = clave_dtype_size(tensor_info.dtype);
    for (int k = 0; k < tensor_info.rank; k++) size *= (size_t)tensor_info.max_dims[k];
    TRY(clave_session_read_state(scenario->session, i, bytes, size));
    TRY(clave_session_write_state_part(scenario->other, i, size / 2, bytes, size / 2));
    TRY(clave_session_copy_state_part(scenario->other, i, 0, size / 2, size / 2));
    TRY(clave_session_read_state_part(scenario->session, i, 0, bytes, size / 2));
    TRY(clave_session_write_state(scenario->other, i, bytes, size));
  }
  TRY(clave_session_resize(scenario->session, "context", 9));
  TRY(clave_session_resize(scenario->other, "context", 11));
  return clave_session_copy_state(scenario->session, scenario->other);
}

static clave_status describe_packed_weights(const clave_program *program) {
  clave_packed_weight_info form = {.size = sizeof form};
  for (uint32_t i = 0; i < clave_program_count_packed_weights(program); i++)
    TRY(clave_program_packed_weight(program, i, &form));
  return NULL;
}

/* Loads a separate program, since sessions use the others. */
static clave_status pack(scenario *scenario) {
  clave_program *program = NULL, *back = NULL;
  TRY(clave_program_load(scenario->program_path, NULL, &program));
  clave_status st = clave_program_pack(program, scenario->device, NULL);
  if (!st) st = describe_packed_weights(program);
  if (!st) st = clave_program_save(program, in_folder(scenario, "packed.clv"));
  if (!st) st = clave_program_unpack(program);
  if (!st) st = clave_program_load(in_folder(scenario, "packed.clv"), NULL, &back);
  if (!st) st = clave_program_check_hashes(back);
  clave_program_destroy(program);
  clave_program_destroy(back);
  return st;
}

static clave_status describe_blocks(const clave_session *session) {
  clave_block_info block = {.size = sizeof block};
  uint32_t n, commands;
  TRY(clave_session_count_blocks(session, "forward", &n, &commands));
  for (uint32_t i = 0; i < n; i++) TRY(clave_session_block(session, "forward", i, &block));
  return NULL;
}

static void count_timing(void *ctx, const clave_timing *timing) {
  scenario *scenario = ctx;
  scenario->n_timings += timing->end_ns >= timing->start_ns;
}

static clave_status set_peaks(clave_session *session) {
  const clave_peak one = {.size = sizeof one, .device = "cpu", .flops_a_second = 1e9};
  const clave_peak two[] = {one, one};
  TRY(clave_session_set_peaks(session, two, 2));
  return clave_session_set_peaks(session, &one, 1);
}

static clave_status use_sessions(scenario *scenario) {
  TRY(open_sessions(scenario));
  TRY(pack(scenario));
  TRY(clave_session_observe(scenario->session, observe, scenario));
  TRY(run(scenario->session, scenario));
  TRY(clave_session_edit(scenario->session, edit, scenario));
  TRY(run(scenario->session, scenario));
  TRY(describe_blocks(scenario->session));
  TRY(set_peaks(scenario->session));
  TRY(clave_session_timings(scenario->session, count_timing, scenario));
  TRY(clave_session_write_profile(scenario->session, in_folder(scenario, "profile.json")));
  TRY(clave_session_observe(scenario->session, NULL, NULL));
  TRY(place(scenario));
  TRY(move_states(scenario));
  TRY(run(scenario->other, scenario));
  TRY(clave_session_bind_output(scenario->session, "forward", 0, scenario->result,
                                sizeof scenario->result));
  return run(scenario->session, scenario);
}

/* Refuses a process of another version that requests kernels. */
static clave_status serve_stranger(void) {
  enum { HEAD = 4, GREETING = 40, KIND_GREETING = 1 };
  uint32_t asked[HEAD + GREETING / 4] = {KIND_GREETING, 0, GREETING};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(pair[0], asked, sizeof asked) < 0) abort();
  clave_status st = clave_serve_builds(pair[1]);
  close(pair[0]);
  close(pair[1]);
  if (!st) abort();
  if (clave_status_code(st) != CLAVE_INVALID) return st;
  clave_status_free(st);
  return NULL;
}

/* Guards whole pages of host memory, which are never truncated. */
static clave_status guard_pages(void) {
  static _Alignas(64 << 10) char pages[64 << 10]; /* as large as the largest pages of processors */
  volatile bool is_cut = false;
  clave_guard *guard = NULL;
  TRY(clave_guard_create(pages, sizeof pages, &is_cut, &guard));
  clave_guard_destroy(guard);
  if (is_cut) abort();
  return NULL;
}

static void check_kernels(void *ctx, const clave_cache_kernels *kernels) {
  if (ctx || !kernels->device[0] || kernels->added > kernels->kernels) abort();
}

/* Writes the kernel binaries of the cache to a file and reads them again. */
static clave_status carry_kernels(const char *folder) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/kernels", folder);
  TRY(clave_cache_export(path, check_kernels, NULL));
  return clave_cache_import(path, check_kernels, NULL);
}

static clave_status run_scenario(void *ctx) {
  scenario *scenario = ctx;
  uint64_t removed;
  clave_cache_info info = {.size = sizeof info};
  int n_devices;
  clave_device_info device = {.size = sizeof device};
  TRY(clave_devices_count(&n_devices));
  TRY(clave_devices_get(n_devices - 1, &device));
  TRY(clave_tensors_load(scenario->data_path, &scenario->data));
  TRY(use_programs(scenario));
  TRY(use_sessions(scenario));
  TRY(serve_stranger());
  TRY(guard_pages());
  TRY(clave_tensors_check(scenario->data));
  TRY(clave_cache_get_info(&info));
  TRY(carry_kernels(scenario->folder));
  return clave_cache_trim(info.limit_bytes, &removed);
}

/* ---------------------------------------------------------------- invariants */

static const char *check_scenario(void *ctx) {
  const scenario *scenario = ctx;
  size_t size = 0;
  const void *section = clave_program_section(scenario->saved, "TEST", &size);
  clave_program_info info = {.size = sizeof info};
  if (clave_program_get_info(scenario->saved, &info)) return "no info";
  if (size != 10 || memcmp(section, "some bytes", 10) != 0) return "the section is not the one set";
  if (strcmp(info.metadata, "{\"a\": 1}") != 0) return "the metadata is not what was set";
  if (clave_program_section(scenario->saved, "MORE", &size)) return "a removed section is there";
  if (!scenario->n_observed) return "nothing was observed";
  if (!scenario->n_timings) return "no times";
  if (!right_output(scenario->session, scenario->data)) return "the output is wrong";
  return right_output(scenario->other, scenario->data) ? NULL
                                                       : "the other session's output is wrong";
}

/* Checks that existing files are complete, and that sessions run as before the failure. */
static clave_status resume(void *ctx) {
  scenario *scenario = ctx;
  clave_program *program = NULL;
  clave_session *sessions[2] = {scenario->session, scenario->other};
  for (int i = 0; i < 2; i++) {
    const char *path = in_folder(scenario, i ? "saved.clv" : "saved.json");
    if (access(path, F_OK)) continue;
    TRY(clave_program_load(path, NULL, &program));
    clave_program_destroy(program);
  }
  for (int i = 0; i < 2; i++) {
    if (!sessions[i]) continue;
    TRY(clave_session_observe(sessions[i], NULL, NULL));
    TRY(clave_session_reset(sessions[i]));
    TRY(run(sessions[i], scenario));
    if (!right_output(sessions[i], scenario->data)) abort();
  }
  return NULL;
}

static void end_scenario(void *ctx) {
  static const char *const files[] = {"saved.clv", "saved.json", "consts.safetensors",
                                      "profile.json", "packed.clv"};
  scenario *alive = ctx;
  clave_placement_destroy(alive->places);
  clave_session_destroy(alive->session);
  clave_session_destroy(alive->other);
  clave_tensors_destroy(alive->data);
  clave_program_destroy(alive->made);
  clave_program_destroy(alive->saved);
  clave_program_destroy(alive->program);
  clave_device_destroy(alive->device);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(in_folder(alive, files[i]));
  *alive = (scenario){.program_path = alive->program_path,
                      .data_path = alive->data_path,
                      .device_name = alive->device_name,
                      .folder = alive->folder};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: run_api_faults alloc|calls PROGRAM DATA DEVICE FOLDER [FIRST STEP]\n");
    return 2;
  }
  scenario scenario = {
      .program_path = argv[2], .data_path = argv[3], .device_name = argv[4], .folder = argv[5]};
  const fault_test test = {&scenario, run_scenario, check_scenario, resume, end_scenario};
  return fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
}
