/* Reads messages, tools, documents and arguments of chat templates. */
#include "cli/chat_inputs.h"

#include <string.h>

#include "cli/files.h"
#include "cli/report.h"
#include "json/json.h"
#include "json/writer.h"

static int check_json(const char *name, const char *source, size_t size) {
  clave_status st = json_check_syntax(source, size, false);
  if (!st) return EXIT_GOOD;
  int result = fail("%s: %s", name, clave_status_message(st));
  clave_status_free(st);
  return result;
}

int read_chat_file(const char *path, const char *what, page *out) {
  if (!path) return EXIT_GOOD;
  TRY_EXIT(read_file(path, out));
  const char *source = out->data ? out->data : "";
  if (memchr(source, '\0', out->size))
    return fail("%s: the file contains a NUL byte, which JSON does not allow", path);
  TRY_EXIT(check_json(path, source, out->size));
  return source[strspn(source, " \t\r\n")] == '['
             ? EXIT_GOOD
             : fail("%s: expected a JSON array of %s", path, what);
}

/* True if the template receives a value of this name from another source, which would override
 * --arg. */
static bool is_given_otherwise(const char *name, size_t size) {
  static const char *const names[] = {"messages", "tools", "documents", "add_generation_prompt"};
  for (size_t i = 0; i < LENGTH(names); i++)
    if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) return true;
  return false;
}

static int chat_inputs_refuse_twice(const char *flag_name, const text_list *list, uint32_t at) {
  const size_t length = strcspn(list->items[at], "=") + 1;
  for (uint32_t i = 0; i < at; i++)
    if (strncmp(list->items[at], list->items[i], length) == 0)
      return fail_usage("%s %.*s is given twice", flag_name, (int)length - 1, list->items[at]);
  return EXIT_GOOD;
}

int read_chat_arguments(const char *flag_name, const text_list *list, page *out) {
  json_writer writer = {.out = out, .compact = true};
  if (!list->count) return EXIT_GOOD;
  text_puts(out, "{");
  for (uint32_t i = 0; i < list->count; i++) {
    const char *word = list->items[i], *equals = strchr(word, '=');
    if (!equals || equals == word)
      return fail_usage("%s: expected NAME=JSON, such as enable_thinking=false, got \"%s\"",
                        flag_name, word);
    if (is_given_otherwise(word, (size_t)(equals - word)))
      return fail_usage("%s %.*s: this variable is set by its own flag", flag_name,
                        (int)(equals - word), word);
    TRY_EXIT(chat_inputs_refuse_twice(flag_name, list, i));
    clave_status st = json_check_syntax(equals + 1, strlen(equals + 1), false);
    if (st) {
      clave_status_free(st);
      return fail_usage("%s %s: the value after '=' is not JSON; a string is written \\\"text\\\"",
                        flag_name, word);
    }
    emit_text(&writer, NULL, word, (size_t)(equals - word));
    text_printf(out, ":%s", equals + 1);
  }
  text_puts(out, "}");
  return out->failed ? fail_memory() : EXIT_GOOD;
}

clave_template_inputs chat_template_inputs(const chat_inputs *inputs) {
  return (clave_template_inputs){
      .size = sizeof(clave_template_inputs),
      .messages = inputs->messages.size ? inputs->messages.data : NULL,
      .tools = inputs->tools.size ? inputs->tools.data : NULL,
      .documents = inputs->documents.size ? inputs->documents.data : NULL,
      .arguments = inputs->arguments.size ? inputs->arguments.data : NULL,
      .add_generation_prompt = true,
      .join_parts = true};
}

int note_ignored_inputs(clave_status st, bool tools, bool documents) {
  if (st && clave_status_code(st) == CLAVE_NO_MEMORY) return fail_status(st);
  clave_status_free(st);
  if (tools)
    print_note(NULL, "the chat template ignores --tools, so the model does not see the tools");
  if (documents)
    print_note(NULL,
               "the chat template ignores --documents, so the model does not see the documents");
  return EXIT_GOOD;
}

void free_chat_inputs(chat_inputs *inputs) {
  text_free(&inputs->messages);
  text_free(&inputs->tools);
  text_free(&inputs->documents);
  text_free(&inputs->arguments);
}
