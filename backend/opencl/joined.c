/* Small launches that follow each other as one: a kernel of one group, generated of the texts of
 * theirs, walks a table of what they would be launched with, one after the other. A launch costs a
 * driver microseconds, which is more than some hundred elements take.
 *
 * The table has an entry for each launch, in words of 64 bits: what kernel it is, from 1 on, and
 * behind it in the upper half how many words the entry has; its work-items in three dimensions; for
 * each pointer the number of its buffer among those of all; and the struct of its numbers. On CPUs
 * the group is one work-item, elsewhere work-items share those of a launch and wait for each other
 * behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "base/hash.h"
#include "ops/work.h"

enum {
  MAX_JOINED_LAUNCHES = 4096, /* a device has other things to do, too */
  MAX_JOINED_PROGRAMS = 16,
  ENTRY_HEAD = 4, /* words in front of the pointers */
  WORD = 8        /* bytes */
};

typedef struct joined_launch {
  const recorded_launch *l; /* borrowed */
  uint32_t number;          /* of its node */
  uint32_t kernel;          /* of the program's, from 1 on */
} joined_launch;

struct joined_launches {
  joined_launch *launches; /* owned */
  uint32_t n;
  size_t words; /* of the table */
};

void joined_destroy(joined_launches *j) {
  if (!j) return;
  free(j->launches);
  free(j);
}

/* ---------------------------------------------------------------- which */

/* How many launches at least become one: fewer save less time than its kernel takes to be built. */
static const struct joining_variant {
  const char *name;
  uint32_t least;
} joining_variants[] = {{"rule", 8}, {"apart", UINT32_MAX}, {"1", 1}};

static bool takes_any(const void *ctx, int i) {
  (void)ctx;
  (void)i;
  return true;
}

static uint32_t least_joined(const cl_device *d) {
  const variants all = {.family = "joined launches",
                        .rows = joining_variants,
                        .row_size = sizeof *joining_variants,
                        .n = sizeof joining_variants / sizeof *joining_variants,
                        .is_usable = takes_any};
  const tuning_key key = tuning_key_begin(d->base.tuning, NULL);
  return joining_variants[tuning_choose(d->base.tuning, NULL, &all, &key, 0)].least;
}

/* What a group does in the time of a launch or so: on CPUs one work-item at a time, elsewhere
 * LOCAL_SIZE, each of which waits for memory in most of its steps. */
static bool is_small_work(const device_traits *t, op_work work, double items) {
  if (work.flops < 0) return false;
  if (t->is_cpu) return work.flops <= 2048 && work.bytes <= 8192 && items <= 2048;
  return items <= 4 * LOCAL_SIZE && work.flops <= 32 * items && work.bytes <= 256 * items;
}

static bool is_plain_value(const launch_value *v) {
  return v->kind != VALUE_FORM && v->kind != VALUE_IMAGE && v->kind != VALUE_SEED &&
         v->kind != VALUE_RUN && v->kind != VALUE_LOCAL;
}

static bool is_plain_launch(const recorded_launch *l) {
  bool good = l->program && !l->blas && strstr(program_options(l->program), "-cl-std=CL1.2 ");
  for (int i = 0; i < l->n_values && good; i++) good = is_plain_value(&l->values[i]);
  return good;
}

bool is_small_node(const cl_device *d, const cl_recording *r, const node *n) {
  double items = 0;
  if (r->base.n_forms || !r->n) return false;
  for (int i = 0; i < r->n; i++) {
    const size_t *g = r->launches[i].items;
    if (!is_plain_launch(&r->launches[i])) return false;
    items += (double)g[0] * (double)g[1] * (double)g[2];
  }
  const op_work work = measure_work(&(work_node){.node = n});
  return is_small_work(&d->entry->traits, work, items);
}

/* ---------------------------------------------------------------- source text */

static const char place_text[] =
    "typedef struct joined_place {\n  size_t x, y, z;\n} joined_place;\n"
    "#define joined_get_global_id(d) \\\n"
    "  ((d) == 0 ? joined_at.x : (d) == 1 ? joined_at.y : joined_at.z)\n";
/* One work-item, or those of the group in turns. */
static const char each_alone[] =
    "#define JOINED_EACH(e) \\\n"
    "  for (size_t z = 0; z < e[3]; z++) \\\n"
    "    for (size_t y = 0; y < e[2]; y++) \\\n"
    "      for (size_t x = 0; x < e[1]; x++)\n"
    "#define JOINED_WAIT\n";
static const char each_of_group[] =
    "#define JOINED_EACH(e) \\\n"
    "  for (size_t z = 0; z < e[3]; z++) \\\n"
    "    for (size_t y = 0; y < e[2]; y++) \\\n"
    "      for (size_t x = get_local_id(0); x < e[1]; x += get_local_size(0))\n"
    "#define JOINED_WAIT barrier(CLK_GLOBAL_MEM_FENCE)\n";

/* A function that runs an entry of the table of a kernel's. */
static void write_entry(const kernel_signature *g, text *t) {
  int n = 0;
  for (int i = 0; i < g->n_args; i++) n += arg_is_pointer(g->args[i].kind);
  text_printf(t,
              "static inline void joined_run(__global uchar *const *memory, const __global ulong "
              "*e) {\n  const %s_numbers numbers = *(const __global %s_numbers *)(e + %d);\n"
              "  JOINED_EACH(e) {\n    const joined_place at = {x, y, z};\n    %s(at, ",
              g->kernel, g->kernel, ENTRY_HEAD + n, g->kernel);
  for (int i = 0, k = 0; i < g->n_args; i++)
    if (arg_is_pointer(g->args[i].kind))
      text_printf(t, "(%s)memory[e[%d]], ", g->args[i].type, ENTRY_HEAD + k++);
  text_printf(t, "numbers);\n  }\n}\n");
}

/* A kernel's text as a part of joined ones, which is made once: NULL where it is none. `mark`
 * stands for the prefix of its names. */
struct joined_part {
  const kernel_program *program;
  char *text; /* owned */
};
static const char mark[] = "\1";

static clave_status isolate_part(const cl_device *d, const kernel_program *p, text *out,
                                 bool *has_groups) {
  text source = {0}, behind = {0}, builtins = {0};
  write_entry(program_signature(p), &behind);
  clave_status st = program_text(d, p, &source);
  if (!st) st = source_of_header(d, "builtins.h", &builtins);
  if (!st) st = text_status(&behind);
  if (!st)
    st = source_isolate(&(isolated_kernel){.source = source.data,
                                           .kernel = program_signature(p)->kernel,
                                           .options = program_options(p),
                                           .left_out = builtins.data,
                                           .behind = behind.data},
                        mark, out, has_groups);
  text_free(&source);
  text_free(&behind);
  text_free(&builtins);
  return st;
}

static char *make_part(const cl_device *d, const kernel_program *p) {
  text out = {0};
  bool has_groups = true;
  clave_status st = isolate_part(d, p, &out, &has_groups);
  if (!st && !has_groups) return out.data;
  text_free(&out);
  status_free(st);
  return NULL;
}

/* Its text, which stays as long as the device. */
static const char *part_of(cl_device *d, const kernel_program *p) {
  mutex_lock(d->lock);
  size_t i = 0;
  while (i < d->n_parts && d->parts[i].program != p) i++;
  if (i == d->n_parts && array_reserve(&d->parts, &d->cap_parts, i + 1, sizeof *d->parts))
    d->parts[d->n_parts++] = (struct joined_part){p, make_part(d, p)};
  const char *part = i < d->n_parts ? d->parts[i].text : NULL;
  mutex_unlock(d->lock);
  return part;
}

/* number: of the kernel, from 1 on. */
static void write_part(const char *part, int number, text *out) {
  for (size_t n; *part; part += n) {
    n = strcspn(part, mark);
    text_append(out, part, n);
    if (!part[n]) return;
    text_printf(out, "j%d_", number);
    n++;
  }
}

bool opencl_can_join(backend *b, const recording *r) {
  cl_device *d = (cl_device *)b;
  const cl_recording *c = (const cl_recording *)r;
  bool good = c->is_small;
  for (int i = 0; i < c->n && good; i++) good = part_of(d, c->launches[i].program) != NULL;
  return good;
}

typedef struct joined_kernel {
  cl_device *d;
  kernel_program *const *programs;
  int n;
  char names[1 + MAX_JOINED_BUFFERS][2][16];
} joined_kernel;

/* The table, then the buffers, each with an offset, as all kernels have them. */
static void list_parameters(joined_kernel *k, arg_info *args, int *n_args) {
  int n = 0;
  for (int i = 0; i <= MAX_JOINED_BUFFERS; i++) {
    snprintf(k->names[i][0], sizeof k->names[i][0], "m%d", i);
    snprintf(k->names[i][1], sizeof k->names[i][1], "m%d_offset", i);
    args[n++] = (arg_info){.name = k->names[i][0],
                           .type = i ? "__global uchar *" : "const __global ulong *",
                           .kind = ARG_BUFFER};
    args[n++] = (arg_info){.name = k->names[i][1], .type = "long", .kind = ARG_LONG};
  }
  args[n++] = (arg_info){.name = "n", .type = "uint", .kind = ARG_UINT};
  *n_args = n;
}

static clave_status write_joined(const void *ctx, text *t, arg_info *args, int *n_args) {
  joined_kernel *k = *(joined_kernel *const *)ctx;
  list_parameters(k, args, n_args);
  text_puts(t, "#include \"builtins.h\"\n");
  text_puts(t, place_text);
  text_puts(t, k->d->entry->traits.is_cpu ? each_alone : each_of_group);
  for (int i = 0; i < k->n; i++) write_part(part_of(k->d, k->programs[i]), i + 1, t);
  text_puts(t, "__kernel void joined() {\n  __global uchar *const memory[] = {m1");
  for (int i = 2; i <= MAX_JOINED_BUFFERS; i++) text_printf(t, ", m%d", i);
  text_puts(t,
            "};\n  const __global ulong *e = m0;\n  for (uint i = 0; i < n; i++) {\n"
            "    switch ((uint)e[0]) {\n");
  for (int i = 1; i <= k->n; i++)
    text_printf(t, "      case %d:\n        j%d_joined_run(memory, e);\n        break;\n", i, i);
  text_puts(t, "    }\n    e += e[0] >> 32;\n    JOINED_WAIT;\n  }\n}\n");
  return text_status(t);
}

/* ---------------------------------------------------------------- recording */

static size_t words_of(const recorded_launch *l) {
  return ENTRY_HEAD + l->places.n_pointers + ((size_t)l->places.size + WORD - 1) / WORD;
}

/* What of the options is not of one kernel alone. */
static bool same_options(const kernel_program *a, const kernel_program *b) {
  static const char macros[] = " -D ON_CPU=";
  const char *x = program_options(a), *y = program_options(b);
  const size_t n = (size_t)(strstr(x, macros) - x);
  return strncmp(x, y, n + sizeof macros - 1) == 0;
}

/* The kernels of launches, in the order of their first. */
typedef struct kernel_list {
  kernel_program *items[MAX_JOINED_PROGRAMS];
  int n;
} kernel_list;

/* Its number from 1 on; 0: it is none of them. */
static uint32_t find_kernel(const kernel_list *k, const kernel_program *p) {
  for (int i = 0; i < k->n; i++)
    if (k->items[i] == p) return (uint32_t)i + 1;
  return 0;
}

/* False: there is no room. */
static bool add_kernel(kernel_list *k, kernel_program *p) {
  if (find_kernel(k, p)) return true;
  if (k->n == MAX_JOINED_PROGRAMS || (k->n && !same_options(k->items[0], p))) return false;
  k->items[k->n++] = p;
  return true;
}

/* False: its kernels have no room. */
static bool take_recording(joined_launches *j, kernel_list *kernels, const cl_recording *c,
                           uint32_t number) {
  const kernel_list before = *kernels;
  for (int i = 0; i < c->n; i++) {
    const recorded_launch *l = &c->launches[i];
    if (!add_kernel(kernels, l->program)) {
      *kernels = before;
      j->n -= (uint32_t)i;
      return false;
    }
    j->launches[j->n++] = (joined_launch){.l = l, .number = number};
  }
  return true;
}

static uint64_t class_of(const joined_launches *j) {
  uint64_t all = j->n;
  for (uint32_t i = 0; i < j->n; i++) {
    const uint64_t pair[] = {all, j->launches[i].l->class, j->launches[i].kernel};
    all = hash_bytes(pair, sizeof pair);
  }
  return all;
}

/* A joined kernel's program, and what it was generated of. */
struct joined_program {
  kernel_list kernels;
  kernel_program *program; /* borrowed: the device's */
};

void joined_programs_destroy(cl_device *d) {
  for (size_t i = 0; i < d->n_parts; i++) free(d->parts[i].text);
  free(d->parts);
  free(d->joined);
}

/* One that has all kernels of `wanted` among its own, as where ops of larger sizes are no longer
 * small, or NULL. */
static const struct joined_program *find_containing(const cl_device *d, const kernel_list *wanted) {
  for (size_t i = 0; i < d->n_joined; i++) {
    int n = 0;
    while (n < wanted->n && find_kernel(&d->joined[i].kernels, wanted->items[n])) n++;
    if (n == wanted->n) return &d->joined[i];
  }
  return NULL;
}

static clave_status generate_program(cl_recorder *s, const kernel_list *kernels,
                                     const launch_variant *variant, kernel_program **out) {
  cl_device *d = s->device;
  joined_kernel k = {.d = d, .programs = kernels->items, .n = kernels->n};
  joined_kernel *ctx = &k;
  launch l;
  launch_begin(&l, s, NULL);
  launch_generated(&l, "joined", write_joined, &ctx);
  TRY(program_find(d, &l, variant, out));
  mutex_lock(d->lock);
  bool room = array_reserve(&d->joined, &d->cap_joined, d->n_joined + 1, sizeof *d->joined);
  if (room) d->joined[d->n_joined++] = (struct joined_program){*kernels, *out};
  mutex_unlock(d->lock);
  return room ? NULL : status_no_memory();
}

/* *kernels becomes those of the program. */
static clave_status joined_program_of(cl_recorder *s, kernel_list *kernels,
                                      const launch_variant *variant, kernel_program **out) {
  cl_device *d = s->device;
  mutex_lock(d->lock);
  const struct joined_program *found = find_containing(d, kernels);
  *out = found ? found->program : NULL;
  if (found) *kernels = found->kernels;
  mutex_unlock(d->lock);
  return found ? NULL : generate_program(s, kernels, variant, out);
}

static clave_status record_joined(cl_device *d, joined_launches *j, kernel_list *kernels,
                                  cl_recording *out) {
  cl_recorder s = {.device = d,
                   .fast = strstr(program_options(kernels->items[0]), " -D FAST") != NULL,
                   .out = out};
  const size_t group = d->entry->traits.is_cpu ? 1 : LOCAL_SIZE;
  recorded_launch r = {.dims = 1, .joined = j};
  for (int i = 0; i < 3; i++) r.global[i] = r.local[i] = r.items[i] = i ? 1 : group;
  const launch_variant variant = variant_of(d, r.global, r.local);
  TRY(joined_program_of(&s, kernels, &variant, &r.program));
  for (uint32_t i = 0; i < j->n; i++)
    j->launches[i].kernel = find_kernel(kernels, j->launches[i].l->program);
  r.class = class_of(j);
  r.signature = program_signature(r.program);
  args_place(r.signature, false, DTYPE_F32, &r.places);
  launch_value values[2 * (1 + MAX_JOINED_BUFFERS) + 1] = {0};
  for (int i = 0; i < 2 * (1 + MAX_JOINED_BUFFERS); i++)
    values[i].kind = i % 2 ? VALUE_INT : VALUE_ABSENT;
  values[2 * (1 + MAX_JOINED_BUFFERS)] = (launch_value){.kind = VALUE_INT, .as.i = j->n};
  r.n_values = sizeof values / sizeof values[0];
  return recorder_add(&s, &r, values);
}

/* Takes j over. */
static clave_status make_recording(cl_device *d, joined_launches *j, kernel_list *kernels,
                                   recording **out) {
  cl_recording *c = calloc(1, sizeof *c);
  clave_status st = c ? record_joined(d, j, kernels, c) : status_no_memory();
  if (st) {
    if (!c || !c->n) joined_destroy(j);
    opencl_recording_destroy(&d->base, c ? &c->base : NULL);
    return st;
  }
  *out = &c->base;
  return NULL;
}

clave_status opencl_join(backend *b, const recording *const *all, const uint32_t *numbers,
                         uint32_t n, uint32_t *taken, recording **out) {
  cl_device *d = (cl_device *)b;
  kernel_list kernels = {.n = 0};
  size_t launches = 0;
  *out = NULL;
  *taken = 0;
  for (uint32_t i = 0; i < n; i++) launches += (size_t)((const cl_recording *)all[i])->n;
  joined_launches *j = calloc(1, sizeof *j);
  if (j) j->launches = calloc(launches + 1, sizeof *j->launches);
  if (!j || !j->launches) {
    joined_destroy(j);
    return status_no_memory();
  }
  while (*taken < n && j->n < MAX_JOINED_LAUNCHES &&
         take_recording(j, &kernels, (const cl_recording *)all[*taken], numbers[*taken]))
    ++*taken;
  if (!*taken) *taken = 1;
  for (uint32_t i = 0; i < j->n; i++) j->words += words_of(j->launches[i].l);
  if (j->n >= least_joined(d)) return make_recording(d, j, &kernels, out);
  joined_destroy(j);
  return NULL;
}

/* ---------------------------------------------------------------- running */

struct joined_state {
  uint64_t *table; /* owned: as it is on the device */
  buffer *memory;  /* owned */
  bool is_there;   /* the table was written */
  const cl_buffer *buffers[MAX_JOINED_BUFFERS];
  int n_buffers, last; /* last: that was found */
};

void joined_state_destroy(const cl_stream *s, joined_state *state) {
  if (!state) return;
  opencl_buffer_destroy(&s->device->base, state->memory);
  free(state->table);
  free(state);
}

static clave_status need_state(const cl_stream *s, const joined_launches *j, joined_state **state) {
  joined_state *c = *state;
  if (!c) c = *state = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  if (!c->table) c->table = calloc(j->words, WORD);
  if (!c->table) return status_no_memory();
  return c->memory ? NULL : opencl_buffer_create(&s->device->base, j->words * WORD, &c->memory);
}

/* Its number among those of the run; NULL stands for the fault record. False: there is no room. */
static bool number_buffer(joined_state *c, const cl_buffer *b, uint64_t *number) {
  if (c->last < c->n_buffers && c->buffers[c->last] == b) {
    *number = (uint64_t)c->last;
    return true;
  }
  int i = 0;
  while (i < c->n_buffers && c->buffers[i] != b) i++;
  if (i == MAX_JOINED_BUFFERS) return false;
  if (i == c->n_buffers) c->buffers[c->n_buffers++] = b;
  *number = (uint64_t)(c->last = i);
  return true;
}

typedef struct entry_writer {
  joined_state *state;
  const recorded_launch *l;
  uint64_t *at; /* of the entry */
  bool changed;
} entry_writer;

static void put_word(entry_writer *w, size_t i, uint64_t value) {
  if (w->at[i] == value) return;
  w->at[i] = value;
  w->changed = true;
}

static void put_number(entry_writer *w, int arg, const void *data, size_t bytes) {
  uint8_t *place = (uint8_t *)(w->at + ENTRY_HEAD + w->l->places.n_pointers) + w->l->places.at[arg];
  if (memcmp(place, data, bytes) == 0) return;
  memcpy(place, data, bytes);
  w->changed = true;
}

static bool put_buffer(entry_writer *w, int arg, const cl_buffer *b) {
  uint64_t number;
  if (!number_buffer(w->state, b, &number)) return false;
  put_word(w, (size_t)ENTRY_HEAD + w->l->places.at[arg], number);
  return true;
}

static bool put_operand(entry_writer *w, int arg, const run_operands *o) {
  int64_t offset;
  const cl_buffer *b = launch_memory(w->l, arg, o, &offset);
  put_number(w, arg + 1, &offset, sizeof offset);
  return put_buffer(w, arg, b);
}

/* Numbers that stay. */
static void put_constants(entry_writer *w, const joined_launch *m) {
  const recorded_launch *l = w->l;
  put_word(w, 0, (uint64_t)words_of(l) << 32 | m->kernel);
  for (size_t i = 0; i < 3; i++) put_word(w, 1 + i, l->items[i]);
  for (int i = 0; i < l->n_values; i++) {
    raw_arg r;
    if (l->values[i].kind <= VALUE_ABSENT)
      i++; /* with its offset */
    else if (launch_raw(&l->values[i], l->signature->args[i].kind, l->wide, l->compute, &r))
      put_number(w, i, r.data, r.size);
  }
  for (int i = l->n_values; i < l->signature->n_args; i++)
    if (l->signature->args[i].kind == ARG_FAULT_NODE)
      put_number(w, i, &m->number, sizeof m->number);
}

static bool put_operands(cl_stream *s, entry_writer *w, const run_operands *o) {
  const recorded_launch *l = w->l;
  for (int i = 0; i < l->n_values; i++)
    if (l->values[i].kind <= VALUE_ABSENT && !put_operand(w, i++, o)) return false;
  for (int i = l->n_values; i < l->signature->n_args; i++) {
    if (l->signature->args[i].kind != ARG_FAULT) continue;
    s->fault_armed = true;
    if (!put_buffer(w, i, NULL)) return false;
  }
  return true;
}

clave_status joined_bind(cl_stream *s, const joined_launches *j, joined_state **state,
                         const run_operands *o, const cl_buffer *buffers[1 + MAX_JOINED_BUFFERS]) {
  TRY(need_state(s, j, state));
  joined_state *c = *state;
  entry_writer w = {.state = c, .at = c->table, .changed = !c->is_there};
  c->n_buffers = c->last = 0;
  for (uint32_t i = 0; i < j->n; i++) {
    w.l = j->launches[i].l;
    if (!c->is_there) put_constants(&w, &j->launches[i]);
    if (!put_operands(s, &w, o)) {
      c->is_there = false;
      return UNSUPPORTED("%u launches have more than %d buffers", j->n, MAX_JOINED_BUFFERS);
    }
    w.at += words_of(w.l);
  }
  if (w.changed) TRY(opencl_write(&s->base, c->memory, 0, c->table, j->words * WORD));
  c->is_there = true;
  buffers[0] = (const cl_buffer *)c->memory;
  for (int i = 0; i < MAX_JOINED_BUFFERS; i++)
    buffers[1 + i] = i < c->n_buffers ? c->buffers[i] : NULL;
  return NULL;
}
