/* Chats as text and as ids: selects the template, and maps the parts of a rendering to tokens. */
#include "llm/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/float_env.h"
#include "base/sized.h"
#include "tokenizer/parts.h"

/* ---------------------------------------------------------------- which template */

/* Returns the error for an unknown template. It quotes the beginning of the name or text. */
static clave_status refuse_template(const char *given) {
  text known = {0};
  template_list_builtins(&known);
  clave_status st = text_status(&known);
  if (!st && !given) {
    st = INVALID("the model has no chat template; the built-in templates are %s", known.data);
  } else if (!st) {
    st = UNSUPPORTED("unknown chat template '%.40s'; the built-in templates are %s", given,
                     known.data);
  }
  text_free(&known);
  return st;
}

clave_status chat_template_of(const char *given, bool files, clave_template **out) {
  *out = NULL;
  if (!given) return refuse_template(given);
  const char *builtin = builtin_text(given), *source = builtin ? builtin : given;
  if (builtin || strchr(given, '{')) return clave_template_create(source, strlen(source), out);
  return files && file_exists(given) ? clave_template_load(given, out) : refuse_template(given);
}

const char *clave_llm_chat_template_name(size_t index) { return clave_template_builtin(index); }

/* ---------------------------------------------------------------- rendering */

static clave_template_inputs add_known(const clave_llm *llm, const clave_template_inputs *inputs) {
  clave_template_inputs in = *inputs;
  if (!in.bos) in.bos = llm->bos_text;
  if (!in.eos) in.eos = llm->eos_text;
  in.join_parts = true;
  return in;
}

clave_status chat_render(const clave_llm *llm, const clave_template *template,
                         const clave_template_inputs *inputs, bool marked, jinja_output *out) {
  const clave_template_inputs in = add_known(llm, inputs);
  return template_render(template, &in, marked, out);
}

clave_status clave_llm_template_ignores(const clave_llm *llm, const clave_template_inputs *inputs,
                                        bool *tools, bool *documents) {
  OWN_FLOAT_ENV;
  clave_template_inputs in;
  clave_template *made;
  const clave_template *template;
  *tools = *documents = false;
  TRY(sized_read(inputs, &in, SIZED(clave_template_inputs, now)));
  TRY(chat_select_template(llm, NULL, &made, &template));
  in = add_known(llm, &in);
  clave_status st = template_ignores(template, &in, tools, documents);
  clave_template_destroy(made);
  return st;
}

/* ---------------------------------------------------------------- ids */

typedef struct part_list {
  text_part *items; /* owned */
  size_t count, capacity;
} part_list;

static clave_status llm_chat_add_part(part_list *list, size_t end, text_kind kind, uint32_t id) {
  if (!array_reserve(&list->items, &list->capacity, list->count + 1, sizeof *list->items))
    return status_no_memory();
  list->items[list->count++] = (text_part){end, kind, id};
  return NULL;
}

/* True if `token` is at `at` and the template itself wrote it. */
static bool token_at(span in, const char *untrusted, size_t at, const char *token) {
  size_t n = token ? strlen(token) : 0;
  if (!n || in.size - at < n || memcmp(in.data + at, token, n) != 0) return false;
  return !untrusted || !memchr(untrusted + at, 1, n);
}

/* Splits a rendering into parts. BOS and EOS become parts given by id; all other text is appended
 * to `out`. */
static clave_status llm_chat_find_parts(const clave_llm *llm, span in, const char *untrusted,
                                        text *out, part_list *parts) {
  for (size_t at = 0; at < in.size;) {
    bool bos = token_at(in, untrusted, at, llm->bos_text);
    bool eos = !bos && token_at(in, untrusted, at, llm->eos_text);
    text_kind kind = untrusted && untrusted[at] ? TEXT_UNTRUSTED : TEXT_TRUSTED;
    if (bos || eos) {
      at += strlen(bos ? llm->bos_text : llm->eos_text);
      TRY(llm_chat_add_part(parts, out->size, TEXT_ID, (uint32_t)(bos ? llm->info.bos : llm->eos)));
      continue;
    }
    text_append(out, in.data + at, 1);
    at++;
    if (parts->count && parts->items[parts->count - 1].kind == kind) {
      parts->items[parts->count - 1].end = out->size;
    } else {
      TRY(llm_chat_add_part(parts, out->size, kind, 0));
    }
  }
  return text_status(out);
}

clave_status chat_encode(const clave_llm *llm, const jinja_output *rendered, size_t from,
                         id_list *out) {
  text plain = {0};
  part_list parts = {0};
  span in = {rendered->text.data ? rendered->text.data + from : "", rendered->text.size - from};
  const char *untrusted = rendered->untrusted.data ? rendered->untrusted.data + from : NULL;
  if (!llm->tokenizer) return INVALID("a chat needs a tokenizer");
  clave_status st = llm_chat_find_parts(llm, in, untrusted, &plain, &parts);
  if (!st)
    st = tokenizer_encode_parts(llm->tokenizer, (span){plain.data ? plain.data : "", plain.size},
                                parts.items, parts.count, from == 0, out);
  text_free(&plain);
  free(parts.items);
  return st;
}

/* ---------------------------------------------------------------- how answers end */

/* Stores the id of the special token with which the text from byte `from` on begins. If it begins
 * with other text, *out is unchanged. */
static clave_status first_special(const clave_llm *llm, const jinja_output *output, size_t from,
                                  int32_t *out) {
  id_list as_trusted = {0}, as_text = {0};
  span in = {output->text.data + from, output->text.size - from};
  text_part trusted = {in.size, TEXT_TRUSTED, 0}, untrusted = {in.size, TEXT_UNTRUSTED, 0};
  clave_status st = tokenizer_encode_parts(llm->tokenizer, in, &trusted, 1, false, &as_trusted);
  if (!st) st = tokenizer_encode_parts(llm->tokenizer, in, &untrusted, 1, false, &as_text);
  bool special =
      !st && as_trusted.count && as_text.count && as_trusted.items[0] != as_text.items[0];
  if (special) *out = (int32_t)as_trusted.items[0];
  if (!st && token_at(in, NULL, 0, llm->eos_text)) *out = llm->eos;
  id_list_free(&as_trusted);
  id_list_free(&as_text);
  return st;
}

/* Renders a question and an answer and, if `with_prompt`, the start of the next answer. The output
 * is empty if there is no template or it rejects these messages. */
static clave_status render_sample(const clave_llm *llm, bool with_prompt, jinja_output *out) {
  static const char messages[] =
      "[{\"role\": \"user\", \"content\": \"?\"}, {\"role\": \"assistant\", "
      "\"content\": \"" CHAT_ANSWER "\"}]";
  clave_template_inputs in = {
      .size = sizeof in, .messages = messages, .add_generation_prompt = with_prompt, .now = 1};
  *out = (jinja_output){0};
  if (!llm->chat || !llm->tokenizer) return NULL;
  clave_status st = chat_render(llm, llm->chat, &in, true, out);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

clave_status chat_find_end(const clave_llm *llm, int32_t *out) {
  jinja_output output;
  *out = CLAVE_NO_TOKEN;
  TRY(render_sample(llm, false, &output));
  const char *at = output.text.size ? memmem(output.text.data, output.text.size, CHAT_ANSWER,
                                             strlen(CHAT_ANSWER))
                                    : NULL;
  size_t from = at ? (size_t)(at - output.text.data) + strlen(CHAT_ANSWER) : output.text.size;
  clave_status st = from < output.text.size ? first_special(llm, &output, from, out) : NULL;
  jinja_output_free(&output);
  return st;
}

/* Returns the size of the text's beginning that looks like a special token, such as <|name|> or
 * <name_of_turn>; 0 if none does. */
static size_t token_like(const char *text, size_t size) {
  size_t n = 1;
  while (n < size && n < 64 && (unsigned char)text[n] > ' ' && text[n] != '<' && text[n] != '>')
    n++;
  if (*text != '<' || n >= size || text[n] != '>' || n < 4) return 0;
  bool bars = text[1] == '|' && text[n - 1] == '|', turn = memmem(text, n, "_of_", 4) != NULL;
  return bars || turn ? n + 1 : 0;
}

static void note_tokens(const clave_llm *llm, const text *in, text *out) {
  for (size_t i = 0; i < in->size; i++) {
    size_t n = token_like(in->data + i, in->size - i);
    char token[80];
    if (!n) continue;
    memcpy(token, in->data + i, n);
    token[n] = '\0';
    bool known = clave_tokenizer_find(llm->tokenizer, token) != CLAVE_NO_TOKEN;
    if (known || (out->size && strstr(out->data, token))) continue;
    text_printf(out, "%s%s", out->size ? ", " : "", token);
  }
}

clave_status clave_llm_chat_unknown_tokens(const clave_llm *llm, char **out) {
  OWN_FLOAT_ENV;
  jinja_output output;
  text tokens = {0};
  *out = NULL;
  TRY(render_sample(llm, true, &output));
  text_puts(&tokens, "");
  if (output.text.size) note_tokens(llm, &output.text, &tokens);
  jinja_output_free(&output);
  clave_status st = text_status(&tokens);
  if (st) {
    text_free(&tokens);
    return st;
  }
  *out = tokens.data ? tokens.data : strdup("");
  return *out ? NULL : status_no_memory();
}

clave_status chat_select_template(const clave_llm *llm, const char *name, clave_template **made,
                                  const clave_template **out) {
  *made = NULL;
  if (!name && llm->chat) {
    *out = llm->chat;
    return NULL;
  }
  TRY(chat_template_of(name ? name : llm->info.chat_template, false, made));
  *out = *made;
  return NULL;
}
