/* The command line of clave generate for an executable with an embedded model, on the device it was
 * compiled for. */
#include <stdlib.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/generate_arguments.h"
#include "compile/carried/carried.h"
#include "compile/carried/device.h"

enum { MAX_FLAGS = 64 };

/* True for flags that name the program, and on the CPU backend for those that choose a device. */
static bool is_left_out(const flag *flag) {
  static const char *const names[] = {
      "PROG", "--consts", "--device", "--no-fallback", "--allow-custom-kernels", "--warm-up"};
  const size_t n = strcmp(carried.device, "opencl") == 0 ? 2 : LENGTH(names);
  for (size_t i = 0; i < n; i++)
    if (strcmp(flag->name, names[i]) == 0) return true;
  return false;
}

static int generate_on_device(const void *arguments, page *out) {
  generate_arguments given = *(const generate_arguments *)arguments;
  const char *choice = given.model.device, *from = choice ? "--device" : "CLAVE_DEVICE";
  clave_status st = carried_device(carried.device, choice ? choice : getenv("CLAVE_DEVICE"), from,
                                   &given.model.device);
  if (!st) return generate_command.run(&given, out);
  const int code = fail("%s", status_message(st));
  status_free(st);
  return code;
}

static int carried_generate_answer(int argc, char *const *argv, page *out) {
  static flag flags[MAX_FLAGS];
  generate_arguments defaults = *(const generate_arguments *)generate_command.defaults;
  command command = generate_command;
  defaults.model.program = carried.name;
  defaults.model.clv = carried.clv;
  defaults.model.clv_size = carried.size;
  defaults.model.binaries = carried.binaries;
  defaults.model.binaries_size = carried.binaries_size;
  defaults.model.allow_custom_kernels = carried.allow_custom_kernels != 0;
  command.name = tool_name();
  command.usage = "(--prompt TEXT | --prompt-ids F | --chat | --chat-file M.json) ...";
  command.more =
      "Writes text to standard output as it is generated, and statistics to standard "
      "error.\nCtrl-C stops at the next token, with exit status 130.\n";
  if (carried.tests.methods)
    command.more =
        "Writes text to standard output as it is generated, and statistics to standard "
        "error.\nCtrl-C stops at the next token, with exit status 130. --verify, without other "
        "options,\nchecks results on random inputs against those computed when the program was "
        "compiled.\n";
  command.flags = flags;
  command.n_flags = 0;
  for (size_t i = 0; i < generate_command.n_flags && command.n_flags < MAX_FLAGS; i++)
    if (!is_left_out(&generate_command.flags[i]))
      flags[command.n_flags++] = generate_command.flags[i];
  command.defaults = &defaults;
  command.run = generate_on_device;
  return run_command_line(&command, "", argc - 1, argv + 1, out);
}

int carried_generate(int argc, char **argv) {
  const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
  name_tool(slash ? slash + 1 : argc > 0 ? argv[0] : "model");
  return answer_process(carried_generate_answer, argc, argv);
}
