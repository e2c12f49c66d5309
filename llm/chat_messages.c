/* Messages as JSON, and rendered without a conversation. A history is the messages of an array,
 * with the commas between them. */
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
  json_writer j = {.out = out, .compact = true};
  (void)unicode_append_valid(&valid, (span){content, size}, true);
  if (out->size) text_puts(out, ",");
  emit_object(&j, NULL);
  emit_string(&j, "role", role);
  emit_text(&j, "content", valid.data ? valid.data : "", valid.size);
  emit_end_object(&j);
  out->failed |= valid.failed;
  text_free(&valid);
}

/* default_system: the first, if they do not begin with one; NULL: none. */
clave_status chat_append_messages(const clave_llm_message *messages, size_t count,
                                  const char *default_system, text *out) {
  bool said = count && strcmp(messages[0].role, "system") == 0;
  if (default_system && !said)
    chat_append_message(out, "system", default_system, strlen(default_system));
  for (size_t i = 0; i < count; i++)
    chat_append_message(out, messages[i].role, messages[i].content, messages[i].content_size);
  return text_status(out);
}

/* What the beginning of a JSON array says. */
typedef struct first_message {
  int depth;
  bool is_array, any, is_first, is_role, is_system;
} first_message;

static clave_status look_at(void *ctx, json_event event, span s) {
  first_message *m = ctx;
  bool of_first = m->depth == 2 && m->is_first;
  if (m->depth == 0) m->is_array = event == JSON_EVENT_ARRAY;
  if (m->depth == 1 && event != JSON_EVENT_END) {
    m->is_first = !m->any && event == JSON_EVENT_OBJECT;
    m->any = true;
  }
  if (of_first && event == JSON_EVENT_STRING && m->is_role)
    m->is_system = s.size == strlen("system") && memcmp(s.data, "system", s.size) == 0;
  if (of_first) m->is_role = event == JSON_EVENT_KEY && s.size == 4 && !memcmp(s.data, "role", 4);
  if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) m->depth++;
  if (event == JSON_EVENT_END) m->depth--;
  return NULL;
}

/* Those of a JSON array, likewise. */
clave_status chat_append_array(const char *array, const char *default_system, text *out) {
  first_message first = {0};
  TRY(status_while(json_walk(array, strlen(array), 0, look_at, &first), "messages"));
  if (!first.is_array) return INVALID("messages are no JSON array");
  if (default_system && !first.is_system)
    chat_append_message(out, "system", default_system, strlen(default_system));
  const char *begin = strchr(array, '[') + 1, *end = strrchr(array, ']');
  if (first.any && out->size) text_puts(out, ",");
  if (first.any) text_append(out, begin, (size_t)(end - begin));
  return text_status(out);
}

clave_status chat_render_history(const clave_llm *l, const clave_template *t, const text *history,
                                 const clave_template_inputs *inputs, bool marked,
                                 jinja_output *out) {
  clave_template_inputs in = *inputs;
  text all = {0};
  text_puts(&all, "[");
  text_append(&all, history->data, history->size);
  text_puts(&all, "]");
  in.messages = all.data;
  clave_status st = text_status(&all);
  if (!st) st = chat_render(l, t, &in, marked, out);
  text_free(&all);
  return st;
}

/* ---------------------------------------------------------------- without a conversation */

clave_status chat_read_inputs(const clave_template_inputs *given, const char *default_system,
                              clave_template_inputs *in, text *history) {
  TRY(sized_read(given, in, SIZED(clave_template_inputs, now)));
  if (!in->messages) return INVALID("a chat without messages");
  in->size = sizeof *in;
  return chat_append_array(in->messages, default_system, history);
}

/* Messages that are given in one of two ways, rendered: count of them, or those of `given`. marked:
 * as template_render. */
static clave_status render_messages(const clave_llm *l, const char *template_name,
                                    const clave_llm_message *messages, size_t count,
                                    const clave_template_inputs *given, bool marked,
                                    jinja_output *out) {
  clave_template *made;
  const clave_template *t;
  text history = {0};
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  TRY(chat_own_or_named(l, template_name, &made, &t));
  clave_status st = given ? chat_read_inputs(given, l->default_system, &in, &history)
                          : chat_append_messages(messages, count, l->default_system, &history);
  if (!st) st = chat_render_history(l, t, &history, &in, marked, out);
  text_free(&history);
  clave_template_destroy(made);
  return st;
}

/* Ids of a rendering, which is freed. */
static clave_status take_ids(const clave_llm *l, jinja_output *o, clave_ids *out) {
  id_list ids = {0};
  clave_status st = chat_encode(l, o, 0, &ids);
  jinja_output_free(o);
  if (st) {
    id_list_free(&ids);
    return st;
  }
  *out = (clave_ids){ids.items, ids.count};
  return NULL;
}

clave_status clave_llm_chat_ids(const clave_llm *l, const char *template_name,
                                const clave_llm_message *messages, size_t count, clave_ids *out) {
  OWN_FLOAT_ENV;
  jinja_output o = {0};
  *out = (clave_ids){0};
  TRY(render_messages(l, template_name, messages, count, NULL, true, &o));
  return take_ids(l, &o, out);
}

clave_status clave_llm_render_ids(const clave_llm *l, const clave_template_inputs *inputs,
                                  clave_ids *out) {
  OWN_FLOAT_ENV;
  jinja_output o = {0};
  *out = (clave_ids){0};
  TRY(render_messages(l, NULL, NULL, 0, inputs, true, &o));
  return take_ids(l, &o, out);
}

clave_status clave_llm_render(const clave_llm *l, const clave_template_inputs *inputs, char **out,
                              size_t *size) {
  OWN_FLOAT_ENV;
  jinja_output o = {0};
  *out = NULL;
  *size = 0;
  TRY(render_messages(l, NULL, NULL, 0, inputs, false, &o));
  return template_take_text(&o, out, size);
}
