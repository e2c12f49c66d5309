/* Chats as text and as ids, by the tables of chat_templates.c. */
#include "llm/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "llm/language_model.h"
#include "llm/tokenizer.h"
#include "llm/unicode.h"

/* ---------------------------------------------------------------- which template */

static const chat_template *find_template(const char *name) {
  for (size_t i = 0; i < n_chat_templates; i++) {
    if (strcmp(chat_templates[i].name, name) == 0) return &chat_templates[i];
  }
  return NULL;
}

const char *clave_llm_chat_template_name(size_t index) {
  return index < n_chat_templates ? chat_templates[index].name : NULL;
}

static bool has_marks(const chat_template *t, const char *jinja) {
  for (size_t i = 0; i < 3; i++) {
    if (t->marks[i] && !strstr(jinja, t->marks[i])) return false;
    if (t->not [i] && strstr(jinja, t->not [i])) return false;
  }
  return true;
}

const char *chat_detect(const char *said) {
  const chat_template *t = find_template(said);
  if (t) return t->name;
  for (size_t i = 0; i < n_chat_templates; i++) {
    if (has_marks(&chat_templates[i], said)) return chat_templates[i].name;
  }
  return NULL;
}

/* Names as they are; of a template's text, the beginning. */
static clave_status refuse_template(const char *said) {
  enum { SHOWN = 40 };
  text known = {0};
  for (size_t i = 0; i < n_chat_templates; i++)
    text_printf(&known, "%s%s", i ? ", " : "", chat_templates[i].name);
  clave_status st = text_status(&known);
  if (!st && !said) {
    st = INVALID("the model has no chat template; known: %s", known.data);
  } else if (!st) {
    st = UNSUPPORTED("chat template '%.*s%s' is not known; known: %s", SHOWN, said,
                     strlen(said) > SHOWN ? "..." : "", known.data);
  }
  text_free(&known);
  return st;
}

int32_t chat_end_id(const clave_tokenizer *tokenizer, const char *template_name) {
  const chat_template *t = template_name ? find_template(template_name) : NULL;
  if (!t) return CLAVE_NO_TOKEN;
  if (strcmp(t->end, CHAT_EOS) != 0) return clave_tokenizer_find(tokenizer, t->end);
  clave_tokenizer_info info;
  clave_tokenizer_get_info(tokenizer, &info);
  return info.eos;
}

/* ---------------------------------------------------------------- rendering */

void chat_rendering_free(chat_rendering *r) {
  text_free(&r->text);
  free(r->parts);
  *r = (chat_rendering){0};
}

static void append_part(chat_rendering *r, const char *bytes, size_t size, bool words) {
  text_append(&r->text, bytes, size);
  bool joins = r->n_parts && r->parts[r->n_parts - 1].words == words;
  if (!joins && r->n_parts == r->capacity) {
    size_t capacity = r->capacity ? 2 * r->capacity : 16;
    chat_part *more = realloc(r->parts, capacity * sizeof *more);
    if (!more) {
      r->text.failed = true;
      return;
    }
    r->parts = more;
    r->capacity = capacity;
  }
  if (!joins) r->n_parts++;
  r->parts[r->n_parts - 1] = (chat_part){r->text.size, words};
}

static void append_words(chat_rendering *r, const char *words) {
  if (*words) append_part(r, words, strlen(words), true);
}

/* What Python's strip() leaves, as Jinja's trim has it. */
static bool is_space(uint32_t c) { return unicode_is_space(c) || (c >= 0x1C && c <= 0x1F); }

static span trim(span s) {
  uint32_t c;
  size_t n;
  while ((n = utf8_sequence(s.data, s.size)) && (unicode_read(s.data, &c), is_space(c))) {
    s.data += n;
    s.size -= n;
  }
  for (;;) {
    size_t at = s.size;
    while (at && ((unsigned char)s.data[at - 1] & 0xC0) == 0x80) at--;
    if (at) at--;
    n = utf8_sequence(s.data + at, s.size - at);
    if (!n || n != s.size - at || (unicode_read(s.data + at, &c), !is_space(c))) return s;
    s.size = at;
  }
}

static void append_content(chat_rendering *r, const chat_role *role, const char *content,
                           size_t size) {
  span s = {content, size};
  if (role->trim) s = trim(s);
  if (s.size) append_part(r, s.data, s.size, false);
}

static const chat_role *find_role(const chat_template *t, const char *name) {
  if (strcmp(name, "system") == 0) return &t->system;
  if (strcmp(name, "user") == 0) return &t->user;
  return strcmp(name, "assistant") == 0 ? &t->assistant : NULL;
}

static bool system_in_user(const chat_template *t) {
  return t->place == CHAT_SYSTEM_IN_FIRST_USER || t->place == CHAT_SYSTEM_IN_LAST_USER;
}

static clave_status check_messages(const chat_template *t, const clave_llm_message *m,
                                   size_t count) {
  if (count == 0) return INVALID("a chat without a message");
  bool takes_turns = system_in_user(t);
  size_t first = find_role(t, m[0].role) == &t->system;
  for (size_t i = 0; i < count; i++) {
    const chat_role *role = find_role(t, m[i].role);
    if (!role)
      return INVALID("message %zu is of '%s', not system, user or assistant", i, m[i].role);
    const chat_role *turn = (i - first) % 2 ? &t->assistant : &t->user;
    if (takes_turns && i >= first && role != turn)
      return INVALID("message %zu is of '%s': in template %s user and assistant take turns", i,
                     m[i].role, t->name);
  }
  if (takes_turns && first && count == 1) return INVALID("a chat without a user's message");
  return NULL;
}

/* A system message that the template puts into a user's: where, and what. */
typedef struct system_text {
  size_t at; /* the message's number; SIZE_MAX: nowhere */
  const char *content;
  size_t size;
} system_text;

static system_text place_system(const chat_template *t, const clave_llm_message *m, size_t count,
                                const char *otherwise) {
  bool said = find_role(t, m[0].role) == &t->system;
  system_text s = {SIZE_MAX, said ? m[0].content : otherwise,
                   said ? m[0].content_size : strlen(otherwise ? otherwise : "")};
  if (!system_in_user(t) || !s.content) return s;
  bool last = t->place == CHAT_SYSTEM_IN_LAST_USER;
  for (size_t i = 0; i < count; i++) {
    bool is_user = find_role(t, m[i].role) == &t->user;
    if (is_user && (last || s.at == SIZE_MAX)) s.at = i;
  }
  return s;
}

static void render_message(chat_rendering *r, const chat_role *role, const char *content,
                           size_t size) {
  append_words(r, role->before);
  append_content(r, role, content, size);
  append_words(r, role->after);
}

static void render_messages(const chat_template *t, const clave_llm_message *m, size_t count,
                            const system_text *s, chat_rendering *out) {
  for (size_t i = 0; i < count; i++) {
    const chat_role *role = find_role(t, m[i].role);
    if (role == &t->system && system_in_user(t)) continue;
    append_words(out, role->before);
    if (i == s->at) render_message(out, &t->system, s->content, s->size);
    append_content(out, role, m[i].content, m[i].content_size);
    append_words(out, role->after);
  }
}

clave_status chat_render(const chat_template *t, const clave_llm_message *messages, size_t count,
                         const char *default_system, chat_start start, chat_rendering *out) {
  *out = (chat_rendering){0};
  TRY(check_messages(t, messages, count));
  bool begins = start == CHAT_START, said = find_role(t, messages[0].role) == &t->system;
  system_text s = place_system(t, messages, count, begins ? default_system : NULL);
  if (begins) append_words(out, t->begin);
  if (!begins)
    append_words(out, t->assistant.after + (start == CHAT_AFTER_END ? strlen(t->end) : 0));
  bool silent = begins && !said && !system_in_user(t);
  if (silent && (s.content || t->place == CHAT_SYSTEM_ALWAYS))
    render_message(out, &t->system, s.content, s.size);
  render_messages(t, messages, count, &s, out);
  append_words(out, t->answer);
  clave_status st = text_status(&out->text);
  if (st) chat_rendering_free(out);
  return st;
}

/* ---------------------------------------------------------------- ids */

/* The template's words between its BOS and EOS, and messages, as the tokenizer takes them. */
static clave_status encode_rendering(const clave_llm *l, const chat_rendering *r, clave_ids *out) {
  (void)l;
  (void)r;
  (void)out;
  return INVALID("chats come with the tokenizer");
}

static chat_start start_after(const clave_llm *l, const chat_template *t, const id_list *before) {
  if (!before || !before->count) return CHAT_START;
  int32_t end = chat_end_id(l->tokenizer, t->name);
  bool ended = end != CLAVE_NO_TOKEN && before->items[before->count - 1] == (uint32_t)end;
  return ended ? CHAT_AFTER_END : CHAT_AFTER_ANSWER;
}

clave_status chat_encode(const clave_llm *l, const char *template_name,
                         const clave_llm_message *messages, size_t count, const id_list *before,
                         clave_ids *out) {
  *out = (clave_ids){0};
  const char *said = template_name ? template_name : l->info.chat_template;
  const chat_template *t = said ? find_template(said) : NULL;
  if (!t) return refuse_template(said);
  if (!l->tokenizer) return INVALID("a chat needs a tokenizer");
  chat_rendering r;
  TRY(chat_render(t, messages, count, l->default_system, start_after(l, t, before), &r));
  clave_status st = encode_rendering(l, &r, out);
  chat_rendering_free(&r);
  return st;
}

clave_status clave_llm_chat_ids(const clave_llm *l, const char *template_name,
                                const clave_llm_message *messages, size_t count, clave_ids *out) {
  return chat_encode(l, template_name, messages, count, NULL, out);
}
