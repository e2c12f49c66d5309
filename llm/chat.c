/* Chats as text and as ids, by the tables of chat_templates.c. */
#include "llm/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "llm/language_model.h"
#include "tokenizer/unicode.h"

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

int32_t chat_end_id(const clave_llm *l, const char *template_name) {
  const chat_template *t = template_name ? find_template(template_name) : NULL;
  if (!t || !l->tokenizer) return CLAVE_NO_TOKEN;
  return strcmp(t->end, CHAT_EOS) == 0 ? l->eos : clave_tokenizer_find(l->tokenizer, t->end);
}

/* ---------------------------------------------------------------- rendering */

void chat_rendering_free(chat_rendering *r) {
  text_free(&r->text);
  free(r->parts);
  *r = (chat_rendering){0};
}

static void append_part(chat_rendering *r, const char *bytes, size_t size, text_kind kind,
                        uint32_t id) {
  text_append(&r->text, bytes, size);
  bool joins = kind != TEXT_ID && r->n_parts && r->parts[r->n_parts - 1].kind == kind;
  if (!joins && !array_reserve(&r->parts, &r->capacity, r->n_parts + 1, sizeof *r->parts)) {
    r->text.failed = true;
    return;
  }
  if (!joins) r->n_parts++;
  r->parts[r->n_parts - 1] = (text_part){r->text.size, kind, id};
}

static void append_words(chat_rendering *r, const char *words) {
  while (*words) {
    size_t n = strcspn(words, CHAT_BOS CHAT_EOS);
    if (n) append_part(r, words, n, TEXT_WORDS, 0);
    words += n;
    if (*words) append_part(r, "", 0, TEXT_ID, (uint32_t)*words++);
  }
}

/* What Python's strip() leaves, as Jinja's trim has it. */
static bool is_space(uint32_t c) { return unicode_is_space(c) || (c >= 0x1C && c <= 0x1F); }

static span trim(span s) {
  uint32_t c;
  size_t n;
  while ((n = utf8_sequence(s.data, s.size)) && (utf8_read(s.data, &c), is_space(c))) {
    s.data += n;
    s.size -= n;
  }
  for (;;) {
    size_t at = s.size;
    while (at && ((unsigned char)s.data[at - 1] & 0xC0) == 0x80) at--;
    if (at) at--;
    n = utf8_sequence(s.data + at, s.size - at);
    if (!n || n != s.size - at || (utf8_read(s.data + at, &c), !is_space(c))) return s;
    s.size = at;
  }
}

static void append_content(chat_rendering *r, const chat_role *role, const char *content,
                           size_t size) {
  text valid = {0};
  (void)unicode_append_valid(&valid, (span){content, size}, true);
  span s = {valid.data, valid.size};
  if (role->trim) s = trim(s);
  if (s.size) append_part(r, s.data, s.size, TEXT_WRITTEN, 0);
  r->text.failed |= valid.failed;
  text_free(&valid);
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

/* BOS and EOS become the model's; a BOS that it does not have is left out. */
static clave_status set_ids(const clave_llm *l, chat_rendering *r) {
  size_t n = 0;
  for (size_t i = 0; i < r->n_parts; i++) {
    text_part part = r->parts[i];
    bool is_bos = part.kind == TEXT_ID && part.id == (uint32_t)*CHAT_BOS;
    int32_t id = is_bos ? l->info.bos : l->eos;
    if (is_bos && id == CLAVE_NO_TOKEN) continue;
    if (part.kind == TEXT_ID && id == CLAVE_NO_TOKEN)
      return INVALID(
          "the model has no EOS, with which the chat template ends messages; the metadata's key "
          "llm.eos names it");
    if (part.kind == TEXT_ID) part.id = (uint32_t)id;
    r->parts[n++] = part;
  }
  r->n_parts = n;
  return NULL;
}

static clave_status encode_rendering(const clave_llm *l, chat_rendering *r, bool starts,
                                     clave_ids *out) {
  id_list ids = {0};
  span in = {r->text.data ? r->text.data : "", r->text.size};
  TRY(set_ids(l, r));
  clave_status st = tokenizer_encode_parts(l->tokenizer, in, r->parts, r->n_parts, starts, &ids);
  if (st) {
    id_list_free(&ids);
    return st;
  }
  *out = (clave_ids){ids.items, ids.count};
  return NULL;
}

static chat_start start_after(const clave_llm *l, const chat_template *t, const id_list *before) {
  if (!before || !before->count) return CHAT_START;
  int32_t end = chat_end_id(l, t->name);
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
  chat_start start = start_after(l, t, before);
  TRY(chat_render(t, messages, count, l->default_system, start, &r));
  clave_status st = encode_rendering(l, &r, start == CHAT_START, out);
  chat_rendering_free(&r);
  return st;
}

clave_status clave_llm_chat_ids(const clave_llm *l, const char *template_name,
                                const clave_llm_message *messages, size_t count, clave_ids *out) {
  return chat_encode(l, template_name, messages, count, NULL, out);
}
