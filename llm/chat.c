/* Chats as text and as ids: which template, what of it becomes which tokens. */
#include "llm/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/float_env.h"
#include "base/sized.h"
#include "tokenizer/parts.h"

/* ---------------------------------------------------------------- which template */

/* Names as they are; of a template's text, the beginning. */
static clave_status refuse_template(const char *said) {
  text known = {0};
  template_list_builtins(&known);
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

static clave_template_inputs add_known(const clave_llm *l, const clave_template_inputs *inputs) {
  clave_template_inputs in = *inputs;
  if (!in.bos) in.bos = l->bos_text;
  if (!in.eos) in.eos = l->eos_text;
  in.join_parts = true;
  return in;
}

clave_status chat_render(const clave_llm *l, const clave_template *t,
                         const clave_template_inputs *inputs, bool marked, jinja_output *out) {
  const clave_template_inputs in = add_known(l, inputs);
  return template_render(t, &in, marked, out);
}

clave_status clave_llm_template_ignores(const clave_llm *l, const clave_template_inputs *inputs,
                                        bool *tools, bool *documents) {
  OWN_FLOAT_ENV;
  clave_template_inputs in;
  clave_template *made;
  const clave_template *t;
  *tools = *documents = false;
  TRY(sized_read(inputs, &in, SIZED(clave_template_inputs, now)));
  TRY(chat_own_or_named(l, NULL, &made, &t));
  in = add_known(l, &in);
  clave_status st = template_ignores(t, &in, tools, documents);
  clave_template_destroy(made);
  return st;
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
      "[{\"role\": \"user\", \"content\": \"?\"}, {\"role\": \"assistant\", "
      "\"content\": \"" CHAT_ANSWER "\"}]";
  clave_template_inputs in = {
      .size = sizeof in, .messages = messages, .add_generation_prompt = asks, .now = 1};
  *out = (jinja_output){0};
  if (!l->chat || !l->tokenizer) return NULL;
  clave_status st = chat_render(l, l->chat, &in, true, out);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

clave_status chat_find_end(const clave_llm *l, int32_t *out) {
  jinja_output o;
  *out = CLAVE_NO_TOKEN;
  TRY(render_sample(l, false, &o));
  const char *at =
      o.text.size ? memmem(o.text.data, o.text.size, CHAT_ANSWER, strlen(CHAT_ANSWER)) : NULL;
  size_t from = at ? (size_t)(at - o.text.data) + strlen(CHAT_ANSWER) : o.text.size;
  clave_status st = from < o.text.size ? first_special(l, &o, from, out) : NULL;
  jinja_output_free(&o);
  return st;
}

/* Bytes of what is written like a special token at s: <|name|> or <name_of_turn>. */
static size_t token_like(const char *s, size_t size) {
  size_t n = 1;
  while (n < size && n < 64 && (unsigned char)s[n] > ' ' && s[n] != '<' && s[n] != '>') n++;
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
  OWN_FLOAT_ENV;
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

clave_status chat_own_or_named(const clave_llm *l, const char *name, clave_template **made,
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
