/* clave doctor: what a bug report needs: the system, OpenCL's loader and drivers, the cache, and
 * what each device computes. Drivers are asked by child processes (probe.c), which they may end. */
#include <dirent.h>
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
#include "cli/command.h"
#include "cli/diagnosis.h"
#include "cli/files.h"
#include "cli/interrupts.h"
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
     "checks this device alone: cpu, opencl:N", 0, 0},
    {"--family", FLAG_TEXT, offsetof(doctor_arguments, family), "F",
     "checks this family of kernels alone (softmax, conv), and measures nothing", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(doctor_arguments, json), NULL, "for programs", 0, 0},
};

typedef struct doctor {
  json_writer j;
  const char *family;            /* NULL: all */
  text problems;                 /* NUL-ended, one after the other */
  char *folder, *findings, *log; /* owned; the files of children in it */
} doctor;

static void add_problem(doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_problem(doctor *d, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  text_vprintf(&d->problems, format, arguments);
  va_end(arguments);
  text_append(&d->problems, "", 1);
}

/* ---------------------------------------------------------------- the system */

/* The first line of a file that begins so, behind the colon. */
static void find_line(const char *path, const char *begin, char *out, size_t size) {
  char line[512];
  FILE *f = fopen(path, "r");
  *out = '\0';
  while (f && !*out && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    line[strcspn(line, "\n")] = '\0';
    if (colon && strncmp(line, begin, strlen(begin)) == 0)
      (void)snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
  }
  if (f) (void)fclose(f);
}

static void write_system(doctor *d) {
  struct utsname u = {0};
  char cpu[256], memory[64];
  char *helper = find_helper();
  (void)uname(&u);
  find_line("/proc/cpuinfo", "model name", cpu, sizeof cpu);
  find_line("/proc/meminfo", "MemTotal", memory, sizeof memory);
  emit_object(&d->j, "system");
  emit_string(&d->j, "clave", clave_version());
  emit_string(&d->j, "kernel", u.release);
  emit_string(&d->j, "machine", u.machine);
  emit_string(&d->j, "cpu", cpu);
  emit_integer(&d->j, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
  emit_string(&d->j, "memory", memory);
  emit_string(&d->j, "helper", helper);
  emit_end_object(&d->j);
  free(helper);
}

static void write_environment(doctor *d) {
  static const char *const others[] = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "POCL_CACHE_DIR",
                                       "POCL_DEVICES",    "RUSTICL_ENABLE",    "LD_LIBRARY_PATH",
                                       "LD_PRELOAD"};
  emit_object(&d->j, "environment");
  for (size_t i = 0; i < n_variables; i++) {
    const char *value = getenv(all_variables[i].name);
    if (value) emit_string(&d->j, all_variables[i].name, value);
  }
  for (size_t i = 0; i < LENGTH(others); i++) {
    const char *value = getenv(others[i]);
    if (value) emit_string(&d->j, others[i], value);
  }
  emit_end_object(&d->j);
}

/* ---------------------------------------------------------------- the loader's drivers */

static void write_vendor(doctor *d, const char *folder, const char *name) {
  char path[4096], driver[512] = "";
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  if (f && !fgets(driver, sizeof driver, f)) *driver = '\0';
  if (f) (void)fclose(f);
  driver[strcspn(driver, "\r\n")] = '\0';
  emit_record(&d->j, NULL);
  emit_string(&d->j, "file", path);
  emit_string(&d->j, "library", driver);
  emit_end_object(&d->j);
  if (*driver == '/' && access(driver, R_OK) != 0)
    add_problem(d, "%s names %s, which is not there: its driver was removed", path, driver);
}

static int is_icd(const struct dirent *e) {
  const char *dot = strrchr(e->d_name, '.');
  return dot && strcmp(dot, ".icd") == 0;
}

static void write_vendors(doctor *d) {
  const char *given = getenv("OCL_ICD_VENDORS");
  const char *folder = given && *given ? given : "/etc/OpenCL/vendors";
  struct dirent **entries;
  const int n = scandir(folder, &entries, is_icd, alphasort);
  emit_array(&d->j, "drivers");
  for (int i = 0; i < n; i++) {
    write_vendor(d, folder, entries[i]->d_name);
    free(entries[i]);
  }
  if (n >= 0) free(entries);
  emit_end_array(&d->j);
}

/* ---------------------------------------------------------------- the cache */

/* The folder, or where it is not there yet, the nearest one above it that is. */
static void find_existing(const char *path, char *out, size_t size) {
  struct stat s;
  (void)snprintf(out, size, "%s", path);
  for (char *slash; stat(out, &s) != 0 && (slash = strrchr(out, '/'));)
    slash[slash == out ? 1 : 0] = '\0';
}

static void check_folder(doctor *d, const char *path) {
  char existing[4096];
  find_existing(path, existing, sizeof existing);
  const bool is_there = strcmp(existing, path) == 0 && access(path, F_OK) == 0;
  const bool is_writable = *existing && access(existing, W_OK | X_OK) == 0;
  emit_bool(&d->j, "exists", is_there);
  emit_bool(&d->j, "writable", is_writable);
  if (!is_writable)
    add_problem(d, "the cache %s cannot be written: kernels are built anew by each process", path);
  if (!is_there) return;
  const bool is_private = folder_is_private(path);
  emit_bool(&d->j, "private", is_private);
  if (!is_private)
    add_problem(
        d, "others can write to the cache %s, so it is not used: chmod go-w, or CLAVE_CACHE_DIR",
        path);
}

static void write_cache(doctor *d) {
  clave_cache_info info = {.size = sizeof info};
  clave_status st = clave_cache_get_info(&info);
  emit_object(&d->j, "cache");
  emit_string(&d->j, "path", st ? NULL : info.path);
  if (st) {
    add_problem(d, "the cache: %s", clave_status_message(st));
  } else if (info.path) {
    emit_size(&d->j, "bytes", info.bytes);
    emit_size(&d->j, "files", info.files);
    check_folder(d, info.path);
  }
  emit_end_object(&d->j);
  clave_status_free(st);
}

/* ---------------------------------------------------------------- children */

static int run_child(const doctor *d, const char *device, int *ended) {
  tool *t;
  (void)file_remove(d->findings);
  const char *words[8] = {"/proc/self/exe", "probe", d->findings};
  size_t n = 3;
  if (device) words[n++] = "--device", words[n++] = device;
  if (device && d->family) words[n++] = "--family", words[n++] = d->family;
  clave_status st = tool_start(words, ".", d->log, &t);
  if (st) return fail_status(st);
  *ended = tool_end(t, is_interrupted, NULL);
  return is_interrupted(NULL) ? interrupted_exit() : EXIT_GOOD;
}

/* What a child found, line by line; the last may be cut. */
static int read_findings(const doctor *d, diagnosis *out) {
  page all = {0};
  if (!file_exists(d->findings)) return EXIT_GOOD;
  int code = read_file(d->findings, &all);
  for (const char *at = all.data; !code && at && *at;) {
    const size_t n = strcspn(at, "\n");
    if (at[n]) code = diagnosis_add(out, at, n);
    at += n + (at[n] == '\n');
  }
  text_free(&all);
  return code;
}

static int ask(const doctor *d, const char *device, diagnosis *out) {
  int ended = 0;
  int code = run_child(d, device, &ended);
  if (!code) code = read_findings(d, out);
  out->ended = ended;
  return code;
}

/* ---------------------------------------------------------------- devices */

static void describe_end(doctor *d, const char *device, const diagnosis *found) {
  const json *last = diagnosis_last(found);
  const char *family = last ? text_or_null(last, "family") : NULL;
  const int signal = found->ended - 128;
  if (found->ended == 128 + SIGALRM) {
    add_problem(d, "%s: no answer in time%s%s", device, family ? ", while checking " : "",
                family ? family : "");
  } else if (signal > 0) {
    add_problem(d, "%s: the driver ended the process (signal %d)%s%s", device, signal,
                family ? " while checking " : "", family ? family : "");
  } else if (found->ended && !found->n_problems) {
    add_problem(d, "%s: the check ended with status %d", device, found->ended);
  }
}

static int check_device(doctor *d, const json *device) {
  diagnosis found = {0};
  const char *name = text_or_null(device, "device");
  show_progress("checking %s", name);
  int code = ask(d, name, &found);
  emit_object(&d->j, NULL);
  for (const json *m = json_first(device); m; m = json_next(m))
    if (strcmp(json_key(m), "finding") != 0) emit_json(&d->j, json_key(m), m);
  if (!code) diagnosis_write(&found, name, &d->j, &d->problems);
  emit_end_object(&d->j);
  describe_end(d, name, &found);
  diagnosis_free(&found);
  return code;
}

static bool is_wanted(const doctor_arguments *a, const json *finding) {
  const char *kind = text_or_null(finding, "finding"), *name = text_or_null(finding, "device");
  return kind && name && strcmp(kind, "device") == 0 &&
         (!a->device || strcmp(a->device, name) == 0);
}

static void write_loader(doctor *d, const json *loader) {
  const char *message = loader ? text_or_null(loader, "message") : NULL;
  emit_object(&d->j, "loader");
  emit_string(&d->j, "path", loader ? text_or_null(loader, "path") : NULL);
  emit_string(&d->j, "note", loader ? text_or_null(loader, "hint") : NULL);
  emit_end_object(&d->j);
  if (message) add_problem(d, "listing devices: %s", message);
}

static int check_devices(doctor *d, const doctor_arguments *a) {
  diagnosis found = {0};
  int code = ask(d, NULL, &found), n = 0;
  write_loader(d, diagnosis_find(&found, "loader"));
  describe_end(d, "listing devices", &found);
  emit_array(&d->j, "devices");
  for (size_t i = 0; i < found.count && !code; i++) {
    if (!is_wanted(a, found.lines[i])) continue;
    code = check_device(d, found.lines[i]);
    n++;
  }
  emit_end_array(&d->j);
  if (!code && a->device && n == 0 && !found.ended)
    code = fail_usage("there is no device \"%s\"; clave devices lists them", a->device);
  diagnosis_free(&found);
  return code;
}

/* ---------------------------------------------------------------- the command */

static int write_problems(doctor *d) {
  emit_array(&d->j, "problems");
  for (size_t at = 0; at < d->problems.size; at += strlen(d->problems.data + at) + 1)
    emit_string(&d->j, NULL, d->problems.data + at);
  emit_end_array(&d->j);
  return d->problems.failed ? fail_memory() : EXIT_GOOD;
}

static int examine(doctor *d, const doctor_arguments *a) {
  emit_object(&d->j, NULL);
  write_system(d);
  write_environment(d);
  write_vendors(d);
  write_cache(d);
  TRY_EXIT(check_devices(d, a));
  TRY_EXIT(write_problems(d));
  emit_end_object(&d->j);
  return d->j.out->failed ? fail_memory() : EXIT_GOOD;
}

static int make_folder(doctor *d) {
  const char *parent = temporary_folder();
  d->folder = folder_create_unique(parent, "clave-doctor-");
  if (!d->folder) return fail("%s: no folder for findings can be made there", parent);
  d->findings = path_join(d->folder, "findings");
  d->log = path_join(d->folder, "log");
  return d->findings && d->log ? EXIT_GOOD : fail_memory();
}

static void remove_folder(const doctor *d) {
  uint64_t bytes;
  if (d->folder) (void)folder_remove(d->folder, &bytes);
  free(d->folder);
  free(d->findings);
  free(d->log);
}

static bool is_family(const char *name) {
  for (size_t i = 0; i < n_check_rows; i++)
    if (strcmp(check_rows[i].family, name) == 0) return true;
  return false;
}

static int run_doctor(const void *arguments, page *out) {
  const doctor_arguments *a = arguments;
  page report = {0};
  doctor d = {.j = {.out = &report}, .family = a->family};
  if (a->family && !is_family(a->family))
    return fail_usage("there is no family of kernels \"%s\"", a->family);
  catch_endings(); /* the folder goes, too */
  int code = make_folder(&d);
  if (!code) code = examine(&d, a);
  remove_folder(&d);
  const bool is_broken = d.problems.size > 0;
  text_free(&d.problems);
  if (!code && a->json) text_append(out, report.data, report.size);
  if (!code && !a->json) code = diagnosis_print(report.data, report.size, out);
  text_free(&report);
  if (code || !is_broken) return code;
  TRY_EXIT(print_page(out));
  return EXIT_FAILED;
}

const command doctor_command = {
    .name = "doctor",
    .usage = "doctor [--device D] [--family F] [--json]",
    .summary = "Examines the system, OpenCL's drivers and each device, for bug reports.",
    .more =
        "Each family of kernels runs on each device and is compared with the CPU backend; speeds "
        "are "
        "what\na caller gets, copies included, and estimates. Drivers are asked by processes of "
        "their own. Exit\nstatus 1 where something is broken; that there is no OpenCL is not.\n",
    .flags = doctor_flags,
    .n_flags = LENGTH(doctor_flags),
    .arguments_size = sizeof(doctor_arguments),
    .run = run_doctor,
};
