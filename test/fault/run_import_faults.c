/* Imports a folder with a language model, and fails the Nth allocation, for N = 0, 1, 2 ... Each
 * run ends with an error or with the same program.
 *
 *   run_import_faults FOLDER FIRST STEP */
#include <stdlib.h>
#include <string.h>

#include "clave_llm.h"
#include "test/fault/loop.h"

typedef struct scenario {
  const char *folder;
  clave_program *program;
  clave_program_info info;
} scenario;

static clave_status import_folder(void *context) {
  scenario *scenario = context;
  scenario->info = (clave_program_info){.size = sizeof scenario->info};
  TRY(clave_llm_import(scenario->folder, &scenario->program));
  return clave_program_get_info(scenario->program, &scenario->info);
}

static const char *is_wrong(void *context) {
  const clave_program_info *info = &((const scenario *)context)->info;
  if (info->n_methods != 1 || !info->n_state) return "the program has no state";
  return strstr(info->metadata, "\"max_context\":64") ? NULL : "the metadata are wrong";
}

static clave_status do_nothing(void *context) {
  (void)context;
  return NULL;
}

static void end_scenario(void *context) {
  scenario *scenario = context;
  clave_program_destroy(scenario->program);
  scenario->program = NULL;
}

int main(int argc, char **argv) {
  scenario scenario = {.folder = argc > 1 ? argv[1] : ""};
  const fault_test test = {&scenario, import_folder, is_wrong, do_nothing, end_scenario};
  if (argc != 4) return 2;
  return fault_loop(&test, "alloc", strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
}
