/* Runs a program's kernels on a device, so that their binaries can be saved. */
#include "cli/binaries.h"

#include <string.h>

#include "clave_llm.h"
#include "cli/inputs.h"
#include "cli/progress.h"

/* ---------------------------------------------------------------- tensors */

static bool has_name(const input *in, const char *name, size_t n) {
  bool has = strncmp(in->info.name, name, n) == 0 && !in->info.name[n];
  for (int i = 0; i < in->info.rank; i++) {
    const char *other = in->info.dim_names[i];
    has = has || (other && strncmp(other, name, n) == 0 && !other[n]);
  }
  return has;
}

/* Fixes the sizes that this method has, and ignores sizes of other methods. */
static int fix_some(input_set *set, const text_list *dims) {
  for (uint32_t i = 0; i < dims->count; i++) {
    const size_t n = strcspn(dims->items[i], "=");
    const text_list one = {.items = dims->items + i, .count = 1};
    bool has = false;
    for (uint32_t k = 0; k < set->count; k++)
      has = has || has_name(&set->items[k], dims->items[i], n);
    if (has) TRY_EXIT(fix_dims(set, &one));
  }
  return EXIT_GOOD;
}

static int cli_binaries_run_once(model *model, const text_list *dims, input_set *inputs) {
  TRY_EXIT(describe_inputs(model, inputs));
  TRY_EXIT(fix_some(inputs, dims));
  TRY_EXIT(generate_inputs(inputs));
  TRY_EXIT(set_inputs(inputs, model));
  TRY_STATUS(clave_session_run(model->session, model->method.name));
  return EXIT_GOOD;
}

/* Runs once with the initial state. */
static int cli_binaries_run_method(model *model, const text_list *dims) {
  input_set inputs = {0};
  TRY_STATUS(clave_session_reset(model->session));
  int result = cli_binaries_run_once(model, dims, &inputs);
  free_inputs(&inputs);
  return result;
}

static int run_methods(model *model, const kernel_runs *runs) {
  clave_program_info info = {.size = sizeof info};
  TRY_EXIT(open_session(model, SESSION_PLAIN));
  if (!runs->all) return cli_binaries_run_method(model, runs->dims);
  TRY_STATUS(clave_program_get_info(model->program, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    model->method.size = sizeof model->method;
    TRY_STATUS(clave_program_method(model->program, i, &model->method));
    TRY_EXIT(cli_binaries_run_method(model, runs->dims));
  }
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- text */

enum { LONGEST_PROMPT = 64 };

/* Prompts with n tokens and generates a few more, one at a time. */
static clave_status generate_after(clave_llm_conversation *talk, size_t n) {
  enum { TOKENS = 4 };
  static const uint32_t prompt[LONGEST_PROMPT];
  clave_llm_token token = {.stop = CLAVE_LLM_GOES_ON};
  clave_status st = clave_llm_reset(talk);
  if (!st) st = clave_llm_prompt(talk, prompt, n);
  for (int i = 0; i < TOKENS && !token.stop && !st; i++) st = clave_llm_next(talk, &token);
  return st;
}

/* Runs prompts of several lengths, because kernels for few rows differ from kernels for many. */
static int cli_binaries_write_text(const clave_llm *llm, clave_llm_conversation *talk) {
  static const uint32_t lengths[] = {1, 4, 16, LONGEST_PROMPT};
  clave_llm_info info = {.size = sizeof info};
  TRY_STATUS(clave_llm_get_info(llm, &info));
  for (size_t i = 0; i < LENGTH(lengths); i++)
    if (lengths[i] < info.max_context) TRY_STATUS(generate_after(talk, lengths[i]));
  return EXIT_GOOD;
}

static int run_text(const model *model, const kernel_runs *runs) {
  const clave_llm_options options = {.size = sizeof options};
  const clave_session_options session_options = {
      .size = sizeof session_options,
      .allow_custom_kernels = model->allow_custom_kernels,
      .progress = show_steps,
      .cancel = model->cancel};
  const clave_llm_conversation_options talks = {
      .size = sizeof talks, .session = &session_options, .ignore_stop_ids = true};
  clave_llm *llm = NULL;
  clave_llm_conversation *talk = NULL;
  clave_status st = clave_llm_load(runs->program, model->device, &options, &llm);
  if (!st) st = clave_llm_conversation_create(llm, &talks, &talk);
  int result = st ? fail_status(st) : cli_binaries_write_text(llm, talk);
  clave_llm_conversation_destroy(talk);
  clave_llm_destroy(llm);
  return result;
}

int run_kernels(model *model, const kernel_runs *runs) {
  int result = runs->text ? run_text(model, runs) : run_methods(model, runs);
  clear_progress();
  return result;
}
