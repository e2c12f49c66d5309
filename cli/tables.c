/* clave command-tables: writes the tables of commands, flags and variables as JSON. The build
 * generates manual pages and completions from them (cli/pages.py). */
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

static void write_flag(json_writer *writer, const command *command, const flag *flag) {
  const char letter[] = {short_of(command, flag), '\0'};
  emit_record(writer, NULL);
  emit_string(writer, "name", flag->name);
  emit_string(writer, "short", *letter ? letter : NULL);
  emit_string(writer, "kind", name_kind(flag->kind));
  emit_string(writer, "value", flag->value);
  emit_string(writer, "help", flag->help);
  emit_end_object(writer);
}

static void write_command(json_writer *writer, const command *command) {
  emit_object(writer, NULL);
  emit_string(writer, "name", command->name);
  emit_string(writer, "usage", command->usage);
  emit_string(writer, "summary", command->summary);
  emit_string(writer, "more", command->more);
  emit_array(writer, "flags");
  for (size_t i = 0; i < command->n_flags; i++) write_flag(writer, command, &command->flags[i]);
  emit_end_array(writer);
  emit_end_object(writer);
}

static void write_variable(json_writer *writer, const variable *variable) {
  if (!variable->help) return;
  emit_record(writer, NULL);
  emit_string(writer, "name", variable->name);
  emit_string(writer, "value", variable->value);
  emit_string(writer, "help", variable->help);
  emit_end_object(writer);
}

static int tables_write(const void *arguments, page *out) {
  json_writer writer = {.out = out};
  (void)arguments;
  emit_object(&writer, NULL);
  emit_string(&writer, "version", clave_version());
  emit_string(&writer, "devices", devices_help);
  emit_string(&writer, "exits", exits_help);
  emit_array(&writer, "variables");
  for (size_t i = 0; i < n_variables; i++) write_variable(&writer, &all_variables[i]);
  emit_end_array(&writer);
  emit_array(&writer, "commands");
  for (size_t i = 0; i < n_commands; i++) write_command(&writer, all_commands[i]);
  emit_end_array(&writer);
  emit_end_object(&writer);
  return EXIT_GOOD;
}

const command tables_command = {
    .name = "command-tables",
    .usage = "command-tables",
    .summary =
        "Prints the command tables from which manual pages and shell completions are generated.",
    .arguments_size = sizeof(tables_arguments),
    .run = tables_write,
};
