/* clave command-tables: the tables of commands, flags and variables as JSON, of which the build
 * makes manual pages and completions (cli/pages.py). */
#include "cli/overview.h"
#include "cli/variables.h"
#include "json/writer.h"

typedef struct tables_arguments {
  bool unused;
} tables_arguments;

static const char *name_kind(flag_kind kind) {
  static const char *const names[] = {
      [FLAG_SWITCH] = "switch",   [FLAG_TEXT] = "text",       [FLAG_PATH] = "path",
      [FLAG_WRITTEN] = "written", [FLAG_RENEWED] = "written", [FLAG_INT] = "integer",
      [FLAG_NUMBER] = "number",   [FLAG_LIST] = "list",       [FLAG_INPUTS] = "list",
      [FLAG_OPERAND] = "operand", [FLAG_OPTIONAL] = "operand"};
  return names[kind];
}

static void write_flag(json_writer *j, const command *c, const flag *f) {
  const char letter[] = {short_of(c, f), '\0'};
  emit_record(j, NULL);
  emit_string(j, "name", f->name);
  emit_string(j, "short", *letter ? letter : NULL);
  emit_string(j, "kind", name_kind(f->kind));
  emit_string(j, "value", f->value);
  emit_string(j, "help", f->help);
  emit_end_object(j);
}

static void write_command(json_writer *j, const command *c) {
  emit_object(j, NULL);
  emit_string(j, "name", c->name);
  emit_string(j, "usage", c->usage);
  emit_string(j, "summary", c->summary);
  emit_string(j, "more", c->more);
  emit_array(j, "flags");
  for (size_t i = 0; i < c->n_flags; i++) write_flag(j, c, &c->flags[i]);
  emit_end_array(j);
  emit_end_object(j);
}

static void write_variable(json_writer *j, const variable *v) {
  emit_record(j, NULL);
  emit_string(j, "name", v->name);
  emit_string(j, "value", v->value);
  emit_string(j, "help", v->help);
  emit_end_object(j);
}

static int write_tables(const void *arguments, page *out) {
  json_writer j = {.out = out};
  (void)arguments;
  emit_object(&j, NULL);
  emit_string(&j, "version", clave_version());
  emit_string(&j, "devices", devices_help);
  emit_string(&j, "exits", exits_help);
  emit_array(&j, "variables");
  for (size_t i = 0; i < n_variables; i++) write_variable(&j, &all_variables[i]);
  emit_end_array(&j);
  emit_array(&j, "commands");
  for (size_t i = 0; i < n_commands; i++) write_command(&j, all_commands[i]);
  emit_end_array(&j);
  emit_end_object(&j);
  return EXIT_GOOD;
}

const command tables_command = {
    .name = "command-tables",
    .usage = "command-tables",
    .summary = "Prints the tables of commands that manual pages and completions are made of.",
    .arguments_size = sizeof(tables_arguments),
    .run = write_tables,
};
