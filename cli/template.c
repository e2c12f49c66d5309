/* clave template: formats a conversation by a chat template. */
#include <string.h>

#include "clave_tokenizer.h"
#include "cli/chat_inputs.h"
#include "json/writer.h"

typedef struct template_arguments {
  const char *file, *messages, *tools, *documents, *bos, *eos, *name;
  text_list arguments;
  bool no_generation_prompt, json;
} template_arguments;

#define FIELD(name) offsetof(template_arguments, name)

static const flag template_flags[] = {
    {"FILE", FLAG_OPERAND, FIELD(file), NULL,
     "a template file, a tokenizer_config.json, a model folder, a .clv, or the name of a built-in "
     "template",
     0, 0},
    {"--messages", FLAG_PATH, FIELD(messages), "M.json",
     "the conversation: a list of {\"role\": ..., \"content\": ...}; -: standard input", 0, 0},
    {"--tools", FLAG_PATH, FIELD(tools), "T.json", "a list of functions that the model may call", 0,
     0},
    {"--documents", FLAG_PATH, FIELD(documents), "D.json", "a list of documents to answer from", 0,
     0},
    {"--arg", FLAG_LIST, FIELD(arguments), "NAME=JSON",
     "a variable of the template (enable_thinking=false); repeatable", 0, 0},
    {"--no-generation-prompt", FLAG_SWITCH, FIELD(no_generation_prompt), NULL,
     "ends after the last message, without the start of the assistant's answer", 0, 0},
    {"--bos", FLAG_TEXT, FIELD(bos), "TEXT", "bos_token for the template (default: from FILE)", 0,
     0},
    {"--eos", FLAG_TEXT, FIELD(eos), "TEXT", "eos_token for the template (default: from FILE)", 0,
     0},
    {"--name", FLAG_TEXT, FIELD(name), "NAME",
     "selects one of several templates (default: tool_use if there are tools, else default)", 0, 0},
    {"--json", FLAG_SWITCH, FIELD(json), NULL, "machine-readable output: {\"text\": ...}", 0, 0},
};

static int cli_template_note_ignored(const clave_template *template,
                                     const clave_template_inputs *in) {
  bool tools, documents;
  clave_status st = clave_template_ignores(template, in, &tools, &documents);
  return note_ignored_inputs(st, tools, documents);
}

static int render(const template_arguments *arguments, const chat_inputs *given, page *out) {
  clave_template *template;
  char *rendered = NULL;
  size_t size = 0;
  clave_template_inputs in = chat_template_inputs(given);
  in.bos = arguments->bos;
  in.eos = arguments->eos;
  in.name = arguments->name;
  in.add_generation_prompt = !arguments->no_generation_prompt;
  TRY_STATUS(clave_template_load(arguments->file, &template));
  clave_status st = clave_template_render(template, &in, &rendered, &size);
  int result = st ? fail_status(st) : cli_template_note_ignored(template, &in);
  clave_template_destroy(template);
  if (result) {
    clave_text_free(rendered);
    return result;
  }
  if (arguments->json) {
    json_writer writer = {.out = out};
    emit_record(&writer, NULL);
    emit_text(&writer, "text", rendered, size);
    emit_end_object(&writer);
  } else {
    text_append(out, rendered, size);
  }
  clave_text_free(rendered);
  return out->failed ? fail_memory() : EXIT_GOOD;
}

static int run_template(const void *given, page *out) {
  const template_arguments *arguments = given;
  chat_inputs inputs = {0};
  if (!arguments->messages) return fail_usage("template needs --messages");
  int result = read_chat_arguments("--arg", &arguments->arguments, &inputs.arguments);
  if (!result) result = read_chat_file(arguments->messages, "messages", &inputs.messages);
  if (!result) result = read_chat_file(arguments->tools, "functions", &inputs.tools);
  if (!result) result = read_chat_file(arguments->documents, "documents", &inputs.documents);
  if (!result) result = render(arguments, &inputs, out);
  free_chat_inputs(&inputs);
  return result;
}

const command template_command = {
    .name = "template",
    .usage = "template FILE --messages M.json [--tools T.json] [--documents D.json] ...",
    .summary = "Prints a conversation formatted by a chat template.",
    .more =
        "Adds no newline at the end. If the template raises an exception, prints its message and\n"
        "exits with status 1.\n\n"
        "clave template model/ --messages chat.json --arg enable_thinking=false\n",
    .flags = template_flags,
    .n_flags = LENGTH(template_flags),
    .arguments_size = sizeof(template_arguments),
    .run = run_template,
};
