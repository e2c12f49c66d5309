/* Messages, tools, documents and arguments of chat templates. */
#include "cli/chat_inputs.h"

#include <string.h>

#include "cli/files.h"
#include "json/json.h"
#include "json/writer.h"

static int check_json(const char *name, const char *source, size_t size) {
  clave_status st = json_check_syntax(source, size, false);
  if (!st) return EXIT_GOOD;
  int result = fail("%s: %s", name, clave_status_message(st));
  clave_status_free(st);
  return result;
}

int read_chat_file(const char *path, page *out) {
  if (!path) return EXIT_GOOD;
  TRY_EXIT(read_file(path, out));
  if (memchr(out->data ? out->data : "", '\0', out->size)) return fail("%s: a NUL", path);
  return check_json(path, out->data ? out->data : "", out->size);
}

int read_chat_arguments(const char *flag_name, const text_list *list, page *out) {
  json_writer j = {.out = out, .compact = true};
  if (!list->count) return EXIT_GOOD;
  text_puts(out, "{");
  for (uint32_t i = 0; i < list->count; i++) {
    const char *word = list->items[i], *equals = strchr(word, '=');
    if (!equals || equals == word)
      return fail_usage("%s takes NAME=JSON, such as enable_thinking=false, not \"%s\"", flag_name,
                        word);
    clave_status st = json_check_syntax(equals + 1, strlen(equals + 1), false);
    if (st) {
      clave_status_free(st);
      return fail_usage("%s %s: not JSON behind the '='; a text is written \\\"text\\\"", flag_name,
                        word);
    }
    if (i) text_puts(out, ",");
    emit_text(&j, NULL, word, (size_t)(equals - word));
    text_printf(out, ":%s", equals + 1);
  }
  text_puts(out, "}");
  return out->failed ? fail_memory() : EXIT_GOOD;
}

clave_template_inputs chat_template_inputs(const chat_inputs *c) {
  return (clave_template_inputs){.size = sizeof(clave_template_inputs),
                                 .messages = c->messages.size ? c->messages.data : NULL,
                                 .tools = c->tools.size ? c->tools.data : NULL,
                                 .documents = c->documents.size ? c->documents.data : NULL,
                                 .arguments = c->arguments.size ? c->arguments.data : NULL,
                                 .add_generation_prompt = true};
}

void free_chat_inputs(chat_inputs *c) {
  text_free(&c->messages);
  text_free(&c->tools);
  text_free(&c->documents);
  text_free(&c->arguments);
}
