/* clave probe: looks at one device, or for all, in a process of its own, for a driver may end it
 * (doctor.c starts it). Each finding is a line of JSON that is written at once. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/distance.h"
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
     "the device to look at; without: which there are", 0, 0},
    {"--family", FLAG_TEXT, offsetof(probe_arguments, family), "F", "checks this family alone", 0,
     0},
    {"FILE", FLAG_OPERAND, offsetof(probe_arguments, file), NULL, "where findings are written", 0,
     0},
};

/* A driver that hangs ends here: by SIGALRM. */
enum { LIST_SECONDS = 60, DEVICE_SECONDS = 600 };

typedef struct probe {
  FILE *file;
  clave_device *device, *reference; /* reference: the CPU backend */
  bool is_reference;                /* the device is that backend itself: nothing to compare */
  page line;
  json_writer json;
} probe;

static void begin_line(probe *p, const char *kind) {
  p->line.size = 0;
  p->json = (json_writer){.out = &p->line, .compact = true};
  emit_object(&p->json, NULL);
  emit_string(&p->json, "finding", kind);
}

static int end_line(probe *p) {
  emit_end_object(&p->json);
  text_puts(&p->line, "\n");
  if (p->line.failed) return fail_memory();
  const bool good = fwrite(p->line.data, 1, p->line.size, p->file) == p->line.size;
  return good && fflush(p->file) == 0 ? EXIT_GOOD : fail("the findings cannot be written");
}

/* ---------------------------------------------------------------- one row on two devices */

typedef struct comparison {
  double error, largest; /* of all differences, of the reference's magnitudes */
  uint64_t wrong, count; /* elements */
} comparison;

/* Relative to the largest magnitude of an output: of F16 its rounding and a little of sums. */
static double tolerance_of(const check_row *row, clave_dtype type) {
  return row->exact || is_integer(type) ? 0 : type == CLAVE_F16 ? 2e-3 : 2e-5;
}

static void compare(const check_row *row, const clave_tensor *got, const clave_tensor *want,
                    comparison *c) {
  const double tolerance = tolerance_of(row, want->dtype);
  double largest = 0;
  for (uint64_t i = 0; i < count_elements(want); i++)
    largest = fmax(largest, fabs(load_number(want->dtype, element_at(want, i))));
  for (uint64_t i = 0; i < count_elements(want); i++, c->count++) {
    const double a = load_number(got->dtype, element_at(got, i)),
                 b = load_number(want->dtype, element_at(want, i));
    const double error = number_distance(a, b);
    c->wrong += !(error <= tolerance * largest);
    c->error = fmax(c->error, error);
  }
  c->largest = fmax(c->largest, largest);
}

static clave_status run_both(const check_row *row, const check_program *c, const probe *p,
                             comparison *result) {
  clave_session *sessions[2] = {NULL, NULL};
  clave_status st = run_check(c, p->device, false, &sessions[0]);
  if (!st) st = run_check(c, p->reference, false, &sessions[1]);
  for (uint32_t i = 0; i < c->n_outputs && !st; i++) {
    clave_tensor got, want;
    st = clave_session_output(sessions[0], NULL, i, &got);
    if (!st) st = clave_session_output(sessions[1], NULL, i, &want);
    if (!st) compare(row, &got, &want, result);
  }
  for (int i = 0; i < 2; i++) clave_session_destroy(sessions[i]);
  return st;
}

static const char *name_result(const probe *p, clave_status st, const comparison *c) {
  if (st) return clave_status_code(st) == CLAVE_UNSUPPORTED ? "unsupported" : "error";
  return c->wrong > 0 ? "wrong" : p->is_reference ? "runs" : "right";
}

static int check_row_on(probe *p, const check_row *row) {
  check_program c;
  clave_status st;
  comparison result = {0};
  begin_line(p, "checking");
  emit_string(&p->json, "family", row->family);
  emit_string(&p->json, "op", row->op);
  TRY_EXIT(end_line(p));
  int code = check_program_make(row, &c, &st);
  if (!code && !st) st = run_both(row, &c, p, &result);
  check_program_free(&c);
  if (code) return code;
  begin_line(p, "check");
  emit_string(&p->json, "family", row->family);
  emit_string(&p->json, "op", row->op);
  emit_string(&p->json, "operands", row->fields);
  emit_string(&p->json, "result", name_result(p, st, &result));
  emit_string(&p->json, "message", st ? clave_status_message(st) : NULL);
  emit_size(&p->json, "wrong", result.wrong);
  emit_size(&p->json, "elements", result.count);
  emit_number(&p->json, "error", result.error);
  emit_number(&p->json, "largest", result.largest);
  clave_status_free(st);
  return end_line(p);
}

/* ---------------------------------------------------------------- speed */

static int measure_rate(probe *p, const char *kind, const char *unit, const speed_row *row) {
  run_time took;
  clave_status st = NULL;
  int code = time_check(&row->row, p->device, &took, &st);
  begin_line(p, kind);
  if (code) {
    clave_status_free(st);
    return code;
  }
  emit_string(&p->json, "operands", row->row.fields);
  emit_string(&p->json, "message", st ? clave_status_message(st) : NULL);
  emit_decimal(&p->json, unit, st || took.whole <= 0 ? 0 : row->work / took.whole / 1e6, 2);
  clave_status_free(st);
  return end_line(p);
}

/* Inputs and outputs are copied in a run where a device has memory of its own: an estimate of what
 * a caller gets, not of the hardware's peak. */
static int measure_device(probe *p) {
  TRY_EXIT(measure_rate(p, "bandwidth", "gb_s", &bandwidth_row));
  return measure_rate(p, "compute", "gflop_s", &product_rows[0]);
}

/* ---------------------------------------------------------------- devices */

static int open_devices(probe *p, const char *spec) {
  const clave_device_options options = {.size = sizeof options, .no_fallback = true};
  clave_device_info info = {.size = sizeof info};
  clave_status st = clave_device_open(spec, &options, &p->device);
  if (!st) st = clave_device_get_info(p->device, &info);
  if (!st) st = clave_device_open("cpu", NULL, &p->reference);
  begin_line(p, "open");
  emit_string(&p->json, "message", st ? clave_status_message(st) : NULL);
  const bool good = !st;
  p->is_reference = good && strcmp(info.kind, "cpu") == 0;
  clave_status_free(st);
  TRY_EXIT(end_line(p));
  return good ? EXIT_GOOD : EXIT_FAILED;
}

static int look_at(probe *p, const char *spec, const char *family) {
  (void)alarm(DEVICE_SECONDS);
  int code = open_devices(p, spec);
  for (size_t i = 0; i < n_check_rows && !code; i++) {
    if (!family || strcmp(family, check_rows[i].family) == 0)
      code = check_row_on(p, &check_rows[i]);
  }
  if (!code && !family) code = measure_device(p);
  clave_device_destroy(p->device);
  clave_device_destroy(p->reference);
  return code;
}

/* The file that a library was loaded from, as the kernel knows it; "" if it was not. */
static void find_loaded(const char *name, char *out, size_t size) {
  char line[4096];
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

static int list(probe *p) {
  int count = 0;
  char loader[4096];
  (void)alarm(LIST_SECONDS);
  clave_status st = clave_devices_count(&count);
  find_loaded("/libOpenCL.so", loader, sizeof loader);
  begin_line(p, "loader");
  emit_string(&p->json, "path", *loader ? loader : NULL);
  emit_string(&p->json, "hint", clave_devices_hint());
  emit_string(&p->json, "message", st ? clave_status_message(st) : NULL);
  clave_status_free(st);
  TRY_EXIT(end_line(p));
  for (int i = 0; i < count; i++) {
    clave_device_info d = {.size = sizeof d};
    TRY_STATUS(clave_devices_get(i, &d));
    begin_line(p, "device");
    write_device(&p->json, &d);
    TRY_EXIT(end_line(p));
  }
  return EXIT_GOOD;
}

static int run_probe(const void *arguments, page *out) {
  const probe_arguments *a = arguments;
  probe p = {.file = fopen(a->file, "w")};
  (void)out;
  if (!p.file) return fail("%s cannot be written", a->file);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a doctor that was stopped leaves no process behind */
  int code = a->device ? look_at(&p, a->device, a->family) : list(&p);
  (void)fclose(p.file);
  text_free(&p.line);
  return code;
}

const command probe_command = {
    .name = "probe",
    .usage = "probe [--device D [--family F]] FILE",
    .summary = "Writes what clave doctor asks of a device, a line of JSON for each finding.",
    .flags = probe_flags,
    .n_flags = LENGTH(probe_flags),
    .arguments_size = sizeof(probe_arguments),
    .run = run_probe,
};
