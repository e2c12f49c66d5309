/* Fails the Nth allocation of a whole life of a chat template (load, render, destroy), for N = 0,
 * 1, 2 ... until nothing is left to fail. Each time there is an error, or the text is right. Leaks
 * are for the sanitizer that this is built with.
 *
 *   run_template_faults FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_template.h"
#include "clave_tokenizer.h"
#include "test/fault/loop.h"

static const char messages[] =
    "[{\"role\": \"system\", \"content\": \"a <|im_end|> b\"}, {\"role\": \"user\", \"content\": "
    "[{\"type\": \"text\", \"text\": \" one two three four five six seven eight nine ten \"}]}]";
static const char tools[] =
    "[{\"name\": \"f\", \"parameters\": {\"a\": 1.5, \"b\": [null, true]}}]";

typedef struct life {
  const char *path;
  clave_template *file, *made;
  char *text, *own;
  size_t size, own_size;
  bool ignores_tools;
} life;

static clave_status run_life(void *ctx) {
  static const char source[] =
      "{% macro f(a, b='x') %}{{ a ~ b }}{% endmacro %}{% set ns = namespace(t='') %}"
      "{% for m in messages %}{% set ns.t = ns.t + m.role %}{{ f(m.content, b=loop.index) }}"
      "{% endfor %}{{ ns.t | upper }}{{ tools | tojson(indent=2) }}{{ tools }}"
      "{{ (messages | map(attribute='role') | join(',')).split(',') | sort }}{{ '%5.1f' % 2 }}"
      /* blocks of memory after the first, and text too large for one */
      "{% for i in range(150) %}{% set ns.t = ns.t ~ 'xyz' %}{% endfor %}{{ ('y' * 9000)[:2] }}";
  life *life = ctx;
  bool ignores_documents;
  clave_template_inputs in = {.size = sizeof in,
                              .messages = messages,
                              .tools = tools,
                              .arguments = "{\"enable_thinking\": false}",
                              .bos = "<s>",
                              .add_generation_prompt = true,
                              .now = 1};
  clave_status st = clave_template_load(life->path, &life->file);
  if (!st) st = clave_template_render(life->file, &in, &life->text, &life->size);
  if (!st) st = clave_template_create(source, sizeof source - 1, &life->made);
  in.join_parts = true;
  if (!st) st = clave_template_render(life->made, &in, &life->own, &life->own_size);
  if (!st) st = clave_template_ignores(life->made, &in, &life->ignores_tools, &ignores_documents);
  return st;
}

static const life *good; /* a life without failures */

static const char *wrong_text(void *ctx) {
  const life *life = ctx;
  bool same = life->size == good->size && !memcmp(life->text, good->text, life->size) &&
              life->own_size == good->own_size && !memcmp(life->own, good->own, life->own_size) &&
              !life->ignores_tools;
  return same ? NULL : "the text is another";
}

static clave_status resume(void *ctx) {
  (void)ctx;
  return NULL;
}

static void end_life(void *ctx) {
  life *alive = ctx;
  clave_template_destroy(alive->file);
  clave_template_destroy(alive->made);
  clave_text_free(alive->text);
  clave_text_free(alive->own);
  *alive = (life){.path = alive->path};
}

static int run_file(const char *path) {
  life alive = {.path = path};
  clave_status status = run_life(&alive);
  life first = alive;
  if (status) printf("FAIL %s without a failure: %s\n", path, clave_status_message(status));
  if (status) return 1;
  alive = (life){.path = path};
  good = &first;
  const fault_test test = {&alive, run_life, wrong_text, resume, end_life};
  int failed = fault_loop(&test, "alloc", 0, 1);
  end_life(&first);
  return failed;
}

int main(int argc, char **argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++) failed |= run_file(argv[i]);
  return failed;
}
