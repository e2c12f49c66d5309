/* clave probe: checks one device, or lists all, in a separate process, because a driver may crash
 * (doctor.c starts it). Writes each finding at once as a line of JSON. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/distance.h"
#include "clave_opencl.h"
#include "cli/checks.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/speeds.h"
#include "cli/values.h"
#include "json/writer.h"

typedef struct probe_arguments {
  const char *device, *family, *file;
} probe_arguments;

static const flag probe_flags[] = {
    {"--device", FLAG_TEXT, offsetof(probe_arguments, device), "D",
     "the device to check (default: lists all devices)", 0, 0},
    {"--family", FLAG_TEXT, offsetof(probe_arguments, family), "F",
     "checks only this family of kernels", 0, 0},
    {"FILE", FLAG_OPERAND, offsetof(probe_arguments, file), NULL, "the file to write findings to",
     0, 0},
};

/* Time limits, after which SIGALRM ends the process because a driver hangs. */
enum { LIST_SECONDS = 60, DEVICE_SECONDS = 600 };

typedef struct probe {
  FILE *file;
  clave_device *device, *reference; /* reference: the CPU backend */
  bool is_reference; /* the device is the CPU backend itself, so there is nothing to compare */
  text notes;        /* consecutive NUL-terminated lines, which the library sends one at a time */
  page line;
  json_writer json;
} probe;

static void probe_keep_note(void *context, const char *line) {
  probe *probe = context;
  text_append(&probe->notes, line, strlen(line) + 1);
}

static void probe_begin_line(probe *probe, const char *kind) {
  probe->line.size = 0;
  probe->json = (json_writer){.out = &probe->line, .compact = true};
  emit_object(&probe->json, NULL);
  emit_string(&probe->json, "finding", kind);
}

static int end_line(probe *probe) {
  emit_end_object(&probe->json);
  text_puts(&probe->line, "\n");
  if (probe->line.failed) return fail_memory();
  const bool good = fwrite(probe->line.data, 1, probe->line.size, probe->file) == probe->line.size;
  return good && fflush(probe->file) == 0 ? EXIT_GOOD
                                          : fail("writing the findings to the file failed");
}

/* ---------------------------------------------------------------- one row on two devices */

typedef struct comparison {
  double error, largest; /* largest difference, and largest magnitude of the reference */
  uint64_t wrong, count; /* numbers of elements */
} comparison;

/* Returns the tolerance relative to an output's largest magnitude; for F16 its rounding and a
 * margin for sums. */
static double probe_tolerance_of(const check_row *row, clave_dtype type) {
  return row->exact || is_integer(type) ? 0 : type == CLAVE_F16 ? 2e-3 : 2e-5;
}

static void probe_compare(const check_row *row, const clave_tensor *got, const clave_tensor *want,
                          comparison *comparison) {
  const double tolerance = probe_tolerance_of(row, want->dtype);
  double largest = 0;
  for (uint64_t i = 0; i < count_elements(want); i++)
    largest = fmax(largest, fabs(load_number(want->dtype, values_element_at(want, i))));
  for (uint64_t i = 0; i < count_elements(want); i++, comparison->count++) {
    const double a = load_number(got->dtype, values_element_at(got, i)),
                 b = load_number(want->dtype, values_element_at(want, i));
    const double error = number_distance(a, b);
    comparison->wrong += !(error <= tolerance * largest);
    comparison->error = fmax(comparison->error, error);
  }
  comparison->largest = fmax(comparison->largest, largest);
}

static clave_status run_both(const check_row *row, const check_program *program, const probe *probe,
                             comparison *result) {
  clave_session *sessions[2] = {NULL, NULL};
  clave_status st = run_check(program, probe->device, false, &sessions[0]);
  if (!st) st = run_check(program, probe->reference, false, &sessions[1]);
  for (uint32_t i = 0; i < program->n_outputs && !st; i++) {
    clave_tensor got, want;
    st = clave_session_output(sessions[0], NULL, i, &got);
    if (!st) st = clave_session_output(sessions[1], NULL, i, &want);
    if (!st) probe_compare(row, &got, &want, result);
  }
  for (int i = 0; i < 2; i++) clave_session_destroy(sessions[i]);
  return st;
}

static const char *name_result(const probe *probe, clave_status st, const comparison *comparison) {
  if (st) return clave_status_code(st) == CLAVE_UNSUPPORTED ? "unsupported" : "error";
  return comparison->wrong > 0 ? "wrong" : probe->is_reference ? "runs" : "right";
}

static int check_row_on(probe *probe, const check_row *row) {
  check_program program;
  clave_status st;
  comparison result = {0};
  probe_begin_line(probe, "checking");
  emit_string(&probe->json, "family", row->family);
  emit_string(&probe->json, "op", row->op);
  TRY_EXIT(end_line(probe));
  int code = check_program_make(row, &program, &st);
  if (!code && !st) st = run_both(row, &program, probe, &result);
  check_program_free(&program);
  if (code) return code;
  probe_begin_line(probe, "check");
  emit_string(&probe->json, "family", row->family);
  emit_string(&probe->json, "op", row->op);
  emit_string(&probe->json, "operands", row->fields);
  emit_string(&probe->json, "result", name_result(probe, st, &result));
  emit_string(&probe->json, "message", st ? clave_status_message(st) : NULL);
  emit_size(&probe->json, "wrong", result.wrong);
  emit_size(&probe->json, "elements", result.count);
  emit_number(&probe->json, "error", result.error);
  emit_number(&probe->json, "largest", result.largest);
  clave_status_free(st);
  return end_line(probe);
}

/* ---------------------------------------------------------------- speed */

static int probe_measure_rate(probe *probe, const char *kind, const char *unit,
                              const speed_row *row) {
  run_time took;
  clave_status st = NULL;
  int code = time_check(&row->row, probe->device, &took, &st);
  probe_begin_line(probe, kind);
  if (code) {
    clave_status_free(st);
    return code;
  }
  emit_string(&probe->json, "operands", row->row.fields);
  emit_string(&probe->json, "message", st ? clave_status_message(st) : NULL);
  emit_decimal(&probe->json, unit, st || took.whole <= 0 ? 0 : row->work / took.whole / 1e6, 2);
  clave_status_free(st);
  return end_line(probe);
}

/* Estimates the speed that a caller gets, not the hardware's peak: on a device with separate
 * memory, runs copy inputs and outputs. */
static int measure_device(probe *probe) {
  TRY_EXIT(probe_measure_rate(probe, "bandwidth", "gb_s", &bandwidth_row));
  return probe_measure_rate(probe, "compute", "gflop_s", &product_rows[0]);
}

/* ---------------------------------------------------------------- devices */

static int open_devices(probe *probe, const char *spec) {
  const clave_device_options options = {.size = sizeof options,
                                        .no_fallback = true,
                                        .message = probe_keep_note,
                                        .message_ctx = probe};
  clave_device_info info = {.size = sizeof info};
  clave_status st = clave_device_open(spec, &options, &probe->device);
  if (!st) st = clave_device_get_info(probe->device, &info);
  if (!st) st = clave_device_open("cpu", NULL, &probe->reference);
  probe_begin_line(probe, "open");
  emit_string(&probe->json, "message", st ? clave_status_message(st) : NULL);
  const bool good = !st;
  probe->is_reference = good && strcmp(info.kind, "cpu") == 0;
  clave_status_free(st);
  TRY_EXIT(end_line(probe));
  return good ? EXIT_GOOD : EXIT_FAILED;
}

/* Writes the notes of the device, which is closed. */
static int write_notes(probe *probe) {
  for (size_t at = 0; at < probe->notes.size; at += strlen(probe->notes.data + at) + 1) {
    probe_begin_line(probe, "note");
    emit_string(&probe->json, "note", probe->notes.data + at);
    TRY_EXIT(end_line(probe));
  }
  return probe->notes.failed ? fail_memory() : EXIT_GOOD;
}

static int probe_check_device(probe *probe, const char *spec, const char *family) {
  (void)alarm(DEVICE_SECONDS);
  int code = open_devices(probe, spec);
  for (size_t i = 0; i < n_check_rows && !code; i++) {
    if (!family || strcmp(family, check_rows[i].family) == 0)
      code = check_row_on(probe, &check_rows[i]);
  }
  if (!code && !family) code = measure_device(probe);
  clave_device_destroy(probe->device);
  clave_device_destroy(probe->reference);
  return code ? code : write_notes(probe);
}

/* Finds the file that a library was loaded from in the process's memory map; "" if it is not
 * loaded, or has another name there. */
static void find_loaded(const char *library, char *out, size_t size) {
  char line[4096], name[512];
  const char *slash = library ? strrchr(library, '/') : NULL;
  (void)snprintf(name, sizeof name, "/%s", slash ? slash + 1 : library ? library : "libOpenCL.so");
  FILE *maps = fopen("/proc/self/maps", "r");
  *out = '\0';
  while (maps && !*out && fgets(line, sizeof line, maps)) {
    char *path = strchr(line, '/');
    if (!path || !strstr(path, name)) continue;
    path[strcspn(path, "\n")] = '\0';
    (void)snprintf(out, size, "%s", path);
  }
  if (maps) (void)fclose(maps);
}

static int list(probe *probe) {
  int count = 0;
  char loader[4096];
  (void)alarm(LIST_SECONDS);
  clave_status st = clave_devices_count(&count);
  const char *library = clave_opencl_library();
  find_loaded(library, loader, sizeof loader);
  probe_begin_line(probe, "loader");
  emit_string(&probe->json, "library", library);
  emit_string(&probe->json, "path", *loader ? loader : NULL);
  emit_string(&probe->json, "hint", clave_devices_hint());
  emit_string(&probe->json, "message", st ? clave_status_message(st) : NULL);
  clave_status_free(st);
  TRY_EXIT(end_line(probe));
  for (int i = 0; i < count; i++) {
    clave_device_info info = {.size = sizeof info};
    TRY_STATUS(clave_devices_get(i, &info));
    probe_begin_line(probe, "device");
    write_device(&probe->json, &info);
    TRY_EXIT(end_line(probe));
  }
  return EXIT_GOOD;
}

static int probe_run(const void *given, page *out) {
  const probe_arguments *arguments = given;
  probe probe = {.file = fopen(arguments->file, "w")};
  (void)out;
  if (!probe.file) return fail("cannot open %s for writing", arguments->file);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* this process ends if the doctor is killed */
  int code = arguments->device ? probe_check_device(&probe, arguments->device, arguments->family)
                               : list(&probe);
  (void)alarm(0);
  (void)fclose(probe.file);
  text_free(&probe.line);
  text_free(&probe.notes);
  return code;
}

const command probe_command = {
    .name = "probe",
    .usage = "probe [--device D [--family F]] FILE",
    .summary = "Writes the findings of clave doctor about a device, one JSON line each.",
    .flags = probe_flags,
    .n_flags = LENGTH(probe_flags),
    .arguments_size = sizeof(probe_arguments),
    .run = probe_run,
};
