/* clave devices: lists all devices. */
#include "cli/devices.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/command.h"

typedef struct devices_arguments {
  bool json;
} devices_arguments;

static const flag devices_flags[] = {
    {"--json", FLAG_SWITCH, offsetof(devices_arguments, json), NULL, "machine-readable output", 0,
     0},
};

static void name_device(const clave_device_info *info, char *out, size_t size) {
  if (info->index < 0) {
    (void)snprintf(out, size, "%s", info->kind);
  } else {
    (void)snprintf(out, size, "%s:%d", info->kind, info->index);
  }
}

void write_device(json_writer *out, const clave_device_info *info) {
  char device[32];
  name_device(info, device, sizeof device);
  emit_string(out, "device", device);
  emit_string(out, "kind", info->kind);
  emit_integer(out, "index", info->index);
  emit_bool(out, "default", info->is_default);
  emit_string(out, "type", info->type);
  emit_string(out, "name", info->name);
  emit_string(out, "platform", info->platform);
  emit_string(out, "driver", info->driver);
  emit_string(out, "version", info->version);
  emit_size(out, "compute_units", info->compute_units);
  emit_size(out, "clock_mhz", info->clock_mhz);
  emit_size(out, "memory", info->memory);
  emit_size(out, "max_alloc", info->max_alloc);
  emit_bool(out, "shares_host_memory", info->shares_host_memory);
  emit_string(out, "extensions", info->extensions);
  emit_bool(out, "trusted", info->is_trusted);
  emit_size(out, "tuned", info->n_tuned);
}

static int cli_devices_write_json(int count, page *out) {
  json_writer writer = {.out = out};
  emit_array(&writer, NULL);
  for (int i = 0; i < count; i++) {
    clave_device_info info = {.size = sizeof info};
    TRY_STATUS(clave_devices_get(i, &info));
    emit_object(&writer, NULL);
    write_device(&writer, &info);
    emit_end_object(&writer);
  }
  emit_end_array(&writer);
  return EXIT_GOOD;
}

static void cli_devices_write_row(columns *table, const clave_device_info *info, page *cell) {
  char device[32];
  name_device(info, device, sizeof device);
  columns_cell(table, "%s", info->is_default ? "*" : "");
  columns_cell(table, "%s", device);
  columns_cell(table, "%s", info->type);
  columns_cell(table, "%" PRIu32, info->compute_units);
  if (info->clock_mhz) {
    columns_cell(table, "%" PRIu32 " MHz", info->clock_mhz);
  } else {
    columns_cell(table, "-");
  }
  cell->size = 0;
  page_size(cell, info->memory);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  cell->size = 0;
  page_visible(cell, info->name);
  columns_cell(table, "%s", cell->data ? cell->data : "");
}

/* Writes a row with only a remark in the name column. */
static void write_remark(columns *table, const char *title, const char *remark, page *cell) {
  if (!remark || !*remark) return;
  for (uint32_t i = 1; i < table->n_columns; i++) columns_cell(table, "%s", "");
  cell->size = 0;
  page_visible(cell, remark);
  columns_cell(table, "%s%s", title, cell->data ? cell->data : "");
}

static int cli_devices_write_table(int count, page *out) {
  static const char *const titles[] = {"", "device", "type", "units", "clock", "memory", "name"};
  columns table = {.n_columns = LENGTH(titles), .right = {[3] = true, [4] = true, [5] = true}};
  page cell = {0};
  for (size_t i = 0; i < LENGTH(titles); i++) columns_cell(&table, "%s", titles[i]);
  for (int i = 0; i < count; i++) {
    char tuned[32];
    clave_device_info info = {.size = sizeof info};
    TRY_STATUS(clave_devices_get(i, &info));
    cli_devices_write_row(&table, &info, &cell);
    write_remark(&table, "", info.platform, &cell);
    write_remark(&table, "device version ", info.version, &cell);
    write_remark(&table, "driver ", info.driver, &cell);
    write_remark(&table, "uses ", info.extensions, &cell);
    if (info.n_tuned) (void)snprintf(tuned, sizeof tuned, "%" PRIu32 " sizes", info.n_tuned);
    write_remark(&table, "tuned for ", info.n_tuned ? tuned : NULL, &cell);
  }
  columns_write(&table, 0, out);
  text_puts(out, "* what an unset CLAVE_DEVICE picks\n");
  out->failed |= cell.failed;
  text_free(&cell);
  return EXIT_GOOD;
}

static int list_devices(const void *given, page *out) {
  const devices_arguments *arguments = given;
  int count;
  TRY_STATUS(clave_devices_count(&count));
  const char *hint = clave_devices_hint();
  if (hint) print_note(NULL, hint);
  return (arguments->json ? cli_devices_write_json : cli_devices_write_table)(count, out);
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
