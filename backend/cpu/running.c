/* What was recorded: run with the buffers of a session, and asked about scratch memory. */
#include "backend/cpu/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/support/features.h"

/* A stream's arguments of a recording; they follow. */
typedef struct cpu_state {
  uint64_t serial; /* of the recording */
  _Alignas(16) char args[];
} cpu_state;

static size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t cpu_command_scratch(const cpu_command *c, int n_threads, const char *level) {
  const kernel_context ctx = {.n_threads = n_threads};
  size_t most = 0;
  for (int kind = KIND_PORTABLE; c->k->scratch && kind <= KIND_ALL; kind++) {
    cpu_pretend((cpu_kind)kind);
    const bool counts = !level || strcmp(cpu_level_name(), level) == 0;
    const size_t bytes = counts ? c->k->scratch(&ctx, c->args) : 0;
    if (bytes > most) most = bytes;
  }
  cpu_pretend(KIND_OWN);
  return most;
}

/* ---------------------------------------------------------------- running */

void cpu_state_destroy(stream *s, void *state) {
  (void)s;
  free(state);
}

static clave_status make_state(const recording *r, void **state) {
  cpu_state *s = *state;
  int n;
  const cpu_command *c = cpu_recorded_commands(r, &n);
  size_t bytes = 0;
  if (s && s->serial == r->serial) return NULL;
  for (int i = 0; i < n; i++) bytes += aligned(c[i].k->args_size);
  free(s);
  *state = s = malloc(sizeof *s + bytes);
  if (!s) return status_no_memory();
  s->serial = r->serial;
  char *to = s->args;
  for (int i = 0; i < n; i++) {
    memcpy(to, c[i].args, c[i].k->args_size);
    to += aligned(c[i].k->args_size);
  }
  return NULL;
}

static void set_data(const cpu_command *c, void *args, const run_operands *o) {
  static char nothing; /* data of an operand of no elements: not absent */
  for (int i = 0; i < c->n_operands; i++) {
    const cpu_operand_place *p = &c->operands[i];
    if (p->is_packed) {
      *cpu_data_at(args, p->at) = o->weights[p->slot] ? cpu_buffer_data(o->weights[p->slot]) : NULL;
      continue;
    }
    if (p->unless && o->weights[p->unless - 1]) {
      *cpu_data_at(args, p->at) = NULL;
      continue;
    }
    const bound_tensor *t = &o->tensors[p->slot];
    *cpu_data_at(args, p->at) =
        t->buf ? cpu_buffer_data(t->buf) + t->buffer_offset + p->offset : &nothing;
  }
}

clave_status cpu_run_commands(cpu_stream *s, const recording *r, void **state,
                              const run_operands *o) {
  int n;
  const cpu_command *c = cpu_recorded_commands(r, &n);
  TRY(make_state(r, state));
  s->scratch = o->scratch ? cpu_buffer_data(o->scratch) : NULL;
  s->scratch_size = r->scratch_bytes;
  char *args = ((cpu_state *)*state)->args;
  for (int i = 0; i < n; i++) {
    set_data(&c[i], args, o);
    s->scratch_used = 0;
    s->kernel.n_threads = c[i].n_threads ? c[i].n_threads : thread_pool_size(s->threads);
    if (!c[i].k->run(&s->kernel, args)) return status_no_memory();
    args += aligned(c[i].k->args_size);
  }
  return NULL;
}

clave_status cpu_pack(stream *s, const packed_weight_request *request, const bound_tensor *operands,
                      bool clears, buffer *to) {
  void *state = NULL;
  const run_operands o = {.tensors = operands, .scratch = to};
  if (clears) memset(cpu_buffer_data(to), 0, to->bytes);
  clave_status st = cpu_run_commands((cpu_stream *)s, request->pack, &state, &o);
  cpu_state_destroy(s, state);
  return st;
}
