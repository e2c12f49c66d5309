/* Loads, renders and destroys a chat template, and fails the Nth allocation, for N = 0, 1, 2 ...
 * until there is no Nth allocation. Each run ends with an error or with the right text. The
 * sanitizer finds leaks.
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

typedef struct scenario {
  const char *path;
  clave_template *file, *made;
  char *text, *own;
  size_t size, own_size;
  bool ignores_tools;
} scenario;

static clave_status run_scenario(void *ctx) {
  static const char source[] =
      "{% macro f(a, b='x') %}{{ a ~ b }}{% endmacro %}{% set ns = namespace(t='') %}"
      "{% for m in messages %}{% set ns.t = ns.t + m.role %}{{ f(m.content, b=loop.index) }}"
      "{% endfor %}{{ ns.t | upper }}{{ tools | tojson(indent=2) }}{{ tools }}"
      "{{ (messages | map(attribute='role') | join(',')).split(',') | sort }}{{ '%5.1f' % 2 }}"
      /* needs several blocks of memory, and text too large for one */
      "{% for i in range(150) %}{% set ns.t = ns.t ~ 'xyz' %}{% endfor %}{{ ('y' * 9000)[:2] }}";
  scenario *scenario = ctx;
  bool ignores_documents;
  clave_template_inputs in = {.size = sizeof in,
                              .messages = messages,
                              .tools = tools,
                              .arguments = "{\"enable_thinking\": false}",
                              .bos = "<s>",
                              .add_generation_prompt = true,
                              .now = 1};
  clave_status st = clave_template_load(scenario->path, &scenario->file);
  if (!st) st = clave_template_render(scenario->file, &in, &scenario->text, &scenario->size);
  if (!st) st = clave_template_create(source, sizeof source - 1, &scenario->made);
  in.join_parts = true;
  if (!st) st = clave_template_render(scenario->made, &in, &scenario->own, &scenario->own_size);
  if (!st)
    st = clave_template_ignores(scenario->made, &in, &scenario->ignores_tools, &ignores_documents);
  return st;
}

static const scenario *good; /* a scenario without failures */

static const char *wrong_text(void *ctx) {
  const scenario *scenario = ctx;
  bool same = scenario->size == good->size && !memcmp(scenario->text, good->text, scenario->size) &&
              scenario->own_size == good->own_size &&
              !memcmp(scenario->own, good->own, scenario->own_size) && !scenario->ignores_tools;
  return same ? NULL : "the text is another";
}

static clave_status resume(void *ctx) {
  (void)ctx;
  return NULL;
}

static void end_scenario(void *ctx) {
  scenario *alive = ctx;
  clave_template_destroy(alive->file);
  clave_template_destroy(alive->made);
  clave_text_free(alive->text);
  clave_text_free(alive->own);
  *alive = (scenario){.path = alive->path};
}

static int run_file(const char *path) {
  scenario alive = {.path = path};
  clave_status status = run_scenario(&alive);
  scenario first = alive;
  if (status) printf("FAIL %s without a failure: %s\n", path, clave_status_message(status));
  if (status) return 1;
  alive = (scenario){.path = path};
  good = &first;
  const fault_test test = {&alive, run_scenario, wrong_text, resume, end_scenario};
  int failed = fault_loop(&test, "alloc", 0, 1);
  end_scenario(&first);
  return failed;
}

int main(int argc, char **argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++) failed |= run_file(argv[i]);
  return failed;
}
