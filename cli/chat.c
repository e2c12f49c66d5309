/* Chats: reads messages and prints answers. */
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

static void write_message(json_writer *writer, const char *role, const char *content, size_t size) {
  emit_record(writer, NULL);
  emit_string(writer, "role", role);
  emit_text(writer, "content", content, size);
  emit_end_object(writer);
}

/* Sets *out to true if the conversation has no messages yet. */
static int cli_chat_is_empty(const speech *speech, bool *out) {
  char *messages;
  TRY_STATUS(clave_llm_messages(speech->talk, &messages));
  *out = strcmp(messages, "[]") == 0;
  clave_text_free(messages);
  return EXIT_GOOD;
}

static int cli_chat_prompt(const chat *chat) {
  speech *speech = chat->speech;
  clave_template_inputs in = chat_template_inputs(&speech->chat);
  clave_llm_stats before, after;
  if (speech->chat.messages.failed) return fail_memory();
  clave_llm_get_stats(speech->talk, &before);
  TRY_STATUS(clave_llm_prompt_messages(speech->talk, &in));
  clave_llm_get_stats(speech->talk, &after);
  return show_prompt(speech, after.prompt_tokens - before.prompt_tokens);
}

static int prompt_message(const chat *chat, const char *content, size_t size) {
  page *messages = &chat->speech->chat.messages;
  json_writer writer = {.out = messages};
  bool first = false;
  TRY_EXIT(cli_chat_is_empty(chat->speech, &first));
  text_clear(messages);
  emit_list(&writer, NULL);
  if (first && chat->has_system)
    write_message(&writer, "system", chat->system.data ? chat->system.data : "", chat->system.size);
  write_message(&writer, "user", content, size);
  emit_end_array(&writer);
  return cli_chat_prompt(chat);
}

int answer_message(chat *chat, const char *content, size_t size) {
  TRY_EXIT(prompt_message(chat, content, size));
  show_progress("preparing");
  return speak(chat->speech);
}

/* ---------------------------------------------------------------- messages of a file */

typedef struct script {
  const char *name, *at; /* within the array's text, which is valid JSON */
  size_t number;         /* number of the message at `at`, from 1 */
  bool ended;
} script;

/* Returns the next element of the array and moves past it. */
static span next_element(script *script) {
  int depth = 0;
  bool quoted = false;
  script->at += strspn(script->at, " \t\r\n,");
  span element = {script->at, 0};
  script->ended = *script->at == ']';
  for (; *script->at && !script->ended; script->at++) {
    if (!quoted && !depth && (*script->at == ',' || *script->at == ']')) break;
    if (quoted && *script->at == '\\') {
      script->at++;
    } else if (*script->at == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth +=
          (*script->at == '{' || *script->at == '[') - (*script->at == '}' || *script->at == ']');
    }
  }
  element.size = (size_t)(script->at - element.data);
  script->number++;
  return element;
}

typedef enum speaker { NOBODY, SYSTEM, USER, ASSISTANT, TOOL } speaker;

static int read_role(const script *script, span message, speaker *out) {
  static const char *const roles[] = {"", "system", "user", "assistant", "tool"};
  json *value;
  TRY_STATUS(json_parse(message.data, message.size, &value));
  const json *role = json_kind_of(value) == JSON_OBJECT ? json_member(value, "role") : NULL;
  bool is_text = role && json_kind_of(role) == JSON_STRING;
  *out = USER; /* other roles are answered like a user */
  for (int i = SYSTEM; is_text && i <= TOOL; i++) {
    if (strcmp(json_string(role), roles[i]) == 0) *out = (speaker)i;
  }
  json_free(value);
  return is_text
             ? EXIT_GOOD
             : fail("%s: message %zu: expected {\"role\": ..., \"content\": ...}, got no \"role\"",
                    script->name, script->number);
}

/* True if a message of `now` that is followed by a message of `next` needs an answer. */
static bool needs_answer(speaker now, speaker next) {
  if (now == TOOL) return next != TOOL && next != ASSISTANT;
  return now == USER && next != ASSISTANT && next != TOOL;
}

static int begin_script(const chat *chat, script *script, speaker first) {
  page *messages = &chat->speech->chat.messages;
  json_writer writer = {.out = messages, .compact = true};
  text_clear(messages);
  text_puts(messages, "[");
  if (!chat->has_system) return EXIT_GOOD;
  if (first == SYSTEM)
    return fail(
        "%s: the file begins with a system message, and --system sets a second one; remove one of "
        "them",
        script->name);
  write_message(&writer, "system", chat->system.data ? chat->system.data : "", chat->system.size);
  return EXIT_GOOD;
}

static void cli_chat_add_element(page *messages, span element) {
  if (messages->size > 1) text_puts(messages, ",");
  text_append(messages, element.data, element.size);
}

static int answer_pending(chat *chat) {
  page *messages = &chat->speech->chat.messages;
  text_puts(messages, "]");
  TRY_EXIT(cli_chat_prompt(chat));
  show_progress("preparing");
  TRY_EXIT(speak_line(chat->speech));
  text_clear(messages);
  text_puts(messages, "[");
  return EXIT_GOOD;
}

int answer_script(chat *chat, const char *name, const page *content) {
  script script = {.name = name, .at = content->data ? content->data : ""};
  size_t n_answers = 0;
  speaker now = NOBODY, next;
  script.at += strspn(script.at, " \t\r\n") + 1; /* after the opening bracket */
  span message = next_element(&script);
  if (!script.ended) TRY_EXIT(read_role(&script, message, &now));
  TRY_EXIT(begin_script(chat, &script, now));
  while (!script.ended && !is_interrupted(NULL)) {
    cli_chat_add_element(&chat->speech->chat.messages, message);
    message = next_element(&script);
    next = NOBODY;
    if (!script.ended) TRY_EXIT(read_role(&script, message, &next));
    if (needs_answer(now, next)) TRY_EXIT(answer_pending(chat));
    n_answers += needs_answer(now, next);
    now = next;
  }
  return n_answers || is_interrupted(NULL)
             ? EXIT_GOOD
             : fail("%s: expected a user message without an answer", name);
}

/* ---------------------------------------------------------------- typed messages */

/* Answers a typed message. If it cannot be prompted, reports the error, and the chat continues. */
static int answer_typed(chat *chat, const page *message) {
  if (prompt_message(chat, message->data, message->size)) return EXIT_GOOD;
  TRY_EXIT(speak_line(chat->speech));
  if (stopped_by(chat->speech, clave_llm_stop_name(CLAVE_LLM_CONTEXT_FULL)))
    print_note(NULL, "the model's context is full; /undo, /regen or /reset frees part of it");
  return EXIT_GOOD;
}

/* Prints the model's name and how to get help, if standard error is a terminal. */
static void greet(const chat *chat) {
  const char *path = chat->options.model.program, *slash = strrchr(path, '/');
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

int converse(chat *chat) {
  line_reader *lines;
  page message = {0};
  greet(chat);
  TRY_EXIT(open_lines(chat->options.color, &lines));
  int result = EXIT_GOOD;
  while (!result && !chat->ended) {
    result = read_message(lines, &message);
    if (result || !message.size) continue;
    result =
        is_chat_command(&message) ? run_chat_command(chat, &message) : answer_typed(chat, &message);
    if (!result) forget_interrupt();
  }
  close_lines(lines);
  text_free(&message);
  return result < 0 ? EXIT_GOOD : result;
}
