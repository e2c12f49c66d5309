/* Writes the functions of a shared library and their header. */
#include "compile/library.h"

#include <string.h>

#include "base/ascii.h"
#include "compile/parameters.h"
#include "compile/tables.h"

/* ---------------------------------------------------------------- names */

static bool is_word(char c) { return is_ascii_alnum(c) || c == '_'; }

/* True if the text of the runtime contains a name with this beginning. */
static bool compile_library_is_taken(const text *name) {
  for (int i = 0; i < n_source_files; i++) {
    const char *begin = (const char *)source_files[i].data, *end = begin + source_files[i].size;
    for (const char *at = begin; (at = memmem(at, (size_t)(end - at), name->data, name->size));
         at++)
      if (at > begin && !is_word(at[-1])) return true;
  }
  return false;
}

bool is_library_name(const char *name) {
  static const char *const endings[] = {"create", "destroy",  "run",  "error", "reset",
                                        "where",  "generate", "chat", "verify"};
  bool is_good = *name && !is_ascii_digit(*name) && strncmp(name, "clave", 5) != 0;
  for (const char *c = name; *c; c++) is_good = is_good && is_word(*c);
  for (size_t i = 0; is_good && i < sizeof endings / sizeof *endings; i++) {
    text text = {0};
    text_printf(&text, "%s_%s(", name, endings[i]);
    is_good = !text.failed && !compile_library_is_taken(&text);
    text_free(&text);
  }
  return is_good;
}

/* ---------------------------------------------------------------- the header */

const char library_verify_comment[] =
    "/* Checks, on another model, the results on random inputs against those stored at compile\n"
    " * time. Returns 0 if they match. */\n";

void library_begin_header(const char *name, text *to) {
  text_printf(to,
              "#ifndef COMPILED_%s_H\n#define COMPILED_%s_H\n"
              "/* Made by clave compile. */\n#include <stddef.h>\n#include <stdint.h>\n\n"
              "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
              name, name);
}

void library_describe_run(const compile_plan *plan, text *to) {
  const parameters in = parameters_of(plan, true), out = parameters_of(plan, false);
  text_puts(to, "/* Contiguous tensors; F16, BF16 and 8-bit floats are passed as their bits:\n");
  each_parameter(&in, to, parameter_describe);
  each_parameter(&out, to, parameter_describe);
  text_puts(
      to,
      " * Outputs are written after all inputs are read: they may overlap inputs, but not each "
      "other.\n");
}

void library_end_header(text *to) { text_puts(to, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"); }

static void compile_library_write_run(const compile_plan *plan, const char *name, text *to) {
  text leading = {0};
  text_printf(&leading, "%s_model *model", name);
  text_printf(to, "int %s_run(", name);
  if (leading.failed) to->failed = 1;
  if (!leading.failed) parameters_write(plan, leading.data, to);
  text_puts(to, ")");
  text_free(&leading);
}

const char *library_threads(const compile_options *options) {
  return options->n_threads < 0   ? "1, as for any number"
         : options->n_threads > 0 ? "the number set at compile time"
                                  : "CLAVE_THREADS, else one per CPU";
}

clave_status library_write_header(const compile_plan *plan, const compile_options *options,
                                  text *to) {
  const char *name = options->library;
  library_begin_header(name, to);
  text_printf(
      to,
      "#define COMPILED_API __attribute__((visibility(\"default\")))\n\n"
      "/* Memory, threads and state for runs. Use each in one thread at a time; several are\n"
      " * independent and share the weights. */\ntypedef struct %s_model %s_model;\n",
      name, name);
  text_printf(to,
              "/* n_threads: includes the caller's; 0: %s. Returns NULL if out of memory%s. */\n"
              "COMPILED_API %s_model *%s_create(int n_threads);\n"
              "COMPILED_API void %s_destroy(%s_model *model); /* accepts NULL */\n",
              library_threads(options),
              options->packed_only ? ",\n * or if the weights are packed for other processors" : "",
              name, name, name, name);
  library_describe_run(plan, to);
  text_puts(to,
            " * Returns 0 on success; else outputs are undefined, and the error text says why. */\n"
            "COMPILED_API ");
  compile_library_write_run(plan, name, to);
  text_printf(to,
              ";\n/* Error text of the last run, or \"\"; valid until the next run. */\n"
              "COMPILED_API const char *%s_error(const %s_model *model);\n"
              "COMPILED_API void %s_reset(%s_model *model); /* restores the initial state */\n",
              name, name, name, name);
  if (options->verify)
    text_printf(to, "%sCOMPILED_API int %s_verify(%s_model *model);\n", library_verify_comment,
                name, name);
  library_end_header(to);
  return text_status(to);
}

/* ---------------------------------------------------------------- the source */

/* Includes no types of the runtime, because the library's names may be the same. */
clave_status library_write_source(const compile_plan *plan, const compile_options *options,
                                  text *to) {
  const char *name = options->library;
  text_printf(to,
              "/* Made by clave compile: the library's functions. */\n#include \"%s.h\"\n\n"
              "#include <stddef.h>\n\n#include \"compile/runtime/library.h\"\n\n",
              name);
  text_printf(to,
              "%s_model *%s_create(int n_threads) {\n  return (%s_model *)"
              "model_library_create(n_threads);\n}\n"
              "void %s_destroy(%s_model *model) { model_library_destroy(model); }\n"
              "const char *%s_error(const %s_model *model) { return model_library_error(model); }\n"
              "void %s_reset(%s_model *model) { model_library_reset(model); }\n\n",
              name, name, name, name, name, name, name, name, name);
  if (options->verify)
    text_printf(to, "int %s_verify(%s_model *model) { return model_library_verify(model); }\n\n",
                name, name);
  compile_library_write_run(plan, name, to);
  text_puts(to, " {\n");
  parameters_write_arrays(plan, to);
  text_puts(to, "  return model_library_run(model, inputs, outputs);\n}\n");
  return text_status(to);
}
