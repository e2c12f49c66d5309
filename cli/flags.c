/* Parses command lines by a command's table of flags and operands, and writes the help from the
 * same table. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/files.h"

/* ---------------------------------------------------------------- the nearest name */

enum { WORD_LIMIT = 32 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Counts the edits (insertions, deletions, replacements, swaps of neighbours) from left to right;
 * both are shorter than WORD_LIMIT. */
static size_t count_edits(const char *left, const char *right) {
  size_t rows[3][WORD_LIMIT + 1], n = strlen(right);
  for (size_t j = 0; j <= n; j++) rows[0][j] = j;
  for (size_t i = 1; left[i - 1]; i++) {
    size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
    now[0] = i;
    for (size_t j = 1; j <= n; j++) {
      now[j] =
          least(least(now[j - 1], before[j]) + 1, before[j - 1] + (left[i - 1] != right[j - 1]));
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        now[j] = least(now[j], earlier[j - 2] + 1);
      }
    }
  }
  return rows[strlen(left) % 3][n];
}

const char *find_nearest(const char *word, const void *names, size_t count, size_t stride) {
  const char *nearest = NULL;
  size_t length = strlen(word), fewest = length < 5 ? 2 : length / 2;
  if (length >= WORD_LIMIT) return NULL;
  for (size_t i = 0; i < count; i++) {
    const char *name;
    memcpy(&name, (const char *)names + i * stride, sizeof name);
    if (strlen(name) >= WORD_LIMIT) continue;
    size_t edits = count_edits(word, name);
    if (length > 2 && strncmp(word, name, length) == 0) edits = 1;
    if (edits > fewest || (edits == fewest && nearest) || edits >= strlen(name)) continue;
    nearest = name;
    fewest = edits;
  }
  return nearest;
}

/* ---------------------------------------------------------------- parsing */

typedef struct parser {
  const command *command;
  int argc, at;
  char *const *argv;
  char *arguments;
  uint64_t seen; /* bit i: flag i is given */
} parser;

static void *field_of(const parser *parser, const flag *flag) {
  return parser->arguments + flag->offset;
}

static int store_integer(const parser *parser, const flag *flag, const char *value) {
  char *end;
  errno = 0;
  int64_t number = strtoll(value, &end, 10);
  if (!*value || *end || errno || number < flag->min || number > flag->max) {
    return fail_usage("%s: expected an integer from %" PRId64 " to %" PRId64 ", got \"%s\"",
                      flag->name, flag->min, flag->max, value);
  }
  memcpy(field_of(parser, flag), &number, sizeof number);
  return EXIT_GOOD;
}

static int flags_store_number(const parser *parser, const flag *flag, const char *value) {
  char *end;
  double number = number_read(value, &end);
  if (!*value || *end || !(number >= (double)flag->min && number <= (double)flag->max)) {
    return fail_usage("%s: expected a number from %" PRId64 " to %" PRId64 ", got \"%s\"",
                      flag->name, flag->min, flag->max, value);
  }
  memcpy(field_of(parser, flag), &number, sizeof number);
  return EXIT_GOOD;
}

static int store_item(const parser *parser, const flag *flag, const char *value) {
  text_list *list = field_of(parser, flag);
  if (!list->items) list->items = calloc((size_t)parser->argc, sizeof *list->items);
  if (!list->items) return fail_memory();
  list->items[list->count++] = value;
  return EXIT_GOOD;
}

static bool is_list(const flag *flag) {
  return flag->kind == FLAG_LIST || flag->kind == FLAG_INPUTS;
}

static bool flags_is_written(const flag *flag) {
  return flag->kind == FLAG_WRITTEN || flag->kind == FLAG_RENEWED;
}

static int store_value(const parser *parser, const flag *flag, const char *value) {
  if (flag->kind == FLAG_INT) return store_integer(parser, flag, value);
  if (flag->kind == FLAG_NUMBER) return flags_store_number(parser, flag, value);
  if (is_list(flag)) return store_item(parser, flag, value);
  if (flag->kind != FLAG_TEXT && !*value)
    return fail_usage("%s needs a value that is not empty", flag->name);
  if (flags_is_written(flag) && strcmp(value, "-") == 0)
    return fail_usage(
        "%s: expected a file, got \"-\": standard output is used for the output of %s", flag->name,
        parser->command->name);
  memcpy(field_of(parser, flag), &value, sizeof value);
  return EXIT_GOOD;
}

/* Finds the flag whose name is the first `length` letters of `word`. */
static const flag *find_flag(const command *command, const char *word, size_t length) {
  for (size_t i = 0; i < command->n_flags; i++) {
    const flag *flag = &command->flags[i];
    if (strlen(flag->name) == length && strncmp(flag->name, word, length) == 0) return flag;
  }
  return NULL;
}

/* Finds the flag of a short form such as "-p". */
static const flag *find_short(const command *command, const char *word) {
  for (size_t i = 0; i < command->n_shorts && strlen(word) == 2; i++) {
    if (command->shorts[i].letter == word[1])
      return find_flag(command, command->shorts[i].name, strlen(command->shorts[i].name));
  }
  return NULL;
}

/* Suggests the shortest flag that begins with the letters after the single hyphen of `word`. */
static const char *find_begun(const command *command, const char *word) {
  const char *begun = NULL;
  for (size_t i = 0; i < command->n_flags && word[1] != '-'; i++) {
    const char *name = command->flags[i].name;
    bool begins = name[0] == '-' && strncmp(name + 2, word + 1, strlen(word + 1)) == 0;
    if (begins && (!begun || strlen(name) < strlen(begun))) begun = name;
  }
  return begun;
}

static int refuse_flag(const parser *parser, const char *word) {
  static const char *const common[] = {"--help", "--version"};
  const command *command = parser->command;
  const char *nearest = NULL;
  for (size_t i = 0; i < command->n_others; i++)
    if (strcmp(command->others[i].name, word) == 0) nearest = command->others[i].ours;
  if (!nearest) nearest = find_begun(command, word);
  if (!nearest)
    nearest = find_nearest(word, &command->flags[0].name, command->n_flags, sizeof *command->flags);
  if (!nearest) nearest = find_nearest(word, common, LENGTH(common), sizeof *common);
  return nearest ? fail_usage("%s has no flag %s; did you mean %s?", command->name, word, nearest)
                 : fail_usage("%s has no flag %s", command->name, word);
}

/* Returns the bits of all flags that store to the same field, which exclude each other. */
static uint64_t bits_of_field(const parser *parser, const flag *flag) {
  uint64_t bits = 0;
  for (size_t i = 0; i < parser->command->n_flags; i++)
    if (parser->command->flags[i].offset == flag->offset) bits |= (uint64_t)1 << i;
  return bits;
}

static int read_flag(parser *parser, const char *word) {
  const char *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const flag *flag = find_flag(parser->command, word, length);
  if (!flag) flag = find_short(parser->command, word);
  if (!flag) return refuse_flag(parser, word);
  uint64_t bit = (uint64_t)1 << (flag - parser->command->flags);
  if (parser->seen & bit && !is_list(flag)) return fail_usage("%s is given twice", flag->name);
  parser->seen |= bits_of_field(parser, flag);
  if (flag->kind == FLAG_SWITCH) {
    if (equals) return fail_usage("%s accepts no value", flag->name);
    *(bool *)field_of(parser, flag) = true;
    return EXIT_GOOD;
  }
  if (equals) return store_value(parser, flag, equals + 1);
  if (parser->at == parser->argc)
    return fail_usage("%s needs a value: %s", flag->name, flag->value ? flag->value : flag->help);
  return store_value(parser, flag, parser->argv[parser->at++]);
}

int set_argument(const command *command, const char *name, const char *value, void *arguments) {
  parser parser = {.command = command, .arguments = arguments};
  const flag *flag = find_flag(command, name, strlen(name));
  return flag ? store_value(&parser, flag, value) : refuse_flag(&parser, name);
}

static bool is_operand(const flag *flag) {
  return flag->kind == FLAG_OPERAND || flag->kind == FLAG_OPTIONAL;
}

static const flag *flags_next_operand(const parser *parser) {
  for (size_t i = 0; i < parser->command->n_flags; i++) {
    const flag *flag = &parser->command->flags[i];
    if (is_operand(flag) && !(parser->seen >> i & 1)) return flag;
  }
  return NULL;
}

static int read_operand(parser *parser, const char *word) {
  const flag *flag = flags_next_operand(parser);
  if (!flag) return fail_usage("%s: unexpected argument \"%s\"", parser->command->name, word);
  parser->seen |= bits_of_field(parser, flag);
  return store_value(parser, flag, word);
}

parse_result parse_arguments(const command *command, int argc, char *const *argv, void *arguments) {
  parser parser = {.command = command, .argc = argc, .argv = argv, .arguments = arguments};
  bool flags_end = false;
  if (command->defaults) memcpy(arguments, command->defaults, command->arguments_size);
  while (parser.at < argc) {
    const char *word = argv[parser.at++];
    bool is_flag = !flags_end && word[0] == '-' && word[1];
    if (is_flag && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) return PARSED_HELP;
    if (is_flag && strcmp(word, "--version") == 0) return PARSED_VERSION;
    if (is_flag && strcmp(word, "--") == 0) {
      flags_end = true;
    } else if (is_flag ? read_flag(&parser, word) : read_operand(&parser, word)) {
      return PARSED_BADLY;
    }
  }
  const flag *missing = flags_next_operand(&parser);
  if (!missing || missing->kind == FLAG_OPTIONAL) return PARSED;
  (void)fail_usage("%s needs %s: %s", command->name, missing->name, missing->help);
  return PARSED_BADLY;
}

/* Returns the file named by a flag or operand; NULL if it names none or is not given. */
static const char *file_of(const flag *flag, const void *arguments) {
  const char *path;
  if (!flags_is_written(flag) && flag->kind != FLAG_PATH && !is_operand(flag)) return NULL;
  memcpy(&path, (const char *)arguments + flag->offset, sizeof path);
  return path;
}

/* Fails if an output file would overwrite an input, for instance weights that exist nowhere else.
 */
static int refuse_over(const flag *output, const char *written, const flag *from,
                       const char *path) {
  static const char consts[] = "consts.safetensors"; /* the default file of a .json */
  if (flags_is_written(from) && is_same_file(written, path))
    return fail("%s and %s would both write %s", from->name, output->name, path);
  if (output->kind == FLAG_RENEWED && (size_t)output->min == from->offset) return EXIT_GOOD;
  if (file_is_same(written, path))
    return fail("%s %s would overwrite %s, which the command reads", output->name, written, path);
  if (is_operand(from) && path_has_ending(path, ".json") && is_in_folder_of(written, consts, path))
    return fail("%s %s would be read as the constants of %s; write to another file", output->name,
                written, path);
  return EXIT_GOOD;
}

static int flags_check_inputs(const flag *output, const char *written, const flag *from,
                              const void *arguments) {
  const text_list *list = (const void *)((const char *)arguments + from->offset);
  for (uint32_t i = 0; i < list->count; i++) {
    const char *equals = strchr(list->items[i], '=');
    if (equals) TRY_EXIT(refuse_over(output, written, from, equals + 1));
  }
  return EXIT_GOOD;
}

static int flags_check_file(const command *command, const void *arguments, const flag *output) {
  const char *written = file_of(output, arguments);
  if (!written) return EXIT_GOOD;
  for (size_t i = 0; i < command->n_flags; i++) {
    const flag *flag = &command->flags[i];
    const char *path = file_of(flag, arguments);
    if (flag->kind == FLAG_INPUTS) TRY_EXIT(flags_check_inputs(output, written, flag, arguments));
    if (path && flag != output) TRY_EXIT(refuse_over(output, written, flag, path));
  }
  return check_writable(written);
}

int check_written(const command *command, const void *arguments) {
  for (size_t i = 0; i < command->n_flags; i++)
    if (flags_is_written(&command->flags[i]))
      TRY_EXIT(flags_check_file(command, arguments, &command->flags[i]));
  return EXIT_GOOD;
}

void free_arguments(const command *command, void *arguments) {
  for (size_t i = 0; i < command->n_flags; i++) {
    if (is_list(&command->flags[i]))
      free(((text_list *)(void *)((char *)arguments + command->flags[i].offset))->items);
  }
}

/* ---------------------------------------------------------------- help */

char short_of(const command *command, const flag *flag) {
  for (size_t i = 0; i < command->n_shorts; i++) {
    if (!is_operand(flag) && strcmp(command->shorts[i].name, flag->name) == 0)
      return command->shorts[i].letter;
  }
  return 0;
}

void write_help(const command *command, page *out) {
  columns table = {.n_columns = 2};
  text_printf(out, "usage: %s %s\n\n%s\n\n", tool_name(), command->usage, command->summary);
  for (size_t i = 0; i < command->n_flags; i++) {
    const flag *flag = &command->flags[i];
    char letter = short_of(command, flag), shown[] = {'-', letter, ',', ' ', '\0'};
    columns_cell(&table, "%s%s%s%s", letter ? shown : "", flag->name, flag->value ? " " : "",
                 flag->value ? flag->value : "");
    columns_cell(&table, "%s", flag->help);
  }
  columns_cell(&table, "--help");
  columns_cell(&table, "prints this help");
  columns_cell(&table, "--version");
  columns_cell(&table, "prints the version of clave");
  columns_write(&table, 2, out);
  if (command->more) text_printf(out, "\n%s", command->more);
}
