/* Opens devices, programs and sessions for the commands, with notes and progress. */
#include "cli/model.h"

#include <string.h>

#include "base/file.h"
#include "clave_files.h"
#include "clave_llm.h"
#include "cli/progress.h"
#include "json/fields.h"

int read_warm_up(const model_arguments *arguments, clave_warm_up *out) {
  *out = CLAVE_WARM_UP_WAIT;
  if (!arguments->warm_up || strcmp(arguments->warm_up, "wait") == 0) return EXIT_GOOD;
  if (strcmp(arguments->warm_up, "background") != 0)
    return fail_usage("--warm-up: expected wait or background, got \"%s\"", arguments->warm_up);
  if (arguments->no_fallback)
    return fail_usage(
        "--warm-up background runs on the CPU backend first, which --no-fallback forbids");
  *out = CLAVE_WARM_UP_BACKGROUND;
  return EXIT_GOOD;
}

int open_device(const model_arguments *arguments, model *model) {
  clave_device_options options = {.size = sizeof options,
                                  .no_fallback = arguments->no_fallback,
                                  .n_threads = (int)arguments->threads,
                                  .message = print_note,
                                  .binaries = arguments->binaries,
                                  .binaries_size = arguments->binaries_size};
  model->allow_custom_kernels = arguments->allow_custom_kernels;
  show_progress("opening the device");
  TRY_STATUS(clave_device_open(arguments->device, &options, &model->device));
  model->device_info.size = sizeof model->device_info;
  TRY_STATUS(clave_device_get_info(model->device, &model->device_info));
  clear_progress();
  return EXIT_GOOD;
}

static int cli_model_refuse_method(const model *model, const char *name, uint32_t count) {
  page names = {0};
  for (uint32_t i = 0; i < count; i++) {
    clave_method_info info = {.size = sizeof info};
    TRY_STATUS(clave_program_method(model->program, i, &info));
    text_printf(&names, "%s%s", i ? ", " : "", info.name);
  }
  int result = fail("unknown method \"%s\"; the methods of the program are %s", name,
                    names.data ? names.data : "none");
  text_free(&names);
  return result;
}

int choose_method(model *model, const char *name) {
  clave_program_info info = {.size = sizeof info};
  model->method.size = sizeof model->method;
  TRY_STATUS(clave_program_get_info(model->program, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    TRY_STATUS(clave_program_method(model->program, i, &model->method));
    if (strcmp(model->method.name, name ? name : "forward") == 0) return EXIT_GOOD;
  }
  if (name || !info.n_methods)
    return cli_model_refuse_method(model, name ? name : "forward", info.n_methods);
  TRY_STATUS(clave_program_method(model->program, 0, &model->method));
  return EXIT_GOOD;
}

/* Prints the notes that the importer of an .onnx file left in the program's metadata. Metadata of
 * other files may be any text. */
static int print_import_notes(const char *path, const clave_program *program) {
  clave_program_info info = {.size = sizeof info};
  json *document = NULL;
  if (!path_has_ending(path, ".onnx")) return EXIT_GOOD;
  TRY_STATUS(clave_program_get_info(program, &info));
  if (info.metadata && *info.metadata)
    clave_status_free(json_parse(info.metadata, strlen(info.metadata), &document));
  const json *notes = document ? field_or_null(document, "notes") : NULL;
  if (notes && json_kind_of(notes) == JSON_ARRAY)
    for (const json *i = json_first(notes); i; i = json_next(i))
      if (json_kind_of(i) == JSON_STRING) print_note(NULL, json_string(i));
  json_free(document);
  return EXIT_GOOD;
}

int open_program(const model_arguments *arguments, model *model) {
  clave_program_options options = {.size = sizeof options, .consts = arguments->consts};
  show_progress("loading %s", arguments->program);
  TRY_STATUS(arguments->language_model || folder_exists(arguments->program)
                 ? clave_llm_import(arguments->program, &model->program)
                 : clave_program_load(arguments->program, &options, &model->program));
  clear_progress();
  TRY_EXIT(print_import_notes(arguments->program, model->program));
  return choose_method(model, arguments->method);
}

int pack_program(model *model) {
  const clave_session_options options = {.size = sizeof options, .progress = show_steps};
  show_progress("packing weights");
  TRY_STATUS(clave_program_pack(model->program, model->device, &options));
  clear_progress();
  return EXIT_GOOD;
}

int open_session(model *model, session_kind kind) {
  clave_session_options options = {.size = sizeof options,
                                   .profile = kind == SESSION_PROFILED,
                                   .unfused = kind == SESSION_UNFUSED,
                                   .wide = kind == SESSION_WIDE,
                                   .seed = model->seed,
                                   .warm_up = model->warm_up,
                                   .allow_custom_kernels = model->allow_custom_kernels,
                                   .progress = show_steps,
                                   .cancel = model->cancel};
  show_progress("preparing");
  TRY_STATUS(clave_session_create(model->program, model->device, &options, &model->session));
  clear_progress();
  return EXIT_GOOD;
}

void note_answer(const model *model) {
  const char *by = clave_session_answered_by(model->session);
  if (!by || strcmp(by, model->device_info.kind) == 0) return;
  print_note(NULL, "the CPU backend computed the result, because the device was not ready");
}

void close_model(model *own_model) {
  clave_session_destroy(own_model->session);
  clave_program_destroy(own_model->program);
  clave_device_destroy(own_model->device);
  *own_model = (model){0};
}

void page_device(page *page, const model *model) {
  const clave_device_info *info = &model->device_info;
  text_puts(page, info->kind);
  if (info->index >= 0) text_printf(page, ":%d", info->index);
  text_puts(page, " (");
  page_visible(page, info->name);
  text_puts(page, ")");
}
