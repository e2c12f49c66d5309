/* Line editing and history by libedit. It reads through wait_for_input, so that Ctrl-C ends a line;
 * a paste (between ESC [200~ and ESC [201~) is taken as it is, line ends too. */
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
  } shown; /* libedit does not write to it */
  editor *e;
  (void)el_get(el, EL_CLIENTDATA, &e);
  shown.in = e->prompt;
  return shown.out;
}

static bool read_byte(char *c) { return wait_for_input() && read(STDIN_FILENO, c, 1) == 1; }

/* A character of UTF-8: 1, or 0 at the end and after Ctrl-C. */
static int read_character(EditLine *el, wchar_t *out) {
  mbstate_t state = {0};
  char c;
  (void)el;
  for (;;) {
    if (!read_byte(&c)) return 0;
    size_t n = mbrtowc(out, &c, 1, &state);
    if (n == (size_t)-2) continue;
    if (n != (size_t)-1) return 1;
    memset(&state, 0, sizeof state); /* no UTF-8: it is left out */
  }
}

/* Everything up to the end of the paste goes into the line. */
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

static bool init(editor *e) {
  HistEvent event;
  if (!setlocale(LC_CTYPE, "C.UTF-8")) (void)setlocale(LC_CTYPE, "");
  e->line = el_init("clave", stdin, stderr, stderr);
  e->history = history_init();
  if (!e->line || !e->history) return false;
  (void)history(e->history, &event, H_SETSIZE, HISTORY_LINES);
  (void)history(e->history, &event, H_SETUNIQUE, 1);
  (void)el_set(e->line, EL_CLIENTDATA, e);
  (void)el_set(e->line, EL_PROMPT, prompt_of);
  (void)el_set(e->line, EL_EDITOR, "emacs");
  (void)el_set(e->line, EL_HIST, history, e->history);
  (void)el_set(e->line, EL_GETCFN, read_character);
  bind_keys(e->line);
  return true;
}

editor *open_editor(void) {
  if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) return NULL;
  editor *e = calloc(1, sizeof *e);
  if (!e || init(e)) return e;
  close_editor(e);
  return NULL;
}

/* Ctrl-C on a line with something drops that. */
static bool drops_line(const editor *e) {
  const LineInfo *info = el_line(e->line);
  bool drops = is_interrupted(NULL) && info && info->lastchar > info->buffer;
  if (!drops) return false;
  forget_interrupt();
  (void)fputs("^C\n", stderr);
  el_reset(e->line);
  return true;
}

int edit_line(editor *e, const char *prompt, page *line) {
  HistEvent event;
  int n = 0;
  const char *typed;
  text_clear(line);
  e->prompt = prompt;
  (void)el_set(e->line, EL_PREP_TERM,
               1); /* ahead of the prompt: what is typed from then on counts */
  (void)fputs("\x1b[?2004h", stderr);
  do typed = el_gets(e->line, &n);
  while (!typed && drops_line(e));
  (void)fputs("\x1b[?2004l", stderr);
  if (!typed || n <= 0) {
    (void)fputs("\n", stderr);
    return -1;
  }
  text_append(line, typed, (size_t)n);
  while (line->size && line->data[line->size - 1] == '\n') line->data[--line->size] = '\0';
  if (line->size) (void)history(e->history, &event, H_ENTER, line->data);
  return line->failed ? fail_memory() : EXIT_GOOD;
}

void close_editor(editor *e) {
  if (!e) return;
  if (e->line) el_end(e->line);
  if (e->history) history_end(e->history);
  free(e);
}
