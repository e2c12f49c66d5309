/* Data of the program's users: additional sections of a .clv, and metadata. */
#include <string.h>

#include "json/json.h"
#include "serialize/limits.h"
#include "serialize/program_files.h"

static const char own[][5] = {"PROG", "CIDX", "FIDX", "CONS", "FORM"};

bool is_own_section(const char *tag) {
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (memcmp(own[i], tag, 4) == 0) return true;
  return false;
}

static program_section *sections_find(const program *program, const char *tag) {
  for (uint32_t i = 0; i < program->n_sections; i++)
    if (memcmp(program->sections[i].tag, tag, sizeof program->sections[i].tag) == 0)
      return &program->sections[i];
  return NULL;
}

const program_section *program_find_section(const program *program, const char *tag) {
  return strlen(tag) == 4 ? sections_find(program, tag) : NULL;
}

clave_status add_section_to(program *program, const char *tag, program_section **out) {
  *out = sections_find(program, tag);
  if (*out) return NULL;
  if (!program->sections)
    program->sections = mem_pool_alloc(program->pool, LIMIT_SECTIONS, sizeof *program->sections);
  if (!program->sections) return status_no_memory();
  if (program->n_sections == LIMIT_SECTIONS - N_OWN_SECTIONS)
    return INVALID("the program has more than %d sections", LIMIT_SECTIONS - N_OWN_SECTIONS);
  *out = &program->sections[program->n_sections++];
  memcpy((*out)->tag, tag, sizeof(*out)->tag);
  return NULL;
}

static bool sections_is_tag(const char *tag) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return strlen(tag) == 4 && strspn(tag, allowed) == 4 && !is_own_section(tag);
}

clave_status program_set_section(program *program, const char *tag, const void *data, size_t size,
                                 bool required) {
  if (!sections_is_tag(tag))
    return INVALID(
        "'%.60s' is not a section tag: expected four letters or digits, but not PROG, CIDX, CONS, "
        "FIDX or FORM",
        tag);
  program_section *section = sections_find(program, tag);
  if (!data) {
    if (section) *section = program->sections[--program->n_sections];
    return NULL;
  }
  uint8_t *copy = mem_pool_alloc(program->pool, size + 1, 1);
  if (!copy) return status_no_memory();
  memcpy(copy, data, size);
  TRY(add_section_to(program, tag, &section));
  section->required = required;
  section->data = copy;
  section->size = size;
  return NULL;
}

clave_status program_set_metadata(program *program, const char *metadata) {
  size_t n = strlen(metadata);
  if (n > 0) TRY(status_while(json_check_syntax(metadata, n, false), "metadata"));
  char *copy = mem_pool_strdup(program->pool, metadata, n);
  if (!copy) return status_no_memory();
  program->ir.metadata = copy;
  return NULL;
}
