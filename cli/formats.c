/* clave inspect --formats: the ops of other formats that programs can be made from. */
#include "cli/formats.h"

#include "clave_files.h"
#include "json/writer.h"

static void write_formats_json(page *out) {
  clave_import_op op = {.size = sizeof op};
  json_writer writer = {.out = out};
  emit_array(&writer, NULL);
  for (uint32_t i = 0; clave_import_op_at(i, &op); i++) {
    emit_object(&writer, NULL);
    emit_string(&writer, "format", op.format);
    emit_string(&writer, "domain", op.domain);
    emit_string(&writer, "op", op.name);
    emit_integer(&writer, "since", op.since);
    emit_end_object(&writer);
  }
  emit_end_array(&writer);
}

void write_import_ops(bool json, page *out) {
  clave_import_op op = {.size = sizeof op};
  columns table = {.n_columns = 4, .right = {[3] = true}};
  if (json) {
    write_formats_json(out);
    return;
  }
  for (uint32_t i = 0; clave_import_op_at(i, &op); i++) {
    columns_cell(&table, "%s", op.format);
    columns_cell(&table, "%s", op.domain[0] ? op.domain : "-");
    columns_cell(&table, "%s", op.name);
    columns_cell(&table, "%d", op.since);
  }
  columns_write(&table, 0, out);
}
