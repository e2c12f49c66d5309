/* Contents of messages in OpenAI's form, [{"type": "text", "text": ...}, ...]. A template that
 * prints the texts of such a list gets the list; any other gets the texts with line breaks between
 * them. Rendering a list shows which of the two it is. Parts other than
 * text are refused by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "json/writer.h"
#include "llm/template.h"

typedef enum speaker { OTHER, SYSTEM, USER, ASSISTANT, TOOL, SPEAKERS } speaker;
static const char *const speaker_names[SPEAKERS] = {"", "system", "user", "assistant", "tool"};

/* One message: who sends it, and the form of its content. */
typedef struct message_note {
  speaker role;
  bool has_parts, has_plain; /* its content is a list; the list has bare strings */
} message_note;

/* Depths in the JSON document: values of the array, members of a message, parts, their members. */
enum { IN_MESSAGES = 1, IN_MESSAGE, IN_PARTS, IN_PART };

typedef enum known_key { NO_KEY, KEY_ROLE, KEY_CONTENT, KEY_TYPE, KEY_TEXT } known_key;

static known_key key_of(span s) {
  static const char *const names[] = {"", "role", "content", "type", "text"};
  for (int i = KEY_ROLE; i <= KEY_TEXT; i++) {
    if (s.size == strlen(names[i]) && memcmp(s.data, names[i], s.size) == 0) return (known_key)i;
  }
  return NO_KEY;
}

/* ---------------------------------------------------------------- reading the messages */

typedef struct note_reader {
  message_note *notes; /* owned (count) */
  size_t count, capacity;
  int depth;
  bool in_content;
  known_key key; /* of the value that comes next */
  size_t part;   /* number of the part in its list, from 1 */
  bool has_text;
  char type[32];        /* of the part, cut off */
  clave_status refused; /* owned: what is wrong with a part */
} note_reader;

static clave_status add_note(note_reader *r) {
  if (!array_reserve(&r->notes, &r->capacity, r->count + 1, sizeof *r->notes))
    return status_no_memory();
  r->notes[r->count++] = (message_note){0};
  return NULL;
}

static void refuse_part(note_reader *r, const char *got) {
  r->refused = INVALID("message %zu: part %zu of its content: expected type text, got %s", r->count,
                       r->part, got);
}

static void check_part(note_reader *r) {
  char got[96];
  (void)snprintf(got, sizeof got, "type %s, which the model cannot read", r->type);
  if (*r->type && strcmp(r->type, "text") != 0) {
    refuse_part(r, got);
  } else if (!r->has_text || !*r->type) {
    refuse_part(r, "a part without type and text");
  }
}

static void note_string(note_reader *r, span s) {
  if (r->depth == IN_MESSAGE && r->key == KEY_ROLE) {
    for (int i = SYSTEM; i < SPEAKERS; i++) {
      bool same = s.size == strlen(speaker_names[i]) && !memcmp(s.data, speaker_names[i], s.size);
      if (same) r->notes[r->count - 1].role = (speaker)i;
    }
  }
  if (r->depth == IN_PARTS && r->in_content) r->notes[r->count - 1].has_plain = true;
  if (r->depth != IN_PART || !r->in_content) return;
  if (r->key == KEY_TEXT) r->has_text = true;
  if (r->key == KEY_TYPE)
    (void)snprintf(r->type, sizeof r->type, "%.*s", (int)(s.size < 31 ? s.size : 31), s.data);
}

/* A value begins at the depth where the reader is. */
static clave_status note_value(note_reader *r, json_event event) {
  if (r->depth == IN_MESSAGES) TRY(add_note(r));
  if (r->depth == IN_MESSAGE && r->key == KEY_CONTENT && event == JSON_EVENT_ARRAY) {
    r->in_content = r->notes[r->count - 1].has_parts = true;
    r->part = 0;
  }
  if (r->depth != IN_PARTS || !r->in_content) return NULL;
  r->part++;
  r->has_text = false;
  *r->type = '\0';
  if (event != JSON_EVENT_OBJECT && event != JSON_EVENT_STRING)
    refuse_part(r, "neither an object nor a string");
  return NULL;
}

static clave_status note(void *ctx, json_event event, span s) {
  note_reader *r = ctx;
  if (r->refused) return NULL;
  if (event == JSON_EVENT_KEY) {
    r->key = r->depth == IN_MESSAGE || r->depth == IN_PART ? key_of(s) : NO_KEY;
    return NULL;
  }
  if (event == JSON_EVENT_END) {
    r->depth--;
    if (r->depth == IN_PARTS && r->in_content) check_part(r);
    if (r->depth == IN_MESSAGE) r->in_content = false;
    return NULL;
  }
  TRY(note_value(r, event));
  if (event == JSON_EVENT_STRING) note_string(r, s);
  if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) r->depth++;
  return NULL;
}

/* ---------------------------------------------------------------- probing the template */

#define PART_1 "clave-part-1"
#define PART_2 "clave-part-2"

static size_t count_words(const text *in, const char *word) {
  size_t n = 0;
  const char *at = in->data, *end = in->size ? in->data + in->size : NULL;
  while (at && (at = memmem(at, (size_t)(end - at), word, strlen(word)))) {
    n++;
    at += strlen(word);
  }
  return n;
}

/* A chat in which `role` says `content`, which is JSON. */
static void write_probe(speaker role, const char *content, text *out) {
  text_puts(
      out, role == ASSISTANT || role == TOOL ? "[{\"role\": \"user\", \"content\": \"?\"}, " : "[");
  text_printf(out, "{\"role\": \"%s\", \"content\": %s}", speaker_names[role], content);
  text_puts(out, role == SYSTEM ? ", {\"role\": \"user\", \"content\": \"?\"}]" : "]");
}

/* Renders it; *out is empty if the template raises an exception. */
static clave_status render_probe(const clave_template *t, const clave_template_inputs *inputs,
                                 speaker role, const char *content, jinja_output *out) {
  clave_template_inputs in = *inputs;
  text messages = {0};
  *out = (jinja_output){0};
  write_probe(role, content, &messages);
  in.messages = messages.data;
  in.tools = in.documents = NULL;
  in.join_parts = false;
  in.add_generation_prompt = false;
  clave_status st = text_status(&messages);
  if (!st) st = template_render_as_given(t, &in, false, out);
  text_free(&messages);
  if (!st || status_code_of(st) == STATUS_NO_MEMORY) return st;
  status_free(st);
  return NULL;
}

/* True if the template prints the texts of a list, and nothing else of its parts. */
static clave_status takes_lists(const clave_template *t, const clave_template_inputs *in,
                                speaker role, bool *out) {
  static const char list[] = "[{\"type\": \"text\", \"text\": \"" PART_1
                             "\"}, {\"type\": \"text\", \"text\": \"" PART_2 "\"}]";
  jinja_output of_text, of_list;
  *out = false;
  if (role == OTHER) return NULL;
  TRY(render_probe(t, in, role, "\"" PART_1 PART_2 "\"", &of_text));
  clave_status st = render_probe(t, in, role, list, &of_list);
  *out = !st && count_words(&of_list.text, PART_1) == 1 &&
         count_words(&of_list.text, PART_2) == 1 &&
         count_words(&of_list.text, "type") == count_words(&of_text.text, "type");
  jinja_output_free(&of_text);
  if (!st) jinja_output_free(&of_list);
  return st;
}

/* ---------------------------------------------------------------- writing the messages */

typedef struct rewriter {
  text *out;
  const message_note *notes;
  const bool *takes; /* (SPEAKERS): lists */
  text joined;       /* of the content that is being read */
  size_t n_messages;
  int depth;
  uint64_t objects;  /* bit d: what is open at depth d is an object */
  bool joins, comma; /* comma: what comes next has a value before it */
  known_key key;
  size_t n_parts;
} rewriter;

static void write_text(text *out, span s) {
  json_writer j = {.out = out, .compact = true};
  emit_text(&j, NULL, s.data, s.size);
}

static void begin_value(rewriter *w) {
  if (w->comma) text_puts(w->out, ",");
  w->comma = true;
}

/* Texts of parts, and bare strings; nothing else of the list is written. */
static void join_event(rewriter *w, json_event event, span s) {
  bool is_text = event == JSON_EVENT_STRING &&
                 (w->depth == IN_PARTS || (w->depth == IN_PART && w->key == KEY_TEXT));
  if (event == JSON_EVENT_KEY) w->key = w->depth == IN_PART ? key_of(s) : NO_KEY;
  if (is_text && w->n_parts++) text_puts(&w->joined, "\n");
  if (is_text) text_append(&w->joined, s.data, s.size);
  if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) w->depth++;
  if (event != JSON_EVENT_END || --w->depth > IN_MESSAGE) return;
  write_text(w->out, (span){w->joined.data ? w->joined.data : "", w->joined.size});
  w->joins = false;
}

static bool is_joined(const rewriter *w) {
  const message_note *n = &w->notes[w->n_messages - 1];
  return n->has_plain || !w->takes[n->role];
}

static void open_value(rewriter *w, json_event event) {
  bool content = w->depth == IN_MESSAGE && w->key == KEY_CONTENT && event == JSON_EVENT_ARRAY;
  w->depth++;
  if (content && is_joined(w)) {
    w->joins = true;
    w->n_parts = 0;
    text_clear(&w->joined);
    return;
  }
  bool object = event == JSON_EVENT_OBJECT;
  w->objects = (w->objects & ~(1ULL << (w->depth & 63))) | (uint64_t)object << (w->depth & 63);
  text_puts(w->out, object ? "{" : "[");
  w->comma = false;
}

static clave_status rewrite(void *ctx, json_event event, span s) {
  rewriter *w = ctx;
  if (w->joins) {
    join_event(w, event, s);
    return NULL;
  }
  if (event == JSON_EVENT_END) {
    text_puts(w->out, w->objects >> (w->depth-- & 63) & 1 ? "}" : "]");
    w->comma = true;
    return NULL;
  }
  if (event != JSON_EVENT_KEY && w->depth == IN_MESSAGES) w->n_messages++;
  begin_value(w);
  if (event == JSON_EVENT_KEY) {
    w->key = w->depth == IN_MESSAGE ? key_of(s) : NO_KEY;
    write_text(w->out, s);
    text_puts(w->out, ":");
    w->comma = false;
  } else if (event == JSON_EVENT_STRING) {
    write_text(w->out, s);
  } else if (event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY) {
    open_value(w, event);
  } else {
    text_append(w->out, s.data, s.size);
  }
  return text_status(w->out);
}

/* False: no content can be a list. Cheaper than reading the messages. */
static bool may_have_parts(const char *messages) {
  static const char space[] = " \t\r\n";
  for (const char *at = messages; (at = strstr(at, "\"content\""));) {
    at += strlen("\"content\"");
    at += strspn(at, space);
    if (*at == ':' && at[1 + strspn(at + 1, space)] == '[') return true;
  }
  return false;
}

static clave_status settle(const clave_template *t, const clave_template_inputs *in,
                           const note_reader *r, text *out) {
  bool takes[SPEAKERS] = {false}, asked[SPEAKERS] = {false}, joins = false;
  for (size_t i = 0; i < r->count; i++) {
    const message_note *n = &r->notes[i];
    if (n->has_parts && !asked[n->role]) TRY(takes_lists(t, in, n->role, &takes[n->role]));
    asked[n->role] |= n->has_parts;
    joins |= n->has_parts && (n->has_plain || !takes[n->role]);
  }
  if (!joins) return NULL;
  rewriter w = {.out = out, .notes = r->notes, .takes = takes};
  clave_status st = json_walk(in->messages, strlen(in->messages), 0, rewrite, &w);
  if (!st) st = text_status(&w.joined);
  if (!st) st = text_status(out);
  text_free(&w.joined);
  return st;
}

clave_status template_join_parts(const clave_template *t, clave_template_inputs *in, text *out) {
  note_reader r = {0};
  if (!in->messages || !may_have_parts(in->messages)) return NULL;
  clave_status st =
      status_while(json_walk(in->messages, strlen(in->messages), 0, note, &r), "messages");
  if (st) {
    status_free(r.refused);
  } else {
    st = r.refused ? r.refused : settle(t, in, &r, out);
  }
  free(r.notes);
  if (!st && out->size) in->messages = out->data;
  return st;
}
