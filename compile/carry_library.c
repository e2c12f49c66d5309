/* Writes the functions of a shared library with open sizes, with several methods, or for text. */
#include "compile/carry_library.h"

#include <inttypes.h>
#include <string.h>

#include "base/ascii.h"
#include "compile/library.h"
#include "compile/parameters.h"

/* Appends `pattern` with each "@" replaced by the library's name. */
static void carry_library_put(text *to, const char *name, const char *pattern) {
  for (const char *at = strchr(pattern, '@'); at; at = strchr(pattern, '@')) {
    text_append(to, pattern, (size_t)(at - pattern));
    text_puts(to, name);
    pattern = at + 1;
  }
  text_puts(to, pattern);
}

/* ---------------------------------------------------------------- tensors in words */

static bool is_of_inputs(const program *program, const ir_method *method, uint32_t vid) {
  return plan_find_size(program, method, program->ir.values.items[vid].name) == vid;
}

static bool is_scalar(const program *program, const ir_method *method, uint32_t vid) {
  bool is = false;
  for (uint32_t i = 0; i < method->inputs.count; i++)
    is =
        is || plan_is_scalar(program, &method->inputs.items[i], program->ir.values.items[vid].name);
  return is;
}

static void carry_library_describe_dim(const program *program, const compile_options *options,
                                       const ir_method *method, const ir_int_or_vid *value,
                                       text *to) {
  if (value->vid == IR_NONE) {
    text_printf(to, "%" PRId64, value->literal);
    return;
  }
  const char *name = program->ir.values.items[value->vid].name;
  const compile_dim *fixed = plan_find_dim(options, name);
  if (fixed) {
    text_printf(to, "%" PRId64, fixed->size);
  } else if (is_of_inputs(program, method, value->vid)) {
    parameter_describe_name(name, to);
  } else {
    text_puts(to, "?");
  }
}

static const char *scalar_name(const ir_value *value) {
  return value->type == IR_VALUE_TYPE_FLOAT  ? "F64"
         : value->type == IR_VALUE_TYPE_BOOL ? "BOOL"
                                             : "I64";
}

static void carry_library_describe_argument(const program *program, const compile_options *options,
                                            const ir_method *method, const ir_argument *argument,
                                            text *to) {
  parameter_describe_name(argument->name, to);
  if (argument->tensor == IR_NONE) {
    text_printf(to, ", %s ()\n", scalar_name(&program->ir.values.items[argument->value]));
    return;
  }
  const ir_int_or_vids *shape = &program->ir.tensors.items[argument->tensor].shape;
  text_printf(to, ", %s (", dtype_name(program->types[argument->tensor].type));
  for (uint32_t i = 0; i < shape->count; i++) {
    if (i) text_puts(to, ", ");
    carry_library_describe_dim(program, options, method, &shape->items[i], to);
  }
  text_puts(to, ")\n");
}

static bool is_fixed(const program *program, const compile_options *options,
                     const ir_argument *argument) {
  return argument->tensor == IR_NONE &&
         plan_find_dim(options, program->ir.values.items[argument->value].name);
}

/* Writes a description of each open size, once. */
static void describe_sizes(const program *program, const compile_options *options,
                           const ir_method *method, text *to) {
  for (uint32_t vid = 0; vid < program->ir.values.count; vid++) {
    const ir_value *value = &program->ir.values.items[vid];
    if (value->type != IR_VALUE_TYPE_INT || !is_of_inputs(program, method, vid) ||
        plan_find_dim(options, value->name) || is_scalar(program, method, vid))
      continue;
    text_puts(to, " *     ");
    parameter_describe_name(value->name, to);
    text_printf(to, ": from %" PRId64,
                value->min.present && value->min.value > 0 ? value->min.value : 0);
    if (value->max.present) text_printf(to, " to %" PRId64, value->max.value);
    text_puts(to, "\n");
  }
}

static void describe_method(const program *program, const compile_options *options,
                            const ir_method *method, text *to) {
  int n = 0;
  text_puts(to, " *   ");
  parameter_describe_name(method->name, to);
  text_puts(to, "\n");
  for (uint32_t i = 0; i < method->inputs.count; i++) {
    if (is_fixed(program, options, &method->inputs.items[i])) continue;
    text_printf(to, " *     inputs[%d]: ", n++);
    carry_library_describe_argument(program, options, method, &method->inputs.items[i], to);
  }
  for (uint32_t i = 0; i < method->outputs.count; i++) {
    text_printf(to, " *     outputs[%u]: ", i);
    carry_library_describe_argument(program, options, method, &method->outputs.items[i], to);
  }
  describe_sizes(program, options, method, to);
}

/* ---------------------------------------------------------------- the header */

static const char lifetime[] =
    "/* Use a model in one thread at a time; several models are independent, and may run in\n"
    " * different threads. A forked process must create its own. */\n"
    "typedef struct @_model @_model;\n"
    "/* note: receives messages, possibly in another thread; may be NULL. Returns NULL if out of\n"
    " * memory. After any other failure, @_error says why, and each run fails with it. */\n"
    "COMPILED_API @_model *@_create(int n_threads, void (*note)(void *ctx, const char *line), void "
    "*ctx);\n"
    "COMPILED_API void @_destroy(@_model *model); /* accepts NULL */\n"
    "/* Error text of the last failed call, or \"\"; valid until the next call. */\n"
    "COMPILED_API const char *@_error(const @_model *model);\n";

/* Writes the comment on n_threads, which precedes the comment on lifetime. */
static void describe_threads(const compile_options *options, text *to) {
  text_printf(to, "/* n_threads of %s_create: includes the caller's; 0: %s. */\n", options->library,
              library_threads(options));
}

static const char opencl_device[] =
    "/* Runs on the OpenCL device that CLAVE_DEVICE selects (opencl, opencl:N, opencl:TEXT) when "
    "a\n"
    " * model is created. */\n";

static const char tensors_type[] =
    "/* A tensor of a run. */\ntypedef struct @_tensor {\n"
    "  const void *data; /* contiguous, row-major; F16, BF16 and 8-bit floats as their bits, "
    "BOOL\n"
    "                       as a byte, 0 or 1 */\n"
    "  int64_t dims[8];  /* as many as its rank; others are not read */\n} @_tensor;\n\n";

static const char tensors_run[] =
    " * method: one of these; NULL: the first. The caller chooses named sizes; a name has the "
    "same\n"
    " * size everywhere. Sizes shown as \"?\" follow from the run. Sets dims and data of all "
    "outputs;\n"
    " * data belong to the model and are valid until its next call. State is kept between runs.\n"
    " * Returns 0 on success; else outputs are not set. */\n"
    "COMPILED_API int @_run(@_model *model, const char *method, const @_tensor *inputs,\n"
    "                         @_tensor *outputs);\n"
    "COMPILED_API int @_reset(@_model *model); /* restores the initial state */\n";

static const char text_functions[] =
    "/* Sampling options; zeros: greedy sampling until the model stops. */\n"
    "typedef struct @_choice {\n"
    "  uint32_t max_new_tokens, top_k; /* 0: no limit; all */\n"
    "  float temperature;              /* 0: greedy, the rest is ignored */\n"
    "  float top_p, min_p, repetition_penalty; /* 0: off */\n"
    "  uint64_t seed;                  /* random seed */\n} @_choice;\n"
    "/* Receives complete UTF-8 characters, not NUL-terminated. Return 0 to stop the text. */\n"
    "typedef int (*@_piece_fn)(void *ctx, const char *text, size_t bytes);\n\n"
    "/* Continues `text`, after all earlier text and answers, piece by piece. options may be "
    "NULL:\n"
    " * zeros. Returns 0 on success. */\n"
    "COMPILED_API int @_generate(@_model *model, const char *text, const @_choice *options, "
    "@_piece_fn "
    "piece,\n                            void *ctx);\n"
    "/* Answers a chat message; role: \"user\", or another role of the template. A \"system\" "
    "message\n"
    " * is not answered: it waits for the next message, and replaces one that waits already. */\n"
    "COMPILED_API int @_chat(@_model *model, const char *role, const char *content, const @_choice "
    "*options,\n                        @_piece_fn piece, void *ctx);\n"
    "COMPILED_API int @_reset(@_model *model); /* forgets all text */\n";

clave_status carry_library_header(const program *program, const compile_options *options,
                                  text *to) {
  const char *name = options->library;
  library_begin_header(name, to);
  carry_library_put(to, name, "#define COMPILED_API __attribute__((visibility(\"default\")))\n\n");
  if (options->is_opencl) carry_library_put(to, name, opencl_device);
  describe_threads(options, to);
  carry_library_put(to, name, lifetime);
  if (options->text) {
    carry_library_put(to, name, text_functions);
  } else {
    carry_library_put(to, name, tensors_type);
    carry_library_put(to, name, "/* Methods:\n");
    for (uint32_t i = 0; i < program->ir.methods.count; i++)
      if (plan_has_method(options, i))
        describe_method(program, options, &program->ir.methods.items[i], to);
    carry_library_put(to, name, tensors_run);
  }
  if (options->verify) carry_library_put(to, name, library_verify_comment);
  if (options->verify) carry_library_put(to, name, "COMPILED_API int @_verify(@_model *model);\n");
  library_end_header(to);
  return text_status(to);
}

/* ---------------------------------------------------------------- the source */

static const char common_source[] =
    "@_model *@_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx) {\n"
    "  return (@_model *)CARRIED(create)(n_threads, note, ctx);\n}\n"
    "void @_destroy(@_model *model) { CARRIED(destroy)(model); }\n"
    "const char *@_error(const @_model *model) { return CARRIED(error)(model); }\n"
    "int @_reset(@_model *model) { return CARRIED(reset)(model); }\n";

static const char tensors_source[] =
    "int @_run(@_model *model, const char *method, const @_tensor *inputs, @_tensor *outputs) {\n"
    "  return model_tensors_run(model, method, inputs, outputs);\n}\n";

static const char text_source[] =
    "int @_generate(@_model *model, const char *text, const @_choice *options, @_piece_fn piece, "
    "void "
    "*ctx) {\n  return carried_text_generate(model, NULL, text, options, piece, ctx);\n}\n"
    "int @_chat(@_model *model, const char *role, const char *content, const @_choice *options,\n"
    "            @_piece_fn piece, void *ctx) {\n"
    "  return carried_text_generate(model, role, content, options, piece, ctx);\n}\n";

clave_status carry_library_source(const compile_options *options, text *to) {
  const char *name = options->library;
  carry_library_put(to, name,
                    "/* Made by clave compile: the library's functions. */\n#include \"@.h\"\n\n");
  carry_library_put(
      to, name,
      options->text
          ? "#include \"compile/carried/library.h\"\n\n#define CARRIED(what) carried_text_"
          : "#include \"compile/runtime/tensors.h\"\n\n#define CARRIED(what) model_tensors_");
  carry_library_put(to, name, "##what\n\n");
  carry_library_put(to, name, common_source);
  carry_library_put(to, name, options->text ? text_source : tensors_source);
  if (options->verify)
    carry_library_put(to, name,
                      "int @_verify(@_model *model) { return CARRIED(verify)(model); }\n");
  return text_status(to);
}
