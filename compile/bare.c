/* Writes the functions of a program for firmware and their header. */
#include "compile/bare.h"

#include "compile/library.h"
#include "compile/parameters.h"
#include "compile/tables.h"

static void bare_write_run(const compile_plan *plan, const char *name, text *to) {
  text_printf(to, "int %s_run(", name);
  parameters_write(plan, "", to);
  text_puts(to, ")");
}

clave_status bare_write_header(const compile_plan *plan, const compile_options *options, text *to) {
  const char *name = options->library;
  library_begin_header(name, to);
  text_puts(
      to,
      "/* One model, in static memory, used by one thread at a time. It calls only functions of\n"
      " * string.h and math.h. The first run packs weights that are not packed for its\n"
      " * processor. */\n\n");
  library_describe_run(plan, to);
  text_puts(to, " * Returns 0 on success, else an error code; outputs are then undefined. */\n");
  bare_write_run(plan, name, to);
  text_printf(
      to,
      ";\n/* Text of a code that %s_run returned, \"index out of range\"; \"\" for 0. Static. */\n"
      "const char *%s_error(int code);\n"
      "/* Node in which the last run failed, \"node 3 (matmul, linear_1)\", or \"\". Static. */\n"
      "const char *%s_where(void);\n"
      "void %s_reset(void); /* restores the initial state */\n",
      name, name, name, name);
  library_end_header(to);
  return text_status(to);
}

static void write_texts(const char *name, text *to) {
  text_printf(to,
              "const char *%s_error(int code) {\n  static const char *const texts[] = {\n      "
              "[MODEL_GOOD] = \"\",\n      [MODEL_INDEX] = \"index out of range\",\n      "
              "[MODEL_DIVISION] = \"integer division by zero\",\n      [MODEL_ROWS] = \"positions "
              "do not fit into a cache\",\n      [MODEL_NO_MEMORY] = \"this processor's kernels "
              "need more memory than was compiled in\",\n      [MODEL_PROCESSOR] = \"weights "
              "packed for another processor\"};\n  return code < 0 || code > MODEL_PROCESSOR ? "
              "\"no code of this program\" : texts[code];\n}\n\n",
              name);
}

clave_status bare_write_source(const compile_plan *plan, const compile_options *options, text *to) {
  const char *name = options->library;
  const ir_method *method = plan->graph->method;
  text_printf(to,
              "/* Made by clave compile: the function. */\n#include \"%s.h\"\n\n"
              "#include <string.h>\n\n#include \"compile/runtime/core.h\"\n\n"
              "static bool is_ready;\n\n",
              name);
  write_texts(name, to);
  text_puts(
      to,
      "static int start(void) {\n  const model_memory *own = &compiled_model.memory;\n"
      "  *own->model = (model){.packed_weights = own->packed_weights, .rebased = own->rebased};\n"
      "  return (int)core_start(own->model);\n}\n\n");
  text_printf(
      to,
      "const char *%s_where(void) {\n"
      "  const model *m = compiled_model.memory.model;\n"
      "  return m->failed && m->node ? m->node : \"\";\n}\n\n"
      "void %s_reset(void) {\n  if (is_ready) core_reset(compiled_model.memory.model);\n}\n\n",
      name, name);
  bare_write_run(plan, name, to);
  text_puts(to, " {\n");
  parameters_write_values(plan, to);
  text_puts(to,
            "  model *m = compiled_model.memory.model;\n"
            "  int code = is_ready ? MODEL_GOOD : start();\n"
            "  is_ready = code == MODEL_GOOD;\n"
            "  if (is_ready) code = (int)core_run(m, inputs);\n");
  if (method->outputs.count)
    text_printf(to,
                "  for (int i = 0; code == MODEL_GOOD && i < %u; i++)\n"
                "    memcpy(outputs[i], core_output(m, i), compiled_model.outputs[i].bytes);\n",
                method->outputs.count);
  text_printf(to, "%s  return code;\n}\n", method->outputs.count ? "" : "  (void)outputs;\n");
  return text_status(to);
}

clave_status bare_write_names(const compile_plan *plan, const compile_options *options, text *to) {
  (void)plan;
  text_puts(to, "/* Made by clave compile: names that the linker sees. */\n");
  text_printf(to, "#define model_weights %s_model_weights\n", options->library);
  text_printf(to, "#define model_packed_weights %s_model_packed_weights\n", options->library);
  text_printf(to, "#define compiled_model %s_compiled_model\n", options->library);
  for (int i = 0; i < n_source_files; i++)
    for (int j = 0; j < source_files[i].n_names; j++)
      text_printf(to, "#define %s %s_%s\n", source_files[i].names[j], options->library,
                  source_files[i].names[j]);
  return text_status(to);
}
