/* The generic reader of command lines: flags and operands by a command's table, help from the same
 * table. */
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

/* Edits (insert, delete, replace, swap neighbours) from a to b; both shorter than WORD_LIMIT. */
static size_t count_edits(const char *a, const char *b) {
  size_t rows[3][WORD_LIMIT + 1], n = strlen(b);
  for (size_t j = 0; j <= n; j++) rows[0][j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
    now[0] = i;
    for (size_t j = 1; j <= n; j++) {
      now[j] = least(least(now[j - 1], before[j]) + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = least(now[j], earlier[j - 2] + 1);
      }
    }
  }
  return rows[strlen(a) % 3][n];
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
  uint64_t seen; /* bit i: flag i was given */
} parser;

static void *field_of(const parser *p, const flag *f) { return p->arguments + f->offset; }

static int store_integer(const parser *p, const flag *f, const char *value) {
  char *end;
  errno = 0;
  int64_t number = strtoll(value, &end, 10);
  if (!*value || *end || errno || number < f->min || number > f->max) {
    return fail_usage("%s takes an integer from %" PRId64 " to %" PRId64 ", not \"%s\"", f->name,
                      f->min, f->max, value);
  }
  memcpy(field_of(p, f), &number, sizeof number);
  return EXIT_GOOD;
}

static int store_number(const parser *p, const flag *f, const char *value) {
  char *end;
  double number = number_read(value, &end);
  if (!*value || *end || !(number >= (double)f->min && number <= (double)f->max)) {
    return fail_usage("%s takes a number from %" PRId64 " to %" PRId64 ", not \"%s\"", f->name,
                      f->min, f->max, value);
  }
  memcpy(field_of(p, f), &number, sizeof number);
  return EXIT_GOOD;
}

static int store_item(const parser *p, const flag *f, const char *value) {
  text_list *list = field_of(p, f);
  if (!list->items) list->items = calloc((size_t)p->argc, sizeof *list->items);
  if (!list->items) return fail_memory();
  list->items[list->count++] = value;
  return EXIT_GOOD;
}

static bool is_list(const flag *f) { return f->kind == FLAG_LIST || f->kind == FLAG_INPUTS; }

static bool is_written(const flag *f) { return f->kind == FLAG_WRITTEN || f->kind == FLAG_RENEWED; }

static int store_value(const parser *p, const flag *f, const char *value) {
  if (f->kind == FLAG_INT) return store_integer(p, f, value);
  if (f->kind == FLAG_NUMBER) return store_number(p, f, value);
  if (is_list(f)) return store_item(p, f, value);
  if (f->kind != FLAG_TEXT && !*value) return fail_usage("%s is empty", f->name);
  if (is_written(f) && strcmp(value, "-") == 0)
    return fail_usage("%s takes a file, not \"-\": standard output has what %s prints", f->name,
                      p->command->name);
  memcpy(field_of(p, f), &value, sizeof value);
  return EXIT_GOOD;
}

/* By the first `length` letters of `word`, which must be all of a flag's name. */
static const flag *find_flag(const command *c, const char *word, size_t length) {
  for (size_t i = 0; i < c->n_flags; i++) {
    const flag *f = &c->flags[i];
    if (strlen(f->name) == length && strncmp(f->name, word, length) == 0) return f;
  }
  return NULL;
}

/* The flag of "-p". */
static const flag *find_short(const command *c, const char *word) {
  for (size_t i = 0; i < c->n_shorts && strlen(word) == 2; i++) {
    if (c->shorts[i].letter == word[1])
      return find_flag(c, c->shorts[i].name, strlen(c->shorts[i].name));
  }
  return NULL;
}

/* The shortest that begins as `word` does behind its hyphen, for those who write a flag with one.
 */
static const char *find_begun(const command *c, const char *word) {
  const char *begun = NULL;
  for (size_t i = 0; i < c->n_flags && word[1] != '-'; i++) {
    const char *name = c->flags[i].name;
    bool begins = name[0] == '-' && strncmp(name + 2, word + 1, strlen(word + 1)) == 0;
    if (begins && (!begun || strlen(name) < strlen(begun))) begun = name;
  }
  return begun;
}

static int refuse_flag(const parser *p, const char *word) {
  static const char *const common[] = {"--help", "--version"};
  const command *c = p->command;
  const char *nearest = NULL;
  for (size_t i = 0; i < c->n_others; i++)
    if (strcmp(c->others[i].name, word) == 0) nearest = c->others[i].ours;
  if (!nearest) nearest = find_begun(c, word);
  if (!nearest) nearest = find_nearest(word, &c->flags[0].name, c->n_flags, sizeof *c->flags);
  if (!nearest) nearest = find_nearest(word, common, LENGTH(common), sizeof *common);
  return nearest ? fail_usage("%s has no flag %s; did you mean %s?", c->name, word, nearest)
                 : fail_usage("%s has no flag %s", c->name, word);
}

/* Of all that store where f does: what is given in one way is not given in another, too. */
static uint64_t bits_of_field(const parser *p, const flag *f) {
  uint64_t bits = 0;
  for (size_t i = 0; i < p->command->n_flags; i++)
    if (p->command->flags[i].offset == f->offset) bits |= (uint64_t)1 << i;
  return bits;
}

static int read_flag(parser *p, const char *word) {
  const char *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const flag *f = find_flag(p->command, word, length);
  if (!f) f = find_short(p->command, word);
  if (!f) return refuse_flag(p, word);
  uint64_t bit = (uint64_t)1 << (f - p->command->flags);
  if (p->seen & bit && !is_list(f)) return fail_usage("%s is given twice", f->name);
  p->seen |= bits_of_field(p, f);
  if (f->kind == FLAG_SWITCH) {
    if (equals) return fail_usage("%s takes no value", f->name);
    *(bool *)field_of(p, f) = true;
    return EXIT_GOOD;
  }
  if (equals) return store_value(p, f, equals + 1);
  if (p->at == p->argc)
    return fail_usage("%s needs a value: %s", f->name, f->value ? f->value : f->help);
  return store_value(p, f, p->argv[p->at++]);
}

int set_argument(const command *c, const char *name, const char *value, void *arguments) {
  parser p = {.command = c, .arguments = arguments};
  const flag *f = find_flag(c, name, strlen(name));
  return f ? store_value(&p, f, value) : refuse_flag(&p, name);
}

static bool is_operand(const flag *f) {
  return f->kind == FLAG_OPERAND || f->kind == FLAG_OPTIONAL;
}

static const flag *next_operand(const parser *p) {
  for (size_t i = 0; i < p->command->n_flags; i++) {
    const flag *f = &p->command->flags[i];
    if (is_operand(f) && !(p->seen >> i & 1)) return f;
  }
  return NULL;
}

static int read_operand(parser *p, const char *word) {
  const flag *f = next_operand(p);
  if (!f) return fail_usage("%s takes no further argument \"%s\"", p->command->name, word);
  p->seen |= bits_of_field(p, f);
  return store_value(p, f, word);
}

parse_result parse_arguments(const command *c, int argc, char *const *argv, void *arguments) {
  parser p = {.command = c, .argc = argc, .argv = argv, .arguments = arguments};
  bool flags_end = false;
  if (c->defaults) memcpy(arguments, c->defaults, c->arguments_size);
  while (p.at < argc) {
    const char *word = argv[p.at++];
    bool is_flag = !flags_end && word[0] == '-' && word[1];
    if (is_flag && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) return PARSED_HELP;
    if (is_flag && strcmp(word, "--version") == 0) return PARSED_VERSION;
    if (is_flag && strcmp(word, "--") == 0) {
      flags_end = true;
    } else if (is_flag ? read_flag(&p, word) : read_operand(&p, word)) {
      return PARSED_BADLY;
    }
  }
  const flag *missing = next_operand(&p);
  if (!missing || missing->kind == FLAG_OPTIONAL) return PARSED;
  (void)fail_usage("%s needs %s: %s", c->name, missing->name, missing->help);
  return PARSED_BADLY;
}

/* The file that a flag or an operand names; NULL: it names none, or is not given. */
static const char *file_of(const flag *f, const void *arguments) {
  const char *path;
  if (!is_written(f) && f->kind != FLAG_PATH && !is_operand(f)) return NULL;
  memcpy(&path, (const char *)arguments + f->offset, sizeof path);
  return path;
}

/* What is read must not be lost: it is the weights, where they are not kept elsewhere. */
static int refuse_over(const flag *w, const char *written, const flag *f, const char *path) {
  static const char consts[] = "consts.safetensors"; /* of a .json, where no other is named */
  if (is_written(f) && is_same_file(written, path))
    return fail("%s and %s would both be written to %s", f->name, w->name, path);
  if (w->kind == FLAG_RENEWED && (size_t)w->min == f->offset) return EXIT_GOOD;
  if (file_is_same(written, path))
    return fail("%s %s would be written over %s, which is read", w->name, written, path);
  if (is_operand(f) && path_has_ending(path, ".json") && is_in_folder_of(written, consts, path))
    return fail("%s %s would lie where the constants of %s are looked for", w->name, written, path);
  return EXIT_GOOD;
}

static int check_inputs(const flag *w, const char *written, const flag *f, const void *arguments) {
  const text_list *list = (const void *)((const char *)arguments + f->offset);
  for (uint32_t i = 0; i < list->count; i++) {
    const char *equals = strchr(list->items[i], '=');
    if (equals) TRY_EXIT(refuse_over(w, written, f, equals + 1));
  }
  return EXIT_GOOD;
}

static int check_file(const command *c, const void *arguments, const flag *w) {
  const char *written = file_of(w, arguments);
  if (!written) return EXIT_GOOD;
  for (size_t i = 0; i < c->n_flags; i++) {
    const flag *f = &c->flags[i];
    const char *path = file_of(f, arguments);
    if (f->kind == FLAG_INPUTS) TRY_EXIT(check_inputs(w, written, f, arguments));
    if (path && f != w) TRY_EXIT(refuse_over(w, written, f, path));
  }
  return check_writable(written);
}

int check_written(const command *c, const void *arguments) {
  for (size_t i = 0; i < c->n_flags; i++)
    if (is_written(&c->flags[i])) TRY_EXIT(check_file(c, arguments, &c->flags[i]));
  return EXIT_GOOD;
}

void free_arguments(const command *c, void *arguments) {
  for (size_t i = 0; i < c->n_flags; i++) {
    if (is_list(&c->flags[i]))
      free(((text_list *)(void *)((char *)arguments + c->flags[i].offset))->items);
  }
}

/* ---------------------------------------------------------------- help */

char short_of(const command *c, const flag *f) {
  for (size_t i = 0; i < c->n_shorts; i++) {
    if (!is_operand(f) && strcmp(c->shorts[i].name, f->name) == 0) return c->shorts[i].letter;
  }
  return 0;
}

void write_help(const command *c, page *out) {
  columns table = {.n_columns = 2};
  text_printf(out, "usage: %s %s\n\n%s\n\n", tool_name(), c->usage, c->summary);
  for (size_t i = 0; i < c->n_flags; i++) {
    const flag *f = &c->flags[i];
    char letter = short_of(c, f), shown[] = {'-', letter, ',', ' ', '\0'};
    columns_cell(&table, "%s%s%s%s", letter ? shown : "", f->name, f->value ? " " : "",
                 f->value ? f->value : "");
    columns_cell(&table, "%s", f->help);
  }
  columns_cell(&table, "--help");
  columns_cell(&table, "this text");
  columns_cell(&table, "--version");
  columns_cell(&table, "the version of clave");
  columns_write(&table, 2, out);
  if (c->more) text_printf(out, "\n%s", c->more);
}
