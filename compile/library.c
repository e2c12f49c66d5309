/* The functions of a shared library and their header. */
#include "compile/library.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

bool is_library_name(const char *name) {
  if (strcmp(name, "model") == 0) return false;
  if (!*name || isdigit((unsigned char)*name)) return false;
  for (; *name; name++)
    if (!isalnum((unsigned char)*name) && *name != '_') return false;
  return true;
}

/* What C has not is moved as its bits. */
static const char *c_type(dtype t) {
  static const char *const types[] = {
      [DTYPE_F32] = "float",    [DTYPE_F16] = "uint16_t",    [DTYPE_BF16] = "uint16_t",
      [DTYPE_F64] = "double",   [DTYPE_I8] = "int8_t",       [DTYPE_U8] = "uint8_t",
      [DTYPE_I16] = "int16_t",  [DTYPE_I32] = "int32_t",     [DTYPE_I64] = "int64_t",
      [DTYPE_BOOL] = "uint8_t", [DTYPE_U16] = "uint16_t",    [DTYPE_U32] = "uint32_t",
      [DTYPE_U64] = "uint64_t", [DTYPE_F8_E4M3] = "uint8_t", [DTYPE_F8_E5M2] = "uint8_t"};
  return types[t];
}

/* An argument's type: of a scalar output that of its value. */
static tensor type_of(const compile_plan *k, const ir_argument *a) {
  if (a->tensor != IR_NONE) return k->p->types[a->tensor];
  const ir_value_type v = k->prog->ir.values.items[a->value].type;
  return (tensor){.type = v == IR_VALUE_TYPE_FLOAT  ? DTYPE_F64
                          : v == IR_VALUE_TYPE_BOOL ? DTYPE_BOOL
                                                    : DTYPE_I64};
}

typedef struct parameters {
  const compile_plan *k;
  const ir_arguments *all;
  const char *what; /* "input", "output" */
  bool is_input;
} parameters;

static parameters list_of(const compile_plan *k, bool is_input) {
  const ir_method *m = k->g->method;
  return (parameters){k, is_input ? &m->inputs : &m->outputs, is_input ? "input" : "output",
                      is_input};
}

/* Calls write for each that a function has; scalar inputs are fixed. */
static void each_parameter(const parameters *p, text *to,
                           void (*write)(const parameters *p, const ir_argument *a, uint32_t number,
                                         text *to)) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < p->all->count; i++) {
    const ir_argument *a = &p->all->items[i];
    if (a->tensor != IR_NONE || !p->is_input) write(p, a, number++, to);
  }
}

static void write_declaration(const parameters *p, const ir_argument *a, uint32_t number,
                              text *to) {
  text_printf(to, ", %s%s *%s_%u", p->is_input ? "const " : "", c_type(type_of(p->k, a).type),
              p->what, number);
}

static void write_input(const parameters *p, const ir_argument *a, uint32_t number, text *to) {
  (void)p;
  (void)a;
  text_printf(to, "%s{.data = input_%u}", number ? ", " : "", number);
}

static void write_copy(const parameters *p, const ir_argument *a, uint32_t number, text *to) {
  size_t bytes;
  const tensor t = type_of(p->k, a);
  status_free(known_bytes(&t, &bytes)); /* the plan has it already */
  text_printf(to, "  if (%zu) memcpy(output_%u, outputs[%u].data, %zu);\n", bytes, number, number,
              bytes);
}

/* A line of a comment: names hold what could end it. */
static void write_line(const parameters *p, const ir_argument *a, uint32_t number, text *to) {
  const tensor t = type_of(p->k, a);
  text_printf(to, " *   %s_%u: ", p->what, number);
  for (const char *c = a->name; *c; c++)
    text_printf(to, "%c", isalnum((unsigned char)*c) || strchr("_.[] ", *c) ? *c : '_');
  text_printf(to, ", %s (", dtype_name(t.type));
  for (int i = 0; i < t.rank; i++) text_printf(to, "%s%" PRId64, i ? ", " : "", t.dims[i]);
  text_puts(to, ")\n");
}

static void write_run(const compile_plan *k, const char *name, text *to) {
  const parameters in = list_of(k, true), out = list_of(k, false);
  text_printf(to, "int %s_run(%s *m", name, name);
  each_parameter(&in, to, write_declaration);
  each_parameter(&out, to, write_declaration);
  text_puts(to, ")");
}

/* ---------------------------------------------------------------- the files */

clave_status library_write_header(const compile_plan *k, const compile_options *o, text *to) {
  const char *n = o->library;
  const parameters in = list_of(k, true), out = list_of(k, false);
  text_printf(to,
              "#ifndef COMPILED_%s_H\n#define COMPILED_%s_H\n"
              "/* Made by clave compile. */\n#include <stdint.h>\n\n"
              "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
              "#define COMPILED_API __attribute__((visibility(\"default\")))\n\n",
              n, n);
  text_printf(
      to,
      "/* Memory, threads and state for runs. Each is used by one thread at a time; several "
      "are\n * independent and share the weights. */\ntypedef struct %s %s;\n",
      n, n);
  text_printf(
      to,
      "/* n_threads: with the caller; 0: CLAVE_THREADS, else as many as there are CPUs. NULL: "
      "no memory. */\nCOMPILED_API %s *%s_create(int n_threads);\n"
      "COMPILED_API void %s_destroy(%s *m); /* takes NULL */\n",
      n, n, n, n);
  text_puts(to, "/* Contiguous tensors; F16, BF16 and 8-bit floats are their bits:\n");
  each_parameter(&in, to, write_line);
  each_parameter(&out, to, write_line);
  text_puts(
      to,
      " * 0: good; else outputs hold nothing, and the error's text says why. */\nCOMPILED_API ");
  write_run(k, n, to);
  text_printf(to,
              ";\n/* Of the last run; \"\": it was good. Until the next run. */\n"
              "COMPILED_API const char *%s_error(const %s *m);\n"
              "COMPILED_API void %s_reset(%s *m); /* state as it is at first */\n\n"
              "#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
              n, n, n, n);
  return text_status(to);
}

static void write_lifetime(const char *n, text *to) {
  text_printf(to,
              "struct %s {\n  model *m;\n  clave_status failed;\n};\n\n"
              "void %s_destroy(%s *m) {\n  if (!m) return;\n  model_destroy(m->m);\n"
              "  status_free(m->failed);\n  free(m);\n}\n\n",
              n, n, n);
  text_printf(to,
              "%s *%s_create(int n_threads) {\n  %s *m = calloc(1, sizeof *m);\n"
              "  if (!m) return NULL;\n"
              "  clave_status st = model_create(&m->m);\n"
              "  if (!st) st = model_start(m->m, n_threads);\n"
              "  if (!st) return m;\n  status_free(st);\n  %s_destroy(m);\n  return NULL;\n}\n\n",
              n, n, n, n);
  text_printf(to,
              "const char *%s_error(const %s *m) { return status_message(m->failed); }\n"
              "void %s_reset(%s *m) { status_free(model_reset(m->m)); }\n\n",
              n, n, n, n);
}

clave_status library_write_source(const compile_plan *k, const compile_options *o, text *to) {
  const parameters in = list_of(k, true), out = list_of(k, false);
  text_printf(
      to,
      "/* Made by clave compile: the library's functions. */\n#include \"%s.h\"\n\n"
      "#include <stdlib.h>\n#include <string.h>\n\n#include \"compile/runtime/model.h\"\n\n",
      o->library);
  write_lifetime(o->library, to);
  write_run(k, o->library, to);
  text_puts(to, " {\n  const model_value inputs[] = {");
  each_parameter(&in, to, write_input);
  text_printf(to,
              "%s};\n  model_value outputs[%u];\n  status_free(m->failed);\n"
              "  m->failed = model_run(m->m, 0, inputs, outputs);\n  if (m->failed) return 1;\n",
              compiled_inputs(k) ? "" : "{0}", out.all->count + !out.all->count);
  each_parameter(&out, to, write_copy);
  text_puts(to, "  return 0;\n}\n");
  return text_status(to);
}
