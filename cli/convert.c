/* clave convert: converts between the two file formats of a program, optionally with packed
 * weights. */
#include <string.h>

#include "clave_files.h"
#include "clave_llm.h"
#include "cli/model.h"
#include "cli/progress.h"

typedef struct convert_arguments {
  model_arguments model;
  const char *to, *device;
} convert_arguments;

static const flag convert_flags[] = {
    {"A", FLAG_OPERAND, offsetof(convert_arguments, model.program), NULL, "the program to read", 0,
     0},
    {"B", FLAG_OPERAND, offsetof(convert_arguments, to), NULL, "the program to write", 0, 0},
    {"--consts", FLAG_PATH, offsetof(convert_arguments, model.consts), "FILE",
     "constants of A if it is a .json program (default: consts.safetensors beside it)", 0, 0},
    LANGUAGE_MODEL_FLAG(convert_arguments),
    {"--pack", FLAG_TEXT, offsetof(convert_arguments, device), "DEVICE",
     "adds weights packed for that device (cpu, opencl, ...); none: removes all packed weights", 0,
     0},
};

int check_program_ending(const char *path) {
  const char *dot = strrchr(path, '.');
  if (dot && (strcmp(dot, ".clv") == 0 || strcmp(dot, ".json") == 0)) return EXIT_GOOD;
  return fail("%s: expected a file name that ends in .clv or .json", path);
}

static bool is_json(const char *path) { return strcmp(strrchr(path, '.'), ".json") == 0; }

static int convert_pack(const convert_arguments *arguments, model *model) {
  const model_arguments on = {.device = arguments->device};
  if (strcmp(arguments->device, "none") == 0) {
    TRY_STATUS(clave_program_unpack(model->program));
    return EXIT_GOOD;
  }
  TRY_EXIT(open_device(&on, model));
  return pack_program(model);
}

/* Fails if the program has a tokenizer that cannot be read: that of an imported model, for example.
 */
static int check_tokenizer(const convert_arguments *arguments, const model *model) {
  size_t size;
  clave_tokenizer *tokenizer;
  if (!clave_program_section(model->program, "TOKN", &size)) return EXIT_GOOD;
  clave_status st = clave_tokenizer_of_program(model->program, &tokenizer);
  clave_tokenizer_destroy(tokenizer);
  if (!st) return EXIT_GOOD;
  const int code =
      fail("%s: its tokenizer: %s", arguments->model.program, clave_status_message(st));
  clave_status_free(st);
  return code;
}

static int convert_files(const convert_arguments *arguments, model *model) {
  TRY_EXIT(check_program_ending(arguments->to));
  if (arguments->device && is_json(arguments->to))
    return fail_usage("--pack: %s cannot store packed weights; write a .clv", arguments->to);
  TRY_EXIT(open_program(&arguments->model, model));
  TRY_EXIT(check_tokenizer(arguments, model));
  if (arguments->device) TRY_EXIT(convert_pack(arguments, model));
  if (is_json(arguments->to) && clave_program_count_packed_weights(model->program))
    print_note(NULL, "packed weights are not written, because a .json cannot store them");
  show_progress("writing %s", arguments->to);
  TRY_STATUS(clave_program_save(model->program, arguments->to));
  clear_progress();
  return EXIT_GOOD;
}

static int convert_program(const void *arguments, page *out) {
  model model = {0};
  (void)out;
  int result = convert_files(arguments, &model);
  close_model(&model);
  return result;
}

const command convert_command = {
    .name = "convert",
    .usage = "convert A B [--consts FILE] [--language-model] [--pack DEVICE]",
    .summary = "Converts a program between .json (with consts.safetensors beside it) and .clv.",
    .more =
        "The file extensions select the formats. The constants of another program are not\n"
        "overwritten. Packed weights are stored in the .clv in addition to the plain weights. A\n"
        "run maps them instead of packing weights on its first run; a device or version with\n"
        "another layout packs its own. Packing follows CLAVE_PRECISION, as runs do.\n",
    .flags = convert_flags,
    .n_flags = LENGTH(convert_flags),
    .arguments_size = sizeof(convert_arguments),
    .run = convert_program,
};
