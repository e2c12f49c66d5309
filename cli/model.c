/* Opens devices, programs and sessions for the commands, with notes and progress. */
#include "cli/model.h"

#include <string.h>

#include "clave_files.h"
#include "cli/progress.h"

int read_warm_up(const model_arguments *a, clave_warm_up *out) {
  *out = CLAVE_WARM_UP_WAIT;
  if (!a->warm_up || strcmp(a->warm_up, "wait") == 0) return EXIT_GOOD;
  if (strcmp(a->warm_up, "background") != 0)
    return fail_usage("--warm-up takes wait or background, not \"%s\"", a->warm_up);
  if (a->no_fallback)
    return fail_usage("--warm-up background lets the CPU backend answer, --no-fallback does not");
  *out = CLAVE_WARM_UP_BACKGROUND;
  return EXIT_GOOD;
}

int open_device(const model_arguments *a, model *m) {
  clave_device_options options = {.size = sizeof options,
                                  .no_fallback = a->no_fallback,
                                  .n_threads = (int)a->threads,
                                  .message = print_note,
                                  .binaries = a->binaries,
                                  .binaries_size = a->binaries_size};
  m->allow_custom_kernels = a->allow_custom_kernels;
  show_progress("opening the device");
  TRY_STATUS(clave_device_open(a->device, &options, &m->device));
  m->device_info.size = sizeof m->device_info;
  TRY_STATUS(clave_device_get_info(m->device, &m->device_info));
  clear_progress();
  return EXIT_GOOD;
}

static int refuse_method(const model *m, const char *name, uint32_t count) {
  page names = {0};
  for (uint32_t i = 0; i < count; i++) {
    clave_method_info info = {.size = sizeof info};
    TRY_STATUS(clave_program_method(m->program, i, &info));
    text_printf(&names, "%s%s", i ? ", " : "", info.name);
  }
  int result =
      fail("there is no method \"%s\"; the program has %s", name, names.data ? names.data : "none");
  text_free(&names);
  return result;
}

int choose_method(model *m, const char *name) {
  clave_program_info info = {.size = sizeof info};
  m->method.size = sizeof m->method;
  TRY_STATUS(clave_program_get_info(m->program, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    TRY_STATUS(clave_program_method(m->program, i, &m->method));
    if (strcmp(m->method.name, name ? name : "forward") == 0) return EXIT_GOOD;
  }
  if (name || !info.n_methods) return refuse_method(m, name ? name : "forward", info.n_methods);
  TRY_STATUS(clave_program_method(m->program, 0, &m->method));
  return EXIT_GOOD;
}

int open_program(const model_arguments *a, model *m) {
  clave_program_options options = {.size = sizeof options, .consts = a->consts};
  show_progress("loading %s", a->program);
  TRY_STATUS(clave_program_load(a->program, &options, &m->program));
  clear_progress();
  return choose_method(m, a->method);
}

int pack_program(model *m) {
  const clave_session_options options = {.size = sizeof options, .progress = show_steps};
  show_progress("packing weights");
  TRY_STATUS(clave_program_pack(m->program, m->device, &options));
  clear_progress();
  return EXIT_GOOD;
}

int open_session(model *m, session_kind kind) {
  clave_session_options options = {.size = sizeof options,
                                   .profile = kind == SESSION_PROFILED,
                                   .unfused = kind == SESSION_UNFUSED,
                                   .wide = kind == SESSION_WIDE,
                                   .seed = m->seed,
                                   .warm_up = m->warm_up,
                                   .allow_custom_kernels = m->allow_custom_kernels,
                                   .progress = show_steps,
                                   .cancel = m->cancel};
  show_progress("preparing");
  TRY_STATUS(clave_session_create(m->program, m->device, &options, &m->session));
  clear_progress();
  return EXIT_GOOD;
}

void note_answer(const model *m) {
  const char *by = clave_session_answered_by(m->session);
  if (!by || strcmp(by, m->device_info.kind) == 0) return;
  print_note(NULL, "the CPU backend answered: the device was not ready");
}

void close_model(model *m) {
  clave_session_destroy(m->session);
  clave_program_destroy(m->program);
  clave_device_destroy(m->device);
  *m = (model){0};
}

void page_device(page *t, const model *m) {
  const clave_device_info *info = &m->device_info;
  text_puts(t, info->kind);
  if (info->index >= 0) text_printf(t, ":%d", info->index);
  text_puts(t, " (");
  page_visible(t, info->name);
  text_puts(t, ")");
}
