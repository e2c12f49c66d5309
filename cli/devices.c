/* clave devices: every device in one list. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/json.h"

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

static void write_json(const clave_device_info *list, int count, text *out) {
  json j = {.out = out};
  json_array(&j, NULL);
  for (int i = 0; i < count; i++) {
    const clave_device_info *d = &list[i];
    char device[32];
    name_device(d, device, sizeof device);
    json_object(&j, NULL);
    json_string(&j, "device", device);
    json_string(&j, "kind", d->kind);
    json_integer(&j, "index", d->index);
    json_bool(&j, "default", d->is_default);
    json_string(&j, "type", d->type);
    json_string(&j, "name", d->name);
    json_string(&j, "platform", d->platform);
    json_string(&j, "driver", d->driver);
    json_size(&j, "compute_units", d->compute_units);
    json_size(&j, "clock_mhz", d->clock_mhz);
    json_size(&j, "memory", d->memory);
    json_size(&j, "max_alloc", d->max_alloc);
    json_bool(&j, "shares_host_memory", d->shares_host_memory);
    json_string(&j, "extensions", d->extensions);
    json_end_object(&j);
  }
  json_end_array(&j);
}

static void write_row(columns *table, const clave_device_info *d, text *cell) {
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
  text_size(cell, d->memory);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  cell->size = 0;
  text_visible(cell, d->name);
  text_string(cell, ", ");
  text_visible(cell, d->platform);
  columns_cell(table, "%s", cell->data ? cell->data : "");
  columns_cell(table, "%s", d->extensions && *d->extensions ? d->extensions : "-");
}

static void write_table(const clave_device_info *list, int count, text *out) {
  columns table = {.n_columns = 8, .right = {[3] = true, [4] = true, [5] = true}};
  static const char *const titles[] = {"",      "device", "type", "units",
                                       "clock", "memory", "name", "extensions used"};
  text cell = {0};
  for (size_t i = 0; i < LENGTH(titles); i++) columns_cell(&table, "%s", titles[i]);
  for (int i = 0; i < count; i++) write_row(&table, &list[i], &cell);
  columns_write(&table, 0, out);
  text_string(out, "* what an unset CLAVE_DEVICE picks\n");
  out->failed |= cell.failed;
  text_free(&cell);
}

static int list_devices(const void *arguments, text *out) {
  const devices_arguments *a = arguments;
  const clave_device_info *list;
  int count;
  TRY_STATUS(clave_devices(&list, &count));
  const char *hint = clave_devices_hint();
  if (hint) print_note(NULL, hint);
  (a->json ? write_json : write_table)(list, count, out);
  return EXIT_GOOD;
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
