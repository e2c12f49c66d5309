/* Line editing and history by libedit. It reads through wait_for_input, so that Ctrl-C ends a line.
 * A paste (between ESC [200~ and ESC [201~) is inserted unchanged, including newlines. */
#include "cli/editor.h"

#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/interrupts.h"
#include "cli/report.h"

const bool has_editor = true;

struct editor {
  EditLine *line;   /* owned */
  History *history; /* owned */
  const char *prompt;
};

enum { HISTORY_LINES = 500 };
static const char paste_end[] = "\x1b[201~";

static char *prompt_of(EditLine *el) {
  union {
    const char *in;
    char *out;
  } shown; /* libedit wants char *, but does not write to it */
  editor *editor;
  (void)el_get(el, EL_CLIENTDATA, &editor);
  shown.in = editor->prompt;
  return shown.out;
}

static bool read_byte(char *text) { return wait_for_input() && read(STDIN_FILENO, text, 1) == 1; }

/* Reads one UTF-8 character. Returns 1, or 0 at the end of input and after Ctrl-C. */
static int read_character(EditLine *el, wchar_t *out) {
  mbstate_t state = {0};
  char c;
  (void)el;
  for (;;) {
    if (!read_byte(&c)) return 0;
    size_t n = mbrtowc(out, &c, 1, &state);
    if (n == (size_t)-2) continue;
    if (n != (size_t)-1) return 1;
    memset(&state, 0, sizeof state); /* skips invalid UTF-8 */
  }
}

/* Inserts everything up to the end of the paste into the line. */
static unsigned char paste(EditLine *el, int key) {
  page got = {0};
  size_t n = strlen(paste_end);
  unsigned char result = CC_REFRESH;
  (void)key;
  for (char c; read_byte(&c);) {
    if (c == '\r') c = '\n';
    if (c) text_append(&got, &c, 1);
    if (got.size < n || memcmp(got.data + got.size - n, paste_end, n) != 0) continue;
    got.size -= n;
    got.data[got.size] = '\0';
    break;
  }
  while (got.size && got.data[got.size - 1] == '\n') got.data[--got.size] = '\0';
  if (got.size && (got.failed || el_insertstr(el, got.data) != 0)) result = CC_ERROR;
  text_free(&got);
  return result;
}

static void bind_keys(EditLine *el) {
  static const char *const keys[][2] = {
      {"\\e[200~", "clave-paste"},  {"\\e[H", "ed-move-to-beg"},       {"\\e[F", "ed-move-to-end"},
      {"\\e[1~", "ed-move-to-beg"}, {"\\e[4~", "ed-move-to-end"},      {"\\eOH", "ed-move-to-beg"},
      {"\\eOF", "ed-move-to-end"},  {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5C", "em-next-word"},
      {"\\e[1;5D", "ed-prev-word"}, {"^R", "em-inc-search-prev"}};
  (void)el_wset(el, EL_ADDFN, L"clave-paste", L"Takes a paste as it is", paste);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    (void)el_set(el, EL_BIND, keys[i][0], keys[i][1], NULL);
}

static bool editor_init(editor *editor) {
  HistEvent event;
  if (!setlocale(LC_CTYPE, "C.UTF-8")) (void)setlocale(LC_CTYPE, "");
  editor->line = el_init("clave", stdin, stderr, stderr);
  editor->history = history_init();
  if (!editor->line || !editor->history) return false;
  (void)history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
  (void)history(editor->history, &event, H_SETUNIQUE, 1);
  (void)el_set(editor->line, EL_CLIENTDATA, editor);
  (void)el_set(editor->line, EL_PROMPT, prompt_of);
  (void)el_set(editor->line, EL_EDITOR, "emacs");
  (void)el_set(editor->line, EL_HIST, history, editor->history);
  (void)el_set(editor->line, EL_GETCFN, read_character);
  bind_keys(editor->line);
  return true;
}

editor *open_editor(void) {
  if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return NULL;
  editor *editor = calloc(1, sizeof *editor);
  if (!editor || editor_init(editor)) return editor;
  close_editor(editor);
  return NULL;
}

/* If Ctrl-C was typed on a line that is not empty, discards the line and returns true. */
static bool discards_line(const editor *editor) {
  const LineInfo *info = el_line(editor->line);
  bool drops = is_interrupted(NULL) && info && info->lastchar > info->buffer;
  if (!drops) return false;
  forget_interrupt();
  (void)fputs("^C\n", stderr);
  el_reset(editor->line);
  return true;
}

int edit_line(editor *editor, const char *prompt, page *line) {
  HistEvent event;
  int n = 0;
  const char *typed;
  text_clear(line);
  editor->prompt = prompt;
  (void)el_set(editor->line, EL_PREP_TERM,
               1); /* before the prompt, so that input typed from then on is not lost */
  (void)fputs("\x1b[?2004h", stderr);
  do typed = el_gets(editor->line, &n);
  while (!typed && discards_line(editor));
  (void)fputs("\x1b[?2004l", stderr);
  if (!typed || n <= 0) {
    (void)fputs("\n", stderr);
    return -1;
  }
  text_append(line, typed, (size_t)n);
  while (line->size && line->data[line->size - 1] == '\n') line->data[--line->size] = '\0';
  if (line->size) (void)history(editor->history, &event, H_ENTER, line->data);
  return line->failed ? fail_memory() : EXIT_GOOD;
}

void close_editor(editor *editor) {
  if (!editor) return;
  if (editor->line) el_end(editor->line);
  if (editor->history) history_end(editor->history);
  free(editor);
}
