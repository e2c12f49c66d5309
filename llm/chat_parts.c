/* Message contents in OpenAI's list form, [{"type": "text", "text": ...}, ...]. If a template
 * prints the texts of such a list itself, it receives the list; otherwise it receives the texts
 * joined by line breaks. A trial rendering of a list decides. Parts other than text are rejected.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "json/writer.h"
#include "llm/template.h"

typedef enum chat_role { OTHER, SYSTEM, USER, ASSISTANT, TOOL, N_ROLES } chat_role;
static const char *const role_names[N_ROLES] = {"", "system", "user", "assistant", "tool"};

/* One message: its sender and the kind of its content. */
typedef struct message_note {
  chat_role role;
  bool has_parts, has_plain; /* the content is a list; the list has bare strings */
} message_note;

/* Depths in the JSON document: elements of the array, members of a message, parts, their members.
 */
enum { IN_MESSAGES = 1, IN_MESSAGE, IN_PARTS, IN_PART };

typedef enum known_key { NO_KEY, KEY_ROLE, KEY_CONTENT, KEY_TYPE, KEY_TEXT } known_key;

static known_key chat_parts_key_of(span span) {
  static const char *const names[] = {"", "role", "content", "type", "text"};
  for (int i = KEY_ROLE; i <= KEY_TEXT; i++) {
    if (span.size == strlen(names[i]) && memcmp(span.data, names[i], span.size) == 0)
      return (known_key)i;
  }
  return NO_KEY;
}

/* ---------------------------------------------------------------- reading the messages */

typedef struct note_reader {
  message_note *notes; /* owned, (count) */
  size_t count, capacity;
  int depth;
  bool in_content;
  known_key key; /* key of the next value */
  size_t part;   /* number of the part in its list, starting at 1 */
  bool has_text;
  char type[32];        /* the part's type, truncated */
  clave_status refused; /* owned: the error about a part */
} note_reader;

static clave_status add_note(note_reader *reader) {
  if (!array_reserve(&reader->notes, &reader->capacity, reader->count + 1, sizeof *reader->notes))
    return status_no_memory();
  reader->notes[reader->count++] = (message_note){0};
  return NULL;
}

static void refuse_part(note_reader *reader, const char *got) {
  reader->refused = INVALID("message %zu: part %zu of its content: expected type text, got %s",
                            reader->count, reader->part, got);
}

static void chat_parts_check_part(note_reader *reader) {
  char got[96];
  (void)snprintf(got, sizeof got, "type %s, which the model cannot read", reader->type);
  if (*reader->type && strcmp(reader->type, "text") != 0) {
    refuse_part(reader, got);
  } else if (!reader->has_text || !*reader->type) {
    refuse_part(reader, "a part without type and text");
  }
}

static void note_string(note_reader *reader, span span) {
  if (reader->depth == IN_MESSAGE && reader->key == KEY_ROLE) {
    for (int i = SYSTEM; i < N_ROLES; i++) {
      bool same =
          span.size == strlen(role_names[i]) && !memcmp(span.data, role_names[i], span.size);
      if (same) reader->notes[reader->count - 1].role = (chat_role)i;
    }
  }
  if (reader->depth == IN_PARTS && reader->in_content)
    reader->notes[reader->count - 1].has_plain = true;
  if (reader->depth != IN_PART || !reader->in_content) return;
  if (reader->key == KEY_TEXT) reader->has_text = true;
  if (reader->key == KEY_TYPE)
    (void)snprintf(reader->type, sizeof reader->type, "%.*s",
                   (int)(span.size < 31 ? span.size : 31), span.data);
}

/* Handles the start of a value at the reader's depth. */
static clave_status note_value(note_reader *reader, json_event event) {
  if (reader->depth == IN_MESSAGES) TRY(add_note(reader));
  if (reader->depth == IN_MESSAGE && reader->key == KEY_CONTENT && event == JSON_EVENT_ARRAY) {
    reader->in_content = reader->notes[reader->count - 1].has_parts = true;
    reader->part = 0;
  }
  if (reader->depth != IN_PARTS || !reader->in_content) return NULL;
  reader->part++;
  reader->has_text = false;
  *reader->type = '\0';
  if (event != JSON_EVENT_OBJECT && event != JSON_EVENT_STRING)
    refuse_part(reader, "neither an object nor a string");
  return NULL;
}

static clave_status chat_parts_note(void *ctx, json_event event, span span) {
  note_reader *reader = ctx;
  if (reader->refused) return NULL;
  if (event == JSON_EVENT_KEY) {
    reader->key =
        reader->depth == IN_MESSAGE || reader->depth == IN_PART ? chat_parts_key_of(span) : NO_KEY;
    return NULL;
  }
  if (event == JSON_EVENT_END) {
    reader->depth--;
    if (reader->depth == IN_PARTS && reader->in_content) chat_parts_check_part(reader);
    if (reader->depth == IN_MESSAGE) reader->in_content = false;
    return NULL;
  }
  TRY(note_value(reader, event));
  if (event == JSON_EVENT_STRING) note_string(reader, span);
  if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) reader->depth++;
  return NULL;
}

/* ---------------------------------------------------------------- probing the template */

#define PART_1 "clave-part-1"
#define PART_2 "clave-part-2"

static size_t chat_parts_count_words(const text *in, const char *word) {
  size_t n = 0;
  const char *at = in->data, *end = in->size ? in->data + in->size : NULL;
  while (at && (at = memmem(at, (size_t)(end - at), word, strlen(word)))) {
    n++;
    at += strlen(word);
  }
  return n;
}

/* Appends a chat in which `role` sends `content`, which is JSON. */
static void write_probe(chat_role role, const char *content, text *out) {
  text_puts(
      out, role == ASSISTANT || role == TOOL ? "[{\"role\": \"user\", \"content\": \"?\"}, " : "[");
  text_printf(out, "{\"role\": \"%s\", \"content\": %s}", role_names[role], content);
  text_puts(out, role == SYSTEM ? ", {\"role\": \"user\", \"content\": \"?\"}]" : "]");
}

/* Renders the chat of write_probe. *out is empty if the template raises an exception. */
static clave_status render_probe(const clave_template *template,
                                 const clave_template_inputs *inputs, chat_role role,
                                 const char *content, jinja_output *out) {
  clave_template_inputs in = *inputs;
  text messages = {0};
  *out = (jinja_output){0};
  write_probe(role, content, &messages);
  in.messages = messages.data;
  in.tools = in.documents = NULL;
  in.join_parts = false;
  in.add_generation_prompt = false;
  clave_status st = text_status(&messages);
  if (!st) st = template_render_as_given(template, &in, false, out);
  text_free(&messages);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

/* Sets *out to true if the template prints the texts of a list and no other members of its
 * parts. */
static clave_status accepts_lists(const clave_template *template, const clave_template_inputs *in,
                                  chat_role role, bool *out) {
  static const char list[] = "[{\"type\": \"text\", \"text\": \"" PART_1
                             "\"}, {\"type\": \"text\", \"text\": \"" PART_2 "\"}]";
  jinja_output of_text, of_list;
  *out = false;
  if (role == OTHER) return NULL;
  TRY(render_probe(template, in, role, "\"" PART_1 PART_2 "\"", &of_text));
  clave_status st = render_probe(template, in, role, list, &of_list);
  *out = !st && chat_parts_count_words(&of_list.text, PART_1) == 1 &&
         chat_parts_count_words(&of_list.text, PART_2) == 1 &&
         chat_parts_count_words(&of_list.text, "type") ==
             chat_parts_count_words(&of_text.text, "type");
  jinja_output_free(&of_text);
  if (!st) jinja_output_free(&of_list);
  return st;
}

/* ---------------------------------------------------------------- writing the messages */

typedef struct rewriter {
  text *out;
  const message_note *notes;
  const bool *accepts; /* (N_ROLES): true for roles whose lists the template prints */
  text joined;         /* text of the content being read */
  size_t n_messages;
  int depth;
  uint64_t objects;  /* bit d: the value open at depth d is an object */
  bool joins, comma; /* comma: a value precedes the next one */
  known_key key;
  size_t n_parts;
} rewriter;

static void chat_parts_write_text(text *out, span span) {
  json_writer writer = {.out = out, .compact = true};
  emit_text(&writer, NULL, span.data, span.size);
}

static void chat_parts_begin_value(rewriter *rewriter) {
  if (rewriter->comma) text_puts(rewriter->out, ",");
  rewriter->comma = true;
}

/* Joins the texts of a list's parts and bare strings. Writes nothing else of the list. */
static void join_event(rewriter *rewriter, json_event event, span range) {
  bool is_text =
      event == JSON_EVENT_STRING &&
      (rewriter->depth == IN_PARTS || (rewriter->depth == IN_PART && rewriter->key == KEY_TEXT));
  if (event == JSON_EVENT_KEY)
    rewriter->key = rewriter->depth == IN_PART ? chat_parts_key_of(range) : NO_KEY;
  if (is_text && rewriter->n_parts++) text_puts(&rewriter->joined, "\n");
  if (is_text) text_append(&rewriter->joined, range.data, range.size);
  if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) rewriter->depth++;
  if (event != JSON_EVENT_END || --rewriter->depth > IN_MESSAGE) return;
  chat_parts_write_text(rewriter->out, (span){rewriter->joined.data ? rewriter->joined.data : "",
                                              rewriter->joined.size});
  rewriter->joins = false;
}

static bool is_joined(const rewriter *rewriter) {
  const message_note *note = &rewriter->notes[rewriter->n_messages - 1];
  return note->has_plain || !rewriter->accepts[note->role];
}

static void chat_parts_open_value(rewriter *rewriter, json_event event) {
  bool content =
      rewriter->depth == IN_MESSAGE && rewriter->key == KEY_CONTENT && event == JSON_EVENT_ARRAY;
  rewriter->depth++;
  if (content && is_joined(rewriter)) {
    rewriter->joins = true;
    rewriter->n_parts = 0;
    text_clear(&rewriter->joined);
    return;
  }
  bool object = event == JSON_EVENT_OBJECT;
  rewriter->objects = (rewriter->objects & ~(1ULL << (rewriter->depth & 63))) |
                      (uint64_t)object << (rewriter->depth & 63);
  text_puts(rewriter->out, object ? "{" : "[");
  rewriter->comma = false;
}

static clave_status rewrite(void *ctx, json_event event, span span) {
  rewriter *rewriter = ctx;
  if (rewriter->joins) {
    join_event(rewriter, event, span);
    return NULL;
  }
  if (event == JSON_EVENT_END) {
    text_puts(rewriter->out, rewriter->objects >> (rewriter->depth-- & 63) & 1 ? "}" : "]");
    rewriter->comma = true;
    return NULL;
  }
  if (event != JSON_EVENT_KEY && rewriter->depth == IN_MESSAGES) rewriter->n_messages++;
  chat_parts_begin_value(rewriter);
  if (event == JSON_EVENT_KEY) {
    rewriter->key = rewriter->depth == IN_MESSAGE ? chat_parts_key_of(span) : NO_KEY;
    chat_parts_write_text(rewriter->out, span);
    text_puts(rewriter->out, ":");
    rewriter->comma = false;
  } else if (event == JSON_EVENT_STRING) {
    chat_parts_write_text(rewriter->out, span);
  } else if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) {
    chat_parts_open_value(rewriter, event);
  } else {
    text_append(rewriter->out, span.data, span.size);
  }
  return text_status(rewriter->out);
}

/* Returns false if no content can be a list. This is cheaper than parsing the messages. */
static bool may_have_parts(const char *messages) {
  static const char space[] = " \t\r\n";
  for (const char *at = messages; (at = strstr(at, "\"content\""));) {
    at += strlen("\"content\"");
    at += strspn(at, space);
    if (*at == ':' && at[1 + strspn(at + 1, space)] == '[') return true;
  }
  return false;
}

static clave_status chat_parts_join_lists(const clave_template *template,
                                          const clave_template_inputs *in,
                                          const note_reader *reader, text *out) {
  bool accepts[N_ROLES] = {false}, tried[N_ROLES] = {false}, joins = false;
  for (size_t i = 0; i < reader->count; i++) {
    const message_note *note = &reader->notes[i];
    if (note->has_parts && !tried[note->role])
      TRY(accepts_lists(template, in, note->role, &accepts[note->role]));
    tried[note->role] |= note->has_parts;
    joins |= note->has_parts && (note->has_plain || !accepts[note->role]);
  }
  if (!joins) return NULL;
  rewriter rewriter = {.out = out, .notes = reader->notes, .accepts = accepts};
  clave_status st = json_walk(in->messages, strlen(in->messages), 0, rewrite, &rewriter);
  if (!st) st = text_status(&rewriter.joined);
  if (!st) st = text_status(out);
  text_free(&rewriter.joined);
  return st;
}

clave_status template_join_parts(const clave_template *template, clave_template_inputs *in,
                                 text *out) {
  note_reader reader = {0};
  if (!in->messages || !may_have_parts(in->messages)) return NULL;
  clave_status st = status_while(
      json_walk(in->messages, strlen(in->messages), 0, chat_parts_note, &reader), "messages");
  if (st) {
    status_free(reader.refused);
  } else {
    st = reader.refused ? reader.refused : chat_parts_join_lists(template, in, &reader, out);
  }
  free(reader.notes);
  if (!st && out->size) in->messages = out->data;
  return st;
}
