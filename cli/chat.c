/* Chats: messages in, answers out. */
#include "cli/chat.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/files.h"
#include "cli/interrupts.h"
#include "cli/lines.h"
#include "cli/progress.h"
#include "json/json.h"
#include "json/writer.h"

/* ---------------------------------------------------------------- prompts */

static void write_message(json_writer *j, const char *role, const char *content, size_t size) {
  emit_record(j, NULL);
  emit_string(j, "role", role);
  emit_text(j, "content", content, size);
  emit_end_object(j);
}

/* Whether messages that come now are the first. */
static int is_empty(const speech *s, bool *out) {
  char *messages;
  TRY_STATUS(clave_llm_messages(s->talk, &messages));
  *out = strcmp(messages, "[]") == 0;
  clave_text_free(messages);
  return EXIT_GOOD;
}

static int prompt(const chat *c) {
  speech *s = c->speech;
  clave_template_inputs in = chat_template_inputs(&s->chat);
  clave_llm_stats before, after;
  if (s->chat.messages.failed) return fail_memory();
  clave_llm_get_stats(s->talk, &before);
  TRY_STATUS(clave_llm_prompt_messages(s->talk, &in));
  clave_llm_get_stats(s->talk, &after);
  return show_prompt(s, after.prompt_tokens - before.prompt_tokens);
}

static int prompt_message(const chat *c, const char *content, size_t size) {
  page *messages = &c->speech->chat.messages;
  json_writer j = {.out = messages};
  bool first = false;
  TRY_EXIT(is_empty(c->speech, &first));
  text_clear(messages);
  emit_list(&j, NULL);
  if (first && c->has_system)
    write_message(&j, "system", c->system.data ? c->system.data : "", c->system.size);
  write_message(&j, "user", content, size);
  emit_end_array(&j);
  return prompt(c);
}

int answer_message(chat *c, const char *content, size_t size) {
  TRY_EXIT(prompt_message(c, content, size));
  show_progress("preparing");
  return speak(c->speech);
}

/* ---------------------------------------------------------------- messages of a file */

typedef struct script {
  const char *name, *at; /* within the array's text: JSON that was checked */
  size_t number;         /* of the message at `at`, from 1 */
  bool ended;
} script;

/* The next element of the array, and where it ends. */
static span next_element(script *s) {
  int depth = 0;
  bool quoted = false;
  s->at += strspn(s->at, " \t\r\n,");
  span element = {s->at, 0};
  s->ended = *s->at == ']';
  for (; *s->at && !s->ended; s->at++) {
    if (!quoted && !depth && (*s->at == ',' || *s->at == ']')) break;
    if (quoted && *s->at == '\\') {
      s->at++;
    } else if (*s->at == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth += (*s->at == '{' || *s->at == '[') - (*s->at == '}' || *s->at == ']');
    }
  }
  element.size = (size_t)(s->at - element.data);
  s->number++;
  return element;
}

typedef enum speaker { NOBODY, SYSTEM, USER, ASSISTANT, TOOL } speaker;

static int read_role(const script *s, span message, speaker *out) {
  static const char *const roles[] = {"", "system", "user", "assistant", "tool"};
  json *v;
  TRY_STATUS(json_parse(message.data, message.size, &v));
  const json *role = json_kind_of(v) == JSON_OBJECT ? json_member(v, "role") : NULL;
  bool said = role && json_kind_of(role) == JSON_STRING;
  *out = USER; /* other roles ask, too */
  for (int i = SYSTEM; said && i <= TOOL; i++) {
    if (strcmp(json_string(role), roles[i]) == 0) *out = (speaker)i;
  }
  json_free(v);
  return said ? EXIT_GOOD
              : fail("%s: message %zu: expected {\"role\": ..., \"content\": ...}, got no \"role\"",
                     s->name, s->number);
}

/* Is what `now` says answered, if `next` comes behind it? */
static bool is_asked(speaker now, speaker next) {
  if (now == TOOL) return next != TOOL && next != ASSISTANT;
  return now == USER && next != ASSISTANT && next != TOOL;
}

static int begin_script(const chat *c, script *s, speaker first) {
  page *messages = &c->speech->chat.messages;
  json_writer j = {.out = messages, .compact = true};
  text_clear(messages);
  text_puts(messages, "[");
  if (!c->has_system) return EXIT_GOOD;
  if (first == SYSTEM)
    return fail("%s: begins with a system message, and --system is another", s->name);
  write_message(&j, "system", c->system.data ? c->system.data : "", c->system.size);
  return EXIT_GOOD;
}

static void add_element(page *messages, span element) {
  if (messages->size > 1) text_puts(messages, ",");
  text_append(messages, element.data, element.size);
}

static int answer_pending(chat *c) {
  page *messages = &c->speech->chat.messages;
  text_puts(messages, "]");
  TRY_EXIT(prompt(c));
  show_progress("preparing");
  TRY_EXIT(speak_line(c->speech));
  text_clear(messages);
  text_puts(messages, "[");
  return EXIT_GOOD;
}

int answer_script(chat *c, const char *name, const page *content) {
  script s = {.name = name, .at = content->data ? content->data : ""};
  size_t n_answers = 0;
  speaker now = NOBODY, next;
  s.at += strspn(s.at, " \t\r\n") + 1; /* behind its bracket */
  span message = next_element(&s);
  if (!s.ended) TRY_EXIT(read_role(&s, message, &now));
  TRY_EXIT(begin_script(c, &s, now));
  while (!s.ended && !is_interrupted(NULL)) {
    add_element(&c->speech->chat.messages, message);
    message = next_element(&s);
    next = NOBODY;
    if (!s.ended) TRY_EXIT(read_role(&s, message, &next));
    if (is_asked(now, next)) TRY_EXIT(answer_pending(c));
    n_answers += is_asked(now, next);
    now = next;
  }
  return n_answers || is_interrupted(NULL) ? EXIT_GOOD
                                           : fail("%s: no message asks for an answer", name);
}

/* ---------------------------------------------------------------- messages of a person */

/* What was wrong is said, and nothing of the chat is lost. */
static int answer_typed(chat *c, const page *message) {
  if (prompt_message(c, message->data, message->size)) return EXIT_GOOD;
  TRY_EXIT(speak_line(c->speech));
  if (stopped_by(c->speech, clave_llm_stop_name(CLAVE_LLM_CONTEXT_FULL)))
    print_note(NULL, "the model's context is full; /undo, /regen or /reset make room");
  return EXIT_GOOD;
}

/* Prints the model's name and how to get help, if standard error is a terminal. */
static void greet(const chat *c) {
  const char *path = c->options.model.program, *slash = strrchr(path, '/');
  const char *name = slash && slash[1] ? slash + 1 : path, *dot = strrchr(name, '.');
  page plain = {0}, shown = {0};
  if (!isatty(STDERR_FILENO)) return;
  text_append(&plain, name, dot && dot != name ? (size_t)(dot - name) : strlen(name));
  if (!plain.failed) page_visible(&shown, plain.data);
  if (!plain.failed && !shown.failed)
    (void)fprintf(stderr, "%s. Write a message; /help lists commands, Ctrl-D ends the chat.\n",
                  shown.data);
  text_free(&plain);
  text_free(&shown);
}

int converse(chat *c) {
  line_reader *lines;
  page message = {0};
  greet(c);
  TRY_EXIT(open_lines(c->options.color, &lines));
  int result = EXIT_GOOD;
  while (!result && !c->ended) {
    result = read_message(lines, &message);
    if (result || !message.size) continue;
    result = is_chat_command(&message) ? run_chat_command(c, &message) : answer_typed(c, &message);
    if (!result) forget_interrupt();
  }
  close_lines(lines);
  text_free(&message);
  return result < 0 ? EXIT_GOOD : result;
}
