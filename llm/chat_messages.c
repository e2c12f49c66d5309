/* Messages as JSON, and their rendering without a conversation. A history is a JSON array of
 * messages without its brackets. */
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "base/sized.h"
#include "json/json.h"
#include "json/writer.h"
#include "llm/chat.h"
#include "tokenizer/unicode.h"

/* ---------------------------------------------------------------- messages as JSON */

void chat_append_message(text *out, const char *role, const char *content, size_t size) {
  text valid = {0};
  json_writer writer = {.out = out, .compact = true};
  (void)unicode_append_valid(&valid, (span){content, size}, true);
  if (out->size) text_puts(out, ",");
  emit_object(&writer, NULL);
  emit_string(&writer, "role", role);
  emit_text(&writer, "content", valid.data ? valid.data : "", valid.size);
  emit_end_object(&writer);
  out->failed |= valid.failed;
  text_free(&valid);
}

/* default_system: prepended if the messages do not begin with a system message; may be NULL. */
clave_status chat_append_messages(const clave_llm_message *messages, size_t count,
                                  const char *default_system, text *out) {
  bool has_system = count && strcmp(messages[0].role, "system") == 0;
  if (default_system && !has_system)
    chat_append_message(out, "system", default_system, strlen(default_system));
  for (size_t i = 0; i < count; i++)
    chat_append_message(out, messages[i].role, messages[i].content, messages[i].content_size);
  return text_status(out);
}

/* Detects, event by event, if a JSON array of messages begins with a system message. */
typedef struct first_message {
  int depth;
  bool is_array, any, is_first, is_role, is_system;
} first_message;

static clave_status chat_messages_note_first(void *ctx, json_event event, span span) {
  first_message *message = ctx;
  bool of_first = message->depth == 2 && message->is_first;
  if (message->depth == 0) message->is_array = event == JSON_EVENT_ARRAY;
  if (message->depth == 1 && event != JSON_EVENT_END) {
    message->is_first = !message->any && event == JSON_EVENT_OBJECT;
    message->any = true;
  }
  if (of_first && event == JSON_EVENT_STRING && message->is_role)
    message->is_system =
        span.size == strlen("system") && memcmp(span.data, "system", span.size) == 0;
  if (of_first)
    message->is_role = event == JSON_EVENT_KEY && span.size == 4 && !memcmp(span.data, "role", 4);
  if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) message->depth++;
  if (event == JSON_EVENT_END) message->depth--;
  return NULL;
}

/* Appends the messages of a JSON array, with default_system as for chat_append_messages. */
clave_status chat_append_array(const char *array, const char *default_system, text *out) {
  first_message first = {0};
  TRY(status_while(json_walk(array, strlen(array), 0, chat_messages_note_first, &first),
                   "messages"));
  if (!first.is_array) return INVALID("messages: expected a JSON array");
  if (default_system && !first.is_system)
    chat_append_message(out, "system", default_system, strlen(default_system));
  const char *begin = strchr(array, '[') + 1, *end = strrchr(array, ']');
  if (first.any && out->size) text_puts(out, ",");
  if (first.any) text_append(out, begin, (size_t)(end - begin));
  return text_status(out);
}

clave_status chat_render_history(const clave_llm *llm, const clave_template *template,
                                 const text *history, const clave_template_inputs *inputs,
                                 bool marked, jinja_output *out) {
  clave_template_inputs in = *inputs;
  text all = {0};
  text_puts(&all, "[");
  text_append(&all, history->data, history->size);
  text_puts(&all, "]");
  in.messages = all.data;
  clave_status st = text_status(&all);
  if (!st) st = chat_render(llm, template, &in, marked, out);
  text_free(&all);
  return st;
}

/* ---------------------------------------------------------------- without conversations */

clave_status chat_read_inputs(const clave_template_inputs *given, const char *default_system,
                              clave_template_inputs *in, text *history) {
  TRY(sized_read(given, in, SIZED(clave_template_inputs, now)));
  if (!in->messages) return INVALID("messages: expected a JSON array, got NULL");
  in->size = sizeof *in;
  return chat_append_array(in->messages, default_system, history);
}

/* Renders the messages of `given` or, if it is NULL, the `count` messages in `messages`. marked:
 * see template_render. */
static clave_status render_messages(const clave_llm *llm, const char *template_name,
                                    const clave_llm_message *messages, size_t count,
                                    const clave_template_inputs *given, bool marked,
                                    jinja_output *out) {
  clave_template *made;
  const clave_template *template;
  text history = {0};
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  TRY(chat_select_template(llm, template_name, &made, &template));
  clave_status st = given ? chat_read_inputs(given, llm->default_system, &in, &history)
                          : chat_append_messages(messages, count, llm->default_system, &history);
  if (!st) st = chat_render_history(llm, template, &history, &in, marked, out);
  text_free(&history);
  clave_template_destroy(made);
  return st;
}

/* Sets *out to the ids of a rendering, and frees the rendering. */
static clave_status encode_rendering(const clave_llm *llm, jinja_output *output, clave_ids *out) {
  id_list ids = {0};
  clave_status st = chat_encode(llm, output, 0, &ids);
  jinja_output_free(output);
  if (st) {
    id_list_free(&ids);
    return st;
  }
  *out = (clave_ids){ids.items, ids.count};
  return NULL;
}

clave_status clave_llm_chat_ids(const clave_llm *llm, const char *template_name,
                                const clave_llm_message *messages, size_t count, clave_ids *out) {
  OWN_FLOAT_ENV;
  jinja_output output = {0};
  *out = (clave_ids){0};
  TRY(render_messages(llm, template_name, messages, count, NULL, true, &output));
  return encode_rendering(llm, &output, out);
}

clave_status clave_llm_render_ids(const clave_llm *llm, const clave_template_inputs *inputs,
                                  clave_ids *out) {
  OWN_FLOAT_ENV;
  jinja_output output = {0};
  *out = (clave_ids){0};
  TRY(render_messages(llm, NULL, NULL, 0, inputs, true, &output));
  return encode_rendering(llm, &output, out);
}

clave_status clave_llm_render(const clave_llm *llm, const clave_template_inputs *inputs, char **out,
                              size_t *size) {
  OWN_FLOAT_ENV;
  jinja_output output = {0};
  *out = NULL;
  *size = 0;
  TRY(render_messages(llm, NULL, NULL, 0, inputs, false, &output));
  return template_take_text(&output, out, size);
}
