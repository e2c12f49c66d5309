/* clave devices: every device in one list. */
#include "cli/devices.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/command.h"

typedef struct devices_arguments {
  bool json;
} devices_arguments;

static const flag devices_flags[] = {
    {"--json", FLAG_SWITCH, offsetof(devices_arguments, json), NULL, "for programs", 0, 0},
};

static void name_device(const clave_device_info *d, char *out, size_t size) {
  if (d->index < 0) {
    (void)snprintf(out, size, "%s", d->kind);
  } else {
    (void)snprintf(out, size, "%s:%d", d->kind, d->index);
  }
}

void write_device(json_writer *out, const clave_device_info *d) {
  char device[32];
  name_device(d, device, sizeof device);
  emit_string(out, "device", device);
  emit_string(out, "kind", d->kind);
  emit_integer(out, "index", d->index);
  emit_bool(out, "default", d->is_default);
  emit_string(out, "type", d->type);
  emit_string(out, "name", d->name);
  emit_string(out, "platform", d->platform);
  emit_string(out, "driver", d->driver);
  emit_size(out, "compute_units", d->compute_units);
  emit_size(out, "clock_mhz", d->clock_mhz);
  emit_size(out, "memory", d->memory);
  emit_size(out, "max_alloc", d->max_alloc);
  emit_bool(out, "shares_host_memory", d->shares_host_memory);
  emit_string(out, "extensions", d->extensions);
  emit_size(out, "tuned", d->n_tuned);
}

static int write_json(int count, page *out) {
  json_writer j = {.out = out};
  emit_array(&j, NULL);
  for (int i = 0; i < count; i++) {
    clave_device_info d = {.size = sizeof d};
    TRY_STATUS(clave_devices_get(i, &d));
    emit_object(&j, NULL);
    write_device(&j, &d);
    emit_end_object(&j);
  }
  emit_end_array(&j);
  return EXIT_GOOD;
}

static void write_row(columns *table, const clave_device_info *d, page *cell) {
  char device[32];
  name_device(d, device, sizeof device);
  columns_cell(table, "%s", d->is_default ? "*" : "");
  columns_cell(table, "%s", device);
  columns_cell(table, "%s", d->type);
  columns_cell(table, "%" PRIu32, d->compute_units);
  if (d->clock_mhz) {
    columns_cell(table, "%" PRIu32 " MHz", d->clock_mhz);
  } else {
    columns_cell(table, "-");
  }
  cell->size = 0;
  page_size(cell, d->memory);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  cell->size = 0;
  page_visible(cell, d->name);
  columns_cell(table, "%s", cell->data ? cell->data : "");
}

/* Under the name: a row of its own that has nothing else. */
static void write_remark(columns *table, const char *title, const char *remark, page *cell) {
  if (!remark || !*remark) return;
  for (uint32_t i = 1; i < table->n_columns; i++) columns_cell(table, "%s", "");
  cell->size = 0;
  page_visible(cell, remark);
  columns_cell(table, "%s%s", title, cell->data ? cell->data : "");
}

static int write_table(int count, page *out) {
  static const char *const titles[] = {"", "device", "type", "units", "clock", "memory", "name"};
  columns table = {.n_columns = LENGTH(titles), .right = {[3] = true, [4] = true, [5] = true}};
  page cell = {0};
  for (size_t i = 0; i < LENGTH(titles); i++) columns_cell(&table, "%s", titles[i]);
  for (int i = 0; i < count; i++) {
    char tuned[32];
    clave_device_info d = {.size = sizeof d};
    TRY_STATUS(clave_devices_get(i, &d));
    write_row(&table, &d, &cell);
    write_remark(&table, "", d.platform, &cell);
    write_remark(&table, "uses ", d.extensions, &cell);
    if (d.n_tuned) (void)snprintf(tuned, sizeof tuned, "%" PRIu32 " sizes", d.n_tuned);
    write_remark(&table, "tuned for ", d.n_tuned ? tuned : NULL, &cell);
  }
  columns_write(&table, 0, out);
  text_puts(out, "* what an unset CLAVE_DEVICE picks\n");
  out->failed |= cell.failed;
  text_free(&cell);
  return EXIT_GOOD;
}

static int list_devices(const void *arguments, page *out) {
  const devices_arguments *a = arguments;
  int count;
  TRY_STATUS(clave_devices_count(&count));
  const char *hint = clave_devices_hint();
  if (hint) print_note(NULL, hint);
  return (a->json ? write_json : write_table)(count, out);
}

const command devices_command = {
    .name = "devices",
    .usage = "devices [--json]",
    .summary = "Lists every OpenCL device and the CPU backend.",
    .flags = devices_flags,
    .n_flags = LENGTH(devices_flags),
    .arguments_size = sizeof(devices_arguments),
    .run = list_devices,
};
