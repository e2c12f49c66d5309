/* Chats as text and as ids. */
#include "llm/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sized.h"
#include "json/fields.h"
#include "json/writer.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

/* ---------------------------------------------------------------- which template */

/* Names as they are; of a template's text, the beginning. */
static clave_status refuse_template(const char *said) {
  text known = {0};
  for (size_t i = 0; clave_template_builtin(i); i++)
    text_printf(&known, "%s%s", i ? ", " : "", clave_template_builtin(i));
  clave_status st = text_status(&known);
  if (!st && !said) {
    st = INVALID("the model has no chat template; known: %s", known.data);
  } else if (!st) {
    st = UNSUPPORTED("chat template '%.40s' is not known; known: %s", said, known.data);
  }
  text_free(&known);
  return st;
}

clave_status chat_template_of(const char *said, bool files, clave_template **out) {
  *out = NULL;
  if (!said) return refuse_template(said);
  const char *builtin = builtin_text(said), *source = builtin ? builtin : said;
  if (builtin || strchr(said, '{')) return clave_template_create(source, strlen(source), out);
  return files && file_exists(said) ? clave_template_load(said, out) : refuse_template(said);
}

const char *clave_llm_chat_template_name(size_t index) { return clave_template_builtin(index); }

/* ---------------------------------------------------------------- rendering */

clave_status chat_render(const clave_llm *l, const clave_template *t,
                         const clave_template_inputs *inputs, jinja_output *out) {
  clave_template_inputs in = *inputs;
  if (!in.bos) in.bos = l->bos_text;
  if (!in.eos) in.eos = l->eos_text;
  return template_render(t, &in, out);
}

/* ---------------------------------------------------------------- ids */

typedef struct part_list {
  text_part *items; /* owned */
  size_t count, capacity;
} part_list;

static clave_status add_part(part_list *p, size_t end, text_kind kind, uint32_t id) {
  if (!array_reserve(&p->items, &p->capacity, p->count + 1, sizeof *p->items))
    return status_no_memory();
  p->items[p->count++] = (text_part){end, kind, id};
  return NULL;
}

/* Is the template's own text at `at` the token? */
static bool token_at(span in, const char *written, size_t at, const char *token) {
  size_t n = token ? strlen(token) : 0;
  if (!n || in.size - at < n || memcmp(in.data + at, token, n) != 0) return false;
  return !written || !memchr(written + at, 1, n);
}

/* The text without what is BOS or EOS, and what its parts are. */
static clave_status find_parts(const clave_llm *l, span in, const char *written, text *out,
                               part_list *parts) {
  for (size_t at = 0; at < in.size;) {
    bool bos = token_at(in, written, at, l->bos_text);
    bool eos = !bos && token_at(in, written, at, l->eos_text);
    text_kind kind = written && written[at] ? TEXT_WRITTEN : TEXT_WORDS;
    if (bos || eos) {
      at += strlen(bos ? l->bos_text : l->eos_text);
      TRY(add_part(parts, out->size, TEXT_ID, (uint32_t)(bos ? l->info.bos : l->eos)));
      continue;
    }
    text_append(out, in.data + at, 1);
    at++;
    if (parts->count && parts->items[parts->count - 1].kind == kind) {
      parts->items[parts->count - 1].end = out->size;
    } else {
      TRY(add_part(parts, out->size, kind, 0));
    }
  }
  return text_status(out);
}

clave_status chat_encode(const clave_llm *l, const jinja_output *rendered, size_t from,
                         id_list *out) {
  text plain = {0};
  part_list parts = {0};
  span in = {rendered->text.data ? rendered->text.data + from : "", rendered->text.size - from};
  const char *written = rendered->written.data ? rendered->written.data + from : NULL;
  if (!l->tokenizer) return INVALID("a chat needs a tokenizer");
  clave_status st = find_parts(l, in, written, &plain, &parts);
  if (!st)
    st = tokenizer_encode_parts(l->tokenizer, (span){plain.data ? plain.data : "", plain.size},
                                parts.items, parts.count, from == 0, out);
  text_free(&plain);
  free(parts.items);
  return st;
}

/* ---------------------------------------------------------------- how answers end */

/* Stands for an answer, to find what the template writes behind it. */
#define ANSWER "CLAVE_ANSWER"

/* The first id of the template's text from `from` on, if it is a special token's. */
static clave_status first_special(const clave_llm *l, const jinja_output *o, size_t from,
                                  int32_t *out) {
  id_list as_words = {0}, as_text = {0};
  span in = {o->text.data + from, o->text.size - from};
  text_part words = {in.size, TEXT_WORDS, 0}, written = {in.size, TEXT_WRITTEN, 0};
  clave_status st = tokenizer_encode_parts(l->tokenizer, in, &words, 1, false, &as_words);
  if (!st) st = tokenizer_encode_parts(l->tokenizer, in, &written, 1, false, &as_text);
  bool special = !st && as_words.count && as_text.count && as_words.items[0] != as_text.items[0];
  if (special) *out = (int32_t)as_words.items[0];
  if (!st && token_at(in, NULL, 0, l->eos_text)) *out = l->eos;
  id_list_free(&as_words);
  id_list_free(&as_text);
  return st;
}

/* A question and an answer. Nothing, if the template wants other messages. */
static clave_status render_sample(const clave_llm *l, bool asks, jinja_output *out) {
  static const char messages[] =
      "[{\"role\": \"user\", \"content\": \"?\"}, {\"role\": \"assistant\", \"content\": \"" ANSWER
      "\"}]";
  clave_template_inputs in = {
      .size = sizeof in, .messages = messages, .add_generation_prompt = asks, .now = 1};
  *out = (jinja_output){0};
  if (!l->chat || !l->tokenizer) return NULL;
  clave_status st = chat_render(l, l->chat, &in, out);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

clave_status chat_find_end(const clave_llm *l, int32_t *out) {
  jinja_output o;
  *out = CLAVE_NO_TOKEN;
  TRY(render_sample(l, false, &o));
  const char *at = o.text.size ? memmem(o.text.data, o.text.size, ANSWER, strlen(ANSWER)) : NULL;
  size_t from = at ? (size_t)(at - o.text.data) + strlen(ANSWER) : o.text.size;
  clave_status st = from < o.text.size ? first_special(l, &o, from, out) : NULL;
  jinja_output_free(&o);
  return st;
}

/* Bytes of what is written like a special token at s: <|name|> or <name_of_turn>. */
static size_t token_like(const char *s, size_t size) {
  size_t n = 1;
  while (n < size && n < 64 && s[n] > ' ' && s[n] != '<' && s[n] != '>') n++;
  if (*s != '<' || n >= size || s[n] != '>' || n < 4) return 0;
  bool bars = s[1] == '|' && s[n - 1] == '|', turn = memmem(s, n, "_of_", 4) != NULL;
  return bars || turn ? n + 1 : 0;
}

static void note_tokens(const clave_llm *l, const text *in, text *out) {
  for (size_t i = 0; i < in->size; i++) {
    size_t n = token_like(in->data + i, in->size - i);
    char token[80];
    if (!n) continue;
    memcpy(token, in->data + i, n);
    token[n] = '\0';
    bool known = clave_tokenizer_find(l->tokenizer, token) != CLAVE_NO_TOKEN;
    if (known || (out->size && strstr(out->data, token))) continue;
    text_printf(out, "%s%s", out->size ? ", " : "", token);
  }
}

clave_status clave_llm_chat_unknown_tokens(const clave_llm *l, char **out) {
  jinja_output o;
  text tokens = {0};
  *out = NULL;
  TRY(render_sample(l, true, &o));
  text_puts(&tokens, "");
  if (o.text.size) note_tokens(l, &o.text, &tokens);
  jinja_output_free(&o);
  clave_status st = text_status(&tokens);
  if (st) {
    text_free(&tokens);
    return st;
  }
  *out = tokens.data ? tokens.data : strdup("");
  return *out ? NULL : status_no_memory();
}

/* ---------------------------------------------------------------- messages as JSON */

static void append_message(text *out, const char *role, const char *content, size_t size) {
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
static clave_status append_messages(const clave_llm_message *messages, size_t count,
                                    const char *default_system, text *out) {
  bool said = count && strcmp(messages[0].role, "system") == 0;
  if (default_system && !said)
    append_message(out, "system", default_system, strlen(default_system));
  for (size_t i = 0; i < count; i++)
    append_message(out, messages[i].role, messages[i].content, messages[i].content_size);
  return text_status(out);
}

/* Those of a JSON array, likewise. */
static clave_status append_array(const char *array, const char *default_system, text *out) {
  json *document;
  TRY(status_while(json_parse(array, strlen(array), &document), "messages"));
  const json *first = json_kind_of(document) == JSON_ARRAY ? json_first(document) : NULL;
  const json *role =
      first && json_kind_of(first) == JSON_OBJECT ? json_member(first, "role") : NULL;
  bool said = role && json_kind_of(role) == JSON_STRING && !strcmp(json_string(role), "system");
  bool is_array = json_kind_of(document) == JSON_ARRAY, any = first != NULL;
  json_free(document);
  if (!is_array) return INVALID("messages are no JSON array");
  if (default_system && !said)
    append_message(out, "system", default_system, strlen(default_system));
  const char *begin = strchr(array, '[') + 1, *end = strrchr(array, ']');
  if (any && out->size) text_puts(out, ",");
  if (any) text_append(out, begin, (size_t)(end - begin));
  return text_status(out);
}

static clave_status render_history(const clave_llm *l, const clave_template *t, const text *history,
                                   const clave_template_inputs *inputs, jinja_output *out) {
  clave_template_inputs in = *inputs;
  text all = {0};
  text_puts(&all, "[");
  text_append(&all, history->data, history->size);
  text_puts(&all, "]");
  in.messages = all.data;
  clave_status st = text_status(&all);
  if (!st) st = chat_render(l, t, &in, out);
  text_free(&all);
  return st;
}

/* ---------------------------------------------------------------- without a conversation */

static clave_status own_or_named(const clave_llm *l, const char *name, clave_template **made,
                                 const clave_template **out) {
  *made = NULL;
  if (!name && l->chat) {
    *out = l->chat;
    return NULL;
  }
  TRY(chat_template_of(name ? name : l->info.chat_template, false, made));
  *out = *made;
  return NULL;
}

static clave_status render_ids(const clave_llm *l, const clave_template *t, const text *history,
                               id_list *ids) {
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  jinja_output o = {0};
  TRY(render_history(l, t, history, &in, &o));
  clave_status st = chat_encode(l, &o, 0, ids);
  jinja_output_free(&o);
  return st;
}

clave_status clave_llm_chat_ids(const clave_llm *l, const char *template_name,
                                const clave_llm_message *messages, size_t count, clave_ids *out) {
  clave_template *made;
  const clave_template *t;
  text history = {0};
  id_list ids = {0};
  *out = (clave_ids){0};
  TRY(own_or_named(l, template_name, &made, &t));
  clave_status st = append_messages(messages, count, l->default_system, &history);
  if (!st) st = render_ids(l, t, &history, &ids);
  text_free(&history);
  clave_template_destroy(made);
  if (st) {
    id_list_free(&ids);
    return st;
  }
  *out = (clave_ids){ids.items, ids.count};
  return NULL;
}

/* ---------------------------------------------------------------- turns */

static bool is_stop_id(const clave_llm *l, uint32_t id) {
  for (size_t i = 0; i < l->info.n_stop_ids; i++) {
    if (l->info.stop_ids[i] == id) return true;
  }
  return false;
}

/* The text of the ids since the last rendering, without the id that ended them. */
static clave_status answer_text(const clave_llm_conversation *c, char **out, size_t *size) {
  size_t from = c->chat.n_ids, n = c->ids.count;
  if (n > from && is_stop_id(c->llm, c->ids.items[n - 1])) n--;
  return clave_tokenizer_decode(c->llm->tokenizer, c->ids.items + from, n - from, true, out, size);
}

/* Where of the new rendering what is not in the conversation yet begins: behind what was rendered
 * before and the answer, with or without the white space around that. 0: it is another text. */
static size_t known_bytes(const chat_memory *m, const jinja_output *o, const char *answer,
                          size_t size) {
  size_t before = m->rendered.size;
  if (!before || o->text.size < before || memcmp(o->text.data, m->rendered.data, before) != 0)
    return 0;
  const char *rest = o->text.data + before;
  size_t left = o->text.size - before, lead = unicode_skip_space((span){answer, size}, 0);
  size_t end = unicode_skip_space_before((span){answer, size}, size, lead);
  const span forms[] = {{answer, size}, {answer + lead, end - lead}, {answer, end}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (left >= forms[i].size && memcmp(rest, forms[i].data, forms[i].size) == 0)
      return before + forms[i].size;
  }
  return 0;
}

/* Prompts what of the rendering is new. */
static clave_status prompt_rest(clave_llm_conversation *c, const jinja_output *o, size_t from) {
  id_list ids = {0};
  const id_list *all = &c->ids;
  clave_status st = chat_encode(c->llm, o, from, &ids);
  if (!st && !from && ids.count >= c->llm->info.max_context)
    st = INVALID("a chat of %zu tokens does not fit into the context of %u", ids.count,
                 c->llm->info.max_context);
  if (!st && !from && all->count) st = clave_session_reset(c->session);
  if (!st && !from && all->count) st = conversation_take_ids(c, NULL, 0, 0);
  bool ended = !st && from && ids.count && all->count && is_stop_id(c->llm, ids.items[0]) &&
               all->items[all->count - 1] == ids.items[0];
  if (!st) st = clave_llm_prompt(c, ids.items + ended, ids.count - ended);
  id_list_free(&ids);
  return st;
}

static clave_status remember(chat_memory *m, text *history, const jinja_output *o, size_t n_ids) {
  text_clear(&m->rendered);
  text_append(&m->rendered, o->text.data, o->text.size);
  text_free(&m->history);
  m->history = *history;
  *history = (text){0};
  m->n_ids = n_ids;
  return text_status(&m->rendered);
}

/* The whole chat, of which the conversation may hold the beginning. */
static clave_status prompt_whole(clave_llm_conversation *c, const clave_template *t, text *history,
                                 const clave_template_inputs *inputs, const char *answer,
                                 size_t size) {
  jinja_output o = {0};
  TRY(render_history(c->llm, t, history, inputs, &o));
  clave_status st = prompt_rest(c, &o, known_bytes(&c->chat, &o, answer, size));
  if (!st) st = remember(&c->chat, history, &o, c->ids.count);
  jinja_output_free(&o);
  return st;
}

/* New messages behind ids that no chat of ours made: what the template writes behind an answer. */
static clave_status prompt_behind(clave_llm_conversation *c, const clave_template *t,
                                  const text *messages, const clave_template_inputs *inputs) {
  text history = {0};
  jinja_output o = {0};
  append_message(&history, "user", "?", 1);
  append_message(&history, "assistant", ANSWER, strlen(ANSWER));
  text_puts(&history, ",");
  text_append(&history, messages->data, messages->size);
  clave_status st = text_status(&history);
  if (!st) st = render_history(c->llm, t, &history, inputs, &o);
  text_free(&history);
  if (st) return st;
  const char *at = memmem(o.text.data, o.text.size, ANSWER, strlen(ANSWER));
  st = at ? prompt_rest(c, &o, (size_t)(at - o.text.data) + strlen(ANSWER))
          : INVALID("the chat template does not write the answers before the last message");
  jinja_output_free(&o);
  return st;
}

/* Prompts the messages `fresh` behind what the conversation holds. */
static clave_status prompt_turn(clave_llm_conversation *c, const clave_template *t, text *fresh,
                                const clave_template_inputs *in) {
  chat_memory *m = &c->chat;
  text history = {0};
  char *answer = NULL;
  size_t size = 0;
  bool ours = m->history.size && m->n_ids <= c->ids.count;
  if (c->ids.count && !ours) return prompt_behind(c, t, fresh, in);
  if (!ours) return prompt_whole(c, t, fresh, in, "", 0);
  TRY(answer_text(c, &answer, &size));
  text_append(&history, m->history.data, m->history.size);
  if (c->ids.count > m->n_ids) append_message(&history, "assistant", answer, size);
  if (fresh->size) text_puts(&history, ",");
  text_append(&history, fresh->data, fresh->size);
  clave_status st = text_status(&history);
  if (!st) st = prompt_whole(c, t, &history, in, answer, size);
  text_free(&history);
  clave_text_free(answer);
  return st;
}

/* Messages behind those of the conversation, by one of two ways of giving them. */
static clave_status prompt_messages(clave_llm_conversation *c, const char *template_name,
                                    const clave_llm_message *messages, size_t count,
                                    const clave_template_inputs *in) {
  clave_template *made;
  const clave_template *t;
  text fresh = {0};
  const char *system = c->ids.count ? NULL : c->llm->default_system;
  conversation_start_clock(c);
  TRY(own_or_named(c->llm, template_name, &made, &t));
  clave_status st = in->messages ? append_array(in->messages, system, &fresh)
                                 : append_messages(messages, count, system, &fresh);
  if (!st) st = prompt_turn(c, t, &fresh, in);
  text_free(&fresh);
  clave_template_destroy(made);
  return st;
}

clave_status clave_llm_prompt_chat(clave_llm_conversation *c, const char *template_name,
                                   const clave_llm_message *messages, size_t count) {
  clave_template_inputs in = {.size = sizeof in, .add_generation_prompt = true};
  return prompt_messages(c, template_name, messages, count, &in);
}

clave_status clave_llm_prompt_messages(clave_llm_conversation *c,
                                       const clave_template_inputs *inputs) {
  clave_template_inputs in;
  TRY(sized_read(inputs, &in, SIZED(clave_template_inputs, now)));
  if (!in.messages) return INVALID("a chat without messages");
  in.size = sizeof in;
  return prompt_messages(c, NULL, NULL, 0, &in);
}
