/* clave doctor: collects what a bug report needs: the system, OpenCL's loader and drivers, the
 * cache, and the results of each device. Child processes (probe.c) query the drivers, because a
 * driver may crash. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "clave_files.h"
#include "cli/carried.h"
#include "cli/checks.h"
#include "cli/command_line.h"
#include "cli/diagnosis.h"
#include "cli/files.h"
#include "cli/interrupts.h"
#include "cli/isolation.h"
#include "cli/progress.h"
#include "cli/variables.h"
#include "json/fields.h"
#include "json/writer.h"

typedef struct doctor_arguments {
  const char *device, *family;
  bool json;
} doctor_arguments;

static const flag doctor_flags[] = {
    {"--device", FLAG_TEXT, offsetof(doctor_arguments, device), "D",
     "checks only this device: cpu, opencl:N", 0, 0},
    {"--family", FLAG_TEXT, offsetof(doctor_arguments, family), "F",
     "checks only this family of kernels (softmax, conv), without speed measurements", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(doctor_arguments, json), NULL, "machine-readable output", 0,
     0},
};

typedef struct doctor {
  json_writer writer;
  const char *family;            /* NULL: all */
  text problems;                 /* consecutive NUL-terminated lines */
  char *folder, *findings, *log; /* owned; the children's files are in the folder */
  char *cache;                   /* owned: the cache folder, or NULL */
} doctor;

static void add_problem(doctor *doctor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_problem(doctor *doctor, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  text_vprintf(&doctor->problems, format, arguments);
  va_end(arguments);
  text_append(&doctor->problems, "", 1);
}

/* ---------------------------------------------------------------- the system */

/* Finds the first line of a file that starts with `begin`, and copies what follows its colon. */
static void find_line(const char *path, const char *begin, char *out, size_t size) {
  char line[512];
  FILE *file = fopen(path, "r");
  *out = '\0';
  while (file && !*out && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    line[strcspn(line, "\n")] = '\0';
    if (colon && strncmp(line, begin, strlen(begin)) == 0)
      (void)snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
  }
  if (file) (void)fclose(file);
}

static void write_system(doctor *doctor) {
  struct utsname u = {0};
  char cpu[256], memory[64];
  char *helper = find_helper();
  (void)uname(&u);
  find_line("/proc/cpuinfo", "model name", cpu, sizeof cpu);
  find_line("/proc/meminfo", "MemTotal", memory, sizeof memory);
  emit_object(&doctor->writer, "system");
  emit_string(&doctor->writer, "clave", clave_version());
  emit_string(&doctor->writer, "kernel", u.release);
  emit_string(&doctor->writer, "machine", u.machine);
  emit_string(&doctor->writer, "cpu", cpu);
  emit_integer(&doctor->writer, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
  emit_string(&doctor->writer, "memory", memory);
  emit_string(&doctor->writer, "helper", helper);
  emit_end_object(&doctor->writer);
  free(helper);
}

static void write_environment(doctor *doctor) {
  static const char *const others[] = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "POCL_CACHE_DIR",
                                       "POCL_DEVICES",    "RUSTICL_ENABLE",    "LD_LIBRARY_PATH",
                                       "LD_PRELOAD"};
  emit_object(&doctor->writer, "environment");
  for (size_t i = 0; i < n_variables; i++) {
    const char *value = getenv(all_variables[i].name);
    if (value) emit_string(&doctor->writer, all_variables[i].name, value);
  }
  for (size_t i = 0; i < LENGTH(others); i++) {
    const char *value = getenv(others[i]);
    if (value) emit_string(&doctor->writer, others[i], value);
  }
  emit_end_object(&doctor->writer);
}

/* ---------------------------------------------------------------- the loader's drivers */

static void write_vendor(doctor *doctor, const char *folder, const char *name) {
  char path[4096], driver[512] = "";
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (file && !fgets(driver, sizeof driver, file)) *driver = '\0';
  if (file) (void)fclose(file);
  driver[strcspn(driver, "\r\n")] = '\0';
  emit_record(&doctor->writer, NULL);
  emit_string(&doctor->writer, "file", path);
  emit_string(&doctor->writer, "library", driver);
  emit_end_object(&doctor->writer);
  if (*driver == '/' && access(driver, R_OK) != 0)
    add_problem(
        doctor,
        "%s names the library %s, which cannot be read: reinstall the driver or remove this file",
        path, driver);
}

static void write_vendors(doctor *doctor) {
  const char *given = getenv("OCL_ICD_VENDORS");
  const char *folder = given && *given ? given : "/etc/OpenCL/vendors";
  folder_entry *entries = NULL;
  size_t n = 0;
  clave_status st = folder_list(folder, &entries, &n);
  emit_array(&doctor->writer, "drivers");
  for (size_t i = 0; i < n; i++)
    if (path_has_ending(entries[i].name, ".icd")) write_vendor(doctor, folder, entries[i].name);
  emit_end_array(&doctor->writer);
  folder_list_free(entries, n);
  clave_status_free(st);
}

/* ---------------------------------------------------------------- the cache */

/* Returns the folder, or its nearest existing parent. */
static void find_existing(const char *path, char *out, size_t size) {
  struct stat s;
  (void)snprintf(out, size, "%s", path);
  for (char *slash; stat(out, &s) != 0 && (slash = strrchr(out, '/'));)
    slash[slash == out ? 1 : 0] = '\0';
}

static void doctor_check_folder(doctor *doctor, const char *path) {
  char existing[4096];
  find_existing(path, existing, sizeof existing);
  const bool is_there = strcmp(existing, path) == 0 && access(path, F_OK) == 0;
  const bool is_writable = *existing && access(existing, W_OK | X_OK) == 0;
  emit_bool(&doctor->writer, "exists", is_there);
  emit_bool(&doctor->writer, "writable", is_writable);
  if (!is_writable)
    add_problem(doctor,
                "the cache folder %s is not writable, so each process builds its kernels again",
                path);
  if (!is_there) return;
  const bool is_private = folder_is_private(path);
  emit_bool(&doctor->writer, "private", is_private);
  if (!is_private)
    add_problem(doctor,
                "other users can write to the cache folder %s, so it is not used: run chmod go-w "
                "on it, or set CLAVE_CACHE_DIR",
                path);
}

static void write_cache(doctor *doctor) {
  clave_cache_info info = {.size = sizeof info};
  clave_status st = clave_cache_get_info(&info);
  emit_object(&doctor->writer, "cache");
  emit_string(&doctor->writer, "path", st ? NULL : info.path);
  if (st) {
    add_problem(doctor, "reading the cache: %s", clave_status_message(st));
  } else if (info.path) {
    emit_size(&doctor->writer, "bytes", info.bytes);
    emit_size(&doctor->writer, "files", info.files);
    doctor_check_folder(doctor, info.path);
  }
  emit_end_object(&doctor->writer);
  if (!st && info.path) doctor->cache = strdup(info.path);
  isolation_write(&doctor->writer, doctor->cache);
  clave_status_free(st);
}

/* ---------------------------------------------------------------- children */

/* If programs cannot be started, the check runs in this process and *ended is its exit status. */
static int run_child(const doctor *doctor, const char *device, int *ended) {
  tool *tool;
  page nothing = {0};
  (void)file_remove(doctor->findings);
  const char *words[8] = {"/proc/self/exe", "probe", doctor->findings};
  size_t n = 3;
  if (device) words[n++] = "--device", words[n++] = device;
  if (device && doctor->family) words[n++] = "--family", words[n++] = doctor->family;
  if (!starts_programs()) {
    char *const *arguments = (char *const *)(uintptr_t)(words + 2);
    *ended = run_command_line(&probe_command, "probe ", (int)n - 2, arguments, &nothing);
    return EXIT_GOOD;
  }
  clave_status st = tool_start(words, ".", doctor->log, &tool);
  if (st) return fail_status(st);
  *ended = tool_end(tool, is_interrupted, NULL);
  return is_interrupted(NULL) ? interrupted_exit() : EXIT_GOOD;
}

/* Reads a child's findings, one per line; the last line may be incomplete. */
static int read_findings(const doctor *doctor, diagnosis *out) {
  page all = {0};
  if (!file_exists(doctor->findings)) return EXIT_GOOD;
  int code = read_file(doctor->findings, &all);
  for (const char *at = all.data; !code && at && *at;) {
    const size_t n = strcspn(at, "\n");
    if (at[n]) code = diagnosis_add(out, at, n);
    at += n + (at[n] == '\n');
  }
  text_free(&all);
  return code;
}

static int doctor_run_probe(const doctor *doctor, const char *device, diagnosis *out) {
  int ended = 0;
  int code = run_child(doctor, device, &ended);
  if (!code) code = read_findings(doctor, out);
  out->ended = ended;
  return code;
}

/* ---------------------------------------------------------------- devices */

static void describe_end(doctor *doctor, const char *device, const diagnosis *found) {
  const json *last = diagnosis_last(found);
  const char *family = last ? text_or_null(last, "family") : NULL;
  const int signal = found->ended - 128;
  if (found->ended == 128 + SIGALRM) {
    add_problem(doctor, "%s: the device did not answer in time%s%s", device,
                family ? ", while checking " : "", family ? family : "");
  } else if (signal > 0) {
    add_problem(doctor, "%s: the driver ended the process (signal %d)%s%s", device, signal,
                family ? " while checking " : "", family ? family : "");
  } else if (found->ended && !found->n_problems) {
    add_problem(doctor, "%s: the check ended with status %d", device, found->ended);
  }
}

static int check_device(doctor *doctor, const json *device) {
  diagnosis found = {0};
  const char *name = text_or_null(device, "device");
  show_progress("checking %s", name);
  int code = doctor_run_probe(doctor, name, &found);
  emit_object(&doctor->writer, NULL);
  for (const json *m = json_first(device); m; m = json_next(m))
    if (strcmp(json_key(m), "finding") != 0) emit_json(&doctor->writer, json_key(m), m);
  isolation_write_device(&doctor->writer, doctor->cache, device);
  if (!code) diagnosis_write(&found, name, &doctor->writer, &doctor->problems);
  emit_end_object(&doctor->writer);
  describe_end(doctor, name, &found);
  diagnosis_free(&found);
  return code;
}

static bool is_wanted(const doctor_arguments *arguments, const json *finding) {
  const char *kind = text_or_null(finding, "finding"), *name = text_or_null(finding, "device");
  return kind && name && strcmp(kind, "device") == 0 &&
         (!arguments->device || strcmp(arguments->device, name) == 0);
}

static void write_loader(doctor *doctor, const json *loader) {
  const char *message = loader ? text_or_null(loader, "message") : NULL;
  emit_object(&doctor->writer, "loader");
  emit_string(&doctor->writer, "library", loader ? text_or_null(loader, "library") : NULL);
  emit_string(&doctor->writer, "path", loader ? text_or_null(loader, "path") : NULL);
  emit_string(&doctor->writer, "note", loader ? text_or_null(loader, "hint") : NULL);
  emit_end_object(&doctor->writer);
  if (message) add_problem(doctor, "listing devices: %s", message);
}

static int check_devices(doctor *doctor, const doctor_arguments *arguments) {
  diagnosis found = {0};
  int code = doctor_run_probe(doctor, NULL, &found), n = 0;
  write_loader(doctor, diagnosis_find(&found, "loader"));
  describe_end(doctor, "listing devices", &found);
  emit_array(&doctor->writer, "devices");
  for (size_t i = 0; i < found.count && !code; i++) {
    if (!is_wanted(arguments, found.lines[i])) continue;
    code = check_device(doctor, found.lines[i]);
    n++;
  }
  emit_end_array(&doctor->writer);
  if (!code && arguments->device && n == 0 && !found.ended)
    code = fail_usage("unknown device \"%s\"; clave devices lists the devices", arguments->device);
  diagnosis_free(&found);
  return code;
}

/* ---------------------------------------------------------------- the command */

static int write_problems(doctor *doctor) {
  emit_array(&doctor->writer, "problems");
  for (size_t at = 0; at < doctor->problems.size; at += strlen(doctor->problems.data + at) + 1)
    emit_string(&doctor->writer, NULL, doctor->problems.data + at);
  emit_end_array(&doctor->writer);
  return doctor->problems.failed ? fail_memory() : EXIT_GOOD;
}

static int examine(doctor *doctor, const doctor_arguments *arguments) {
  emit_object(&doctor->writer, NULL);
  write_system(doctor);
  write_environment(doctor);
  write_vendors(doctor);
  write_cache(doctor);
  TRY_EXIT(check_devices(doctor, arguments));
  TRY_EXIT(write_problems(doctor));
  emit_end_object(&doctor->writer);
  return doctor->writer.out->failed ? fail_memory() : EXIT_GOOD;
}

static int doctor_make_folder(doctor *doctor) {
  const char *parent = temporary_folder();
  doctor->folder = folder_create_unique(parent, "clave-doctor-");
  if (!doctor->folder) return fail("cannot create a temporary folder in %s", parent);
  doctor->findings = path_join(doctor->folder, "findings");
  doctor->log = path_join(doctor->folder, "log");
  return doctor->findings && doctor->log ? EXIT_GOOD : fail_memory();
}

static void remove_folder(const doctor *doctor) {
  uint64_t bytes;
  if (doctor->folder) (void)folder_remove(doctor->folder, &bytes);
  free(doctor->folder);
  free(doctor->findings);
  free(doctor->log);
  free(doctor->cache);
}

static bool is_family(const char *name) {
  for (size_t i = 0; i < n_check_rows; i++)
    if (strcmp(check_rows[i].family, name) == 0) return true;
  return false;
}

static int run_doctor(const void *given, page *out) {
  const doctor_arguments *arguments = given;
  page report = {0};
  doctor doctor = {.writer = {.out = &report}, .family = arguments->family};
  if (arguments->family && !is_family(arguments->family))
    return fail_usage("unknown kernel family \"%s\"", arguments->family);
  catch_endings(); /* removes the folder on a signal, too */
  int code = doctor_make_folder(&doctor);
  if (!code) code = examine(&doctor, arguments);
  remove_folder(&doctor);
  const bool is_broken = doctor.problems.size > 0;
  text_free(&doctor.problems);
  if (!code && arguments->json) text_append(out, report.data, report.size);
  if (!code && !arguments->json) code = diagnosis_print(report.data, report.size, out);
  text_free(&report);
  if (code || !is_broken) return code;
  TRY_EXIT(print_page(out));
  return EXIT_FAILED;
}

const command doctor_command = {
    .name = "doctor",
    .usage = "doctor [--device D] [--family F] [--json]",
    .summary = "Checks the system, the OpenCL drivers and each device, for bug reports.",
    .more =
        "Runs each family of kernels on each device and compares the results with the CPU\n"
        "backend. Speeds are estimates that include copies. Each driver is queried in a separate\n"
        "process. The exit status is 1 if something is broken; a missing OpenCL is not an error.\n",
    .flags = doctor_flags,
    .n_flags = LENGTH(doctor_flags),
    .arguments_size = sizeof(doctor_arguments),
    .run = run_doctor,
};
