/* What a program carries beside itself: sections of a .clv that are not its own, and metadata. */
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

static program_section *find(const program *p, const char *tag) {
  for (uint32_t i = 0; i < p->n_sections; i++)
    if (memcmp(p->sections[i].tag, tag, sizeof p->sections[i].tag) == 0) return &p->sections[i];
  return NULL;
}

const program_section *program_find_section(const program *p, const char *tag) {
  return strlen(tag) == 4 ? find(p, tag) : NULL;
}

clave_status add_section_to(program *p, const char *tag, program_section **out) {
  *out = find(p, tag);
  if (*out) return NULL;
  if (!p->sections) p->sections = mem_pool_alloc(p->pool, LIMIT_SECTIONS, sizeof *p->sections);
  if (!p->sections) return status_no_memory();
  if (p->n_sections == LIMIT_SECTIONS - N_OWN_SECTIONS)
    return INVALID("more than %d sections", LIMIT_SECTIONS - N_OWN_SECTIONS);
  *out = &p->sections[p->n_sections++];
  memcpy((*out)->tag, tag, sizeof(*out)->tag);
  return NULL;
}

static bool is_tag(const char *tag) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return strlen(tag) == 4 && strspn(tag, allowed) == 4 && !is_own_section(tag);
}

clave_status program_set_section(program *p, const char *tag, const void *data, size_t size,
                                 bool required) {
  if (!is_tag(tag))
    return INVALID(
        "'%.60s' is not a section's tag: four letters or digits, not PROG, CIDX, CONS, FIDX or "
        "FORM",
        tag);
  program_section *s = find(p, tag);
  if (!data) {
    if (s) *s = p->sections[--p->n_sections];
    return NULL;
  }
  uint8_t *copy = mem_pool_alloc(p->pool, size + 1, 1);
  if (!copy) return status_no_memory();
  memcpy(copy, data, size);
  TRY(add_section_to(p, tag, &s));
  s->required = required;
  s->data = copy;
  s->size = size;
  return NULL;
}

clave_status program_set_metadata(program *p, const char *metadata) {
  size_t n = strlen(metadata);
  if (n > 0) TRY(status_while(json_check_syntax(metadata, n, false), "metadata"));
  char *copy = mem_pool_strdup(p->pool, metadata, n);
  if (!copy) return status_no_memory();
  p->ir.metadata = copy;
  return NULL;
}
