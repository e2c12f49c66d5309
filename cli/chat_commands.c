/* Commands in a chat: lines that begin with a slash. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "cli/carried.h"
#include "cli/chat.h"
#include "cli/editor.h"
#include "cli/progress.h"
#include "json/fields.h"
#include "json/writer.h"

typedef struct chat_command {
  const char *name, *value, *help; /* value: placeholder of its argument; NULL: no argument */
  int (*run)(chat *chat, const char *argument);
} chat_command;

static int help(chat *chat, const char *argument);

static int reset(chat *chat, const char *argument) {
  (void)argument;
  TRY_STATUS(clave_llm_reset(chat->speech->talk));
  print_note(NULL, "a new chat begins");
  return EXIT_GOOD;
}

static int undo(chat *chat, const char *argument) {
  (void)argument;
  TRY_STATUS(clave_llm_undo(chat->speech->talk, true));
  print_note(NULL, "the last message and its answer are removed");
  return EXIT_GOOD;
}

static int answer_again(chat *chat, const char *argument) {
  (void)argument;
  TRY_STATUS(clave_llm_undo(chat->speech->talk, false));
  return speak_line(chat->speech);
}

static int begin_with(chat *chat, const char *argument) {
  TRY_STATUS(clave_llm_reset(chat->speech->talk));
  text_clear(&chat->system);
  text_puts(&chat->system, argument);
  if (chat->system.failed) return fail_memory();
  chat->has_system = *argument != '\0';
  print_note(NULL, chat->has_system ? "a new chat begins with this system message"
                                    : "a new chat begins without a system message from you");
  return EXIT_GOOD;
}

static int save(chat *chat, const char *argument) {
  TRY_STATUS(clave_llm_save(chat->speech->talk, argument));
  print_note(NULL, "saved");
  return EXIT_GOOD;
}

/* Keeps newlines and escapes other control characters as \x1b. */
static void add_lines(page *out, const char *text) {
  char line[2] = {0};
  for (; *text; text++) {
    *line = *text;
    if (*text == '\n') {
      text_puts(out, line);
    } else {
      page_visible(out, line);
    }
  }
}

/* Writes "user: Who is there?"; contents that are not text as JSON. */
static void add_message(page *out, const json *value) {
  const char *role = text_or_null(value, "role"), *text = text_or_null(value, "content");
  const json *content = json_member(value, "content");
  json_writer writer = {.out = out, .compact = true};
  add_lines(out, role ? role : "?");
  text_puts(out, ": ");
  if (!content) {
    text_puts(out, "?");
  } else if (text) {
    add_lines(out, text);
  } else {
    emit_json(&writer, NULL, content);
  }
  text_puts(out, "\n");
}

static int show_messages(const chat *chat) {
  char *messages;
  json *document = NULL;
  page out = {0};
  TRY_STATUS(clave_llm_messages(chat->speech->talk, &messages));
  clave_status st = json_parse(messages, strlen(messages), &document);
  if (st) text_printf(&out, "%s\n", messages); /* a text contains NUL */
  clave_status_free(st);
  for (const json *m = document ? json_first(document) : NULL; m; m = json_next(m))
    add_message(&out, m);
  json_free(document);
  clave_text_free(messages);
  if (!out.failed) (void)fwrite(out.data ? out.data : "", 1, out.size, stderr);
  text_free(&out);
  return EXIT_GOOD;
}

static int chat_commands_load(chat *chat, const char *argument) {
  TRY_STATUS(clave_llm_restore(chat->speech->talk, argument));
  return show_messages(chat);
}

/* ---------------------------------------------------------------- options */

static const char *const settable[] = {"temperature",
                                       "top-k",
                                       "top-p",
                                       "min-p",
                                       "seed",
                                       "repetition-penalty",
                                       "presence-penalty",
                                       "frequency-penalty",
                                       "penalty-window",
                                       "max-new-tokens"};

static int take_options(const chat *chat) {
  clave_sampler_options options = sampler_options(&chat->options, chat->bias);
  TRY_STATUS(clave_llm_set_sampler(chat->speech->talk, &options));
  chat->speech->max_new_tokens = chat->options.max_new_tokens;
  return EXIT_GOOD;
}

static int show_options(const generate_arguments *arguments) {
  (void)fprintf(
      stderr,
      "temperature=%g top-k=%" PRId64 " top-p=%g min-p=%g seed=%" PRId64
      " repetition-penalty=%g presence-penalty=%g frequency-penalty=%g penalty-window=%" PRId64,
      arguments->temperature, arguments->top_k, arguments->top_p, arguments->min_p, arguments->seed,
      arguments->repetition, arguments->presence, arguments->frequency, arguments->penalty_window);
  if (arguments->max_new_tokens < INT64_MAX)
    (void)fprintf(stderr, " max-new-tokens=%" PRId64, arguments->max_new_tokens);
  (void)fputs("\n", stderr);
  return EXIT_GOOD;
}

static int chat_commands_set(chat *chat, const char *argument) {
  const char *equals = strchr(argument, '=');
  size_t n = equals ? (size_t)(equals - argument) : 0;
  char name[64];
  if (!*argument) return show_options(&chat->options);
  (void)snprintf(name, sizeof name, "--%.*s", (int)(n < 40 ? n : 40), argument);
  for (size_t i = 0; i < LENGTH(settable); i++) {
    if (strcmp(settable[i], name + 2) != 0) continue;
    generate_arguments before = chat->options;
    int result = set_argument(chat->settings, name, equals + 1, &chat->options);
    if (!result) result = take_options(chat);
    if (result) chat->options = before;
    return result;
  }
  const char *nearest = find_nearest(name + 2, settable, LENGTH(settable), sizeof *settable);
  if (nearest) return fail("/set: unknown option \"%s\"; did you mean %s?", name + 2, nearest);
  return fail("/set: expected NAME=VALUE, such as temperature=0.7, got \"%s\"", argument);
}

static int chat_commands_end(chat *chat, const char *argument) {
  (void)argument;
  chat->ended = true;
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the table */

static const chat_command chat_commands[] = {
    {"/reset", NULL, "starts a new chat", reset},
    {"/undo", NULL, "removes the last message and its answer", undo},
    {"/regen", NULL,
     "generates the last answer again (it differs only if the temperature is above 0)",
     answer_again},
    {"/system", "TEXT", "starts a new chat with this system message", begin_with},
    {"/set", "NAME=VALUE",
     "changes an option of clave generate (temperature=0.7); without argument: shows all options",
     chat_commands_set},
    {"/save", "FILE", "writes the chat to a file", save},
    {"/load", "FILE", "continues a saved chat", chat_commands_load},
    {"/help", NULL, "prints this list", help},
    {"/exit", NULL, "ends the chat, as Ctrl-D does", chat_commands_end},
};

static int help(chat *chat, const char *argument) {
  columns table = {.n_columns = 2};
  page out = {0};
  (void)chat;
  (void)argument;
  for (size_t i = 0; i < LENGTH(chat_commands); i++) {
    const chat_command *command = &chat_commands[i];
    columns_cell(&table, "%s%s%s", command->name, command->value ? " " : "",
                 command->value ? command->value : "");
    columns_cell(&table, "%s", command->help);
  }
  columns_write(&table, 2, &out);
  text_puts(&out,
            "For a message of several lines, end each line with \\, or write \"\"\" before and "
            "after the message. If a\nmessage begins with a slash, put a space before it. Ctrl-C "
            "stops an answer, Ctrl-D ends the chat.\n");
  if (!has_editor) text_puts(&out, "No line editing: this clave was built without libedit.\n");
  if (!out.failed) (void)fputs(out.data, stderr);
  text_free(&out);
  return EXIT_GOOD;
}

static const chat_command *chat_commands_find(const char *line, size_t length) {
  for (size_t i = 0; i < LENGTH(chat_commands); i++) {
    const char *name = chat_commands[i].name;
    if (strlen(name) == length && strncmp(name, line, length) == 0) return &chat_commands[i];
  }
  return NULL;
}

bool is_chat_command(const page *line) { return line->size && line->data[0] == '/'; }

static int chat_commands_refuse(const char *line, size_t length) {
  char word[40];
  (void)snprintf(word, sizeof word, "%.*s", (int)(length < 32 ? length : 32), line);
  const char *nearest =
      find_nearest(word, &chat_commands[0].name, LENGTH(chat_commands), sizeof *chat_commands);
  if (nearest) return fail("unknown chat command %s; did you mean %s?", word, nearest);
  return fail("unknown chat command %s; /help lists the commands", word);
}

int run_chat_command(chat *chat, const page *line) {
  size_t length = strcspn(line->data, " \t\n");
  const char *argument = line->data + length;
  const chat_command *command = chat_commands_find(line->data, length);
  while (is_ascii_space(*argument)) argument++;
  if (!command) {
    (void)chat_commands_refuse(line->data, length);
  } else if (!command->value && *argument) {
    (void)fail("%s: expected no argument, got \"%s\"", command->name, argument);
  } else if (command->value && !*argument && command->run != chat_commands_set &&
             command->run != begin_with) {
    (void)fail("%s needs an argument: %s", command->name, command->value);
  } else {
    (void)command->run(chat, argument);
  }
  return EXIT_GOOD;
}
