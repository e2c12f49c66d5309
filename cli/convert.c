/* clave convert: between the two forms of a program. */
#include <string.h>

#include "cli/model.h"
#include "cli/progress.h"

typedef struct convert_arguments {
  model_arguments model;
  const char *to;
} convert_arguments;

static const flag convert_flags[] = {
    {"A", FLAG_OPERAND, offsetof(convert_arguments, model.program), NULL, "the program to read", 0,
     0},
    {"B", FLAG_OPERAND, offsetof(convert_arguments, to), NULL, "the program to write", 0, 0},
    {"--consts", FLAG_PATH, offsetof(convert_arguments, model.consts), "FILE",
     "constants of A if it is a .json (default: consts.safetensors beside it)", 0, 0},
};

int check_program_ending(const char *path) {
  const char *dot = strrchr(path, '.');
  if (dot && (strcmp(dot, ".clv") == 0 || strcmp(dot, ".json") == 0)) return EXIT_GOOD;
  return fail("%s: a program's name ends in .clv or .json", path);
}

static int convert_files(const convert_arguments *a, model *m) {
  TRY_EXIT(check_program_ending(a->to));
  TRY_EXIT(open_program(&a->model, m));
  show_progress("writing %s", a->to);
  TRY_STATUS(clave_program_save(m->program, a->to));
  clear_progress();
  return EXIT_GOOD;
}

static int convert_program(const void *arguments, page *out) {
  model m = {0};
  (void)out;
  int result = convert_files(arguments, &m);
  close_model(&m);
  return result;
}

const command convert_command = {
    .name = "convert",
    .usage = "convert A B [--consts FILE]",
    .summary = "Converts between X.json (with consts.safetensors beside it) and X.clv.",
    .more = "The endings say which; another program's constants are not overwritten.\n",
    .flags = convert_flags,
    .n_flags = LENGTH(convert_flags),
    .arguments_size = sizeof(convert_arguments),
    .run = convert_program,
};
