#ifndef INTERP_PLANNER_H
#define INTERP_PLANNER_H
/* Planning: a pure function of an executable and sizes; what its files share. */
#include "interp/executable.h"

typedef struct planner {
  const executable *x;
  const method *m;
  const graph *g;         /* the method's */
  schedule *p;            /* being made */
  bound_tensor *operands; /* (n_slots + 2) for recording, without buffers */
} planner;

/* ---- planner.c ---- */
/* What a schedule is made of: the values of inputs, and whether it is lean; or the one before it, a
 * cursor, and the value that was read (NULL: none). */
typedef struct schedule_key {
  const scalar_value *values;
  bool is_lean;
  const schedule *before;
  cursor from;
  const scalar_value *item;
} schedule_key;
clave_status plan_schedule(const executable *x, uint32_t method, const schedule_key *k,
                           schedule **out) STATUS_CHECK;

/* ---- part.c ---- */
/* Plans from l->p->from on, up to the next Item or the end, and places the blocks. */
clave_status plan_part(const planner *l) STATUS_CHECK;

/* ---- precision.c ---- */
/* Whether what instruction `index` writes to a slot is kept as BF16. */
bool keeps_narrow(const planner *l, uint32_t index, uint32_t tid);

/* ---- storage.c ---- */
/* Makes the storage readable on backend b from now on (a transfer or a first use), and keeps it
 * alive until now. */
clave_status materialize(const planner *l, uint32_t storage, int b,
                         uint32_t instruction) STATUS_CHECK;
/* Constants, those kept decoded, inputs and state, at their first use. */
clave_status import_slot(const planner *l, uint32_t tid) STATUS_CHECK;
/* A constant, or one that is kept decoded: in no device's arena. */
bool holds_constant(const planner *l, const storage *g);
/* New bytes for a tensor on backend b, alive from the current command on. */
clave_status new_place(schedule *p, const tensor *t, int b, uint32_t last_use,
                       location *out) STATUS_CHECK;
/* The slot is at l, produced there. */
void set_location(schedule *p, uint32_t tid, location l);
uint32_t later_use(uint32_t a, uint32_t b);

/* ---- op.c ---- */
/* Whether an operand lies as the op reads it; else the op reads a copy, which is no constant. */
bool lies_as_read(const operand *o, const tensor *t);
clave_status plan_instruction(const planner *l, uint32_t index) STATUS_CHECK;
clave_status plan_updates(const planner *l) STATUS_CHECK;
/* The actual sizes of a slot whose Vids are all known. */
clave_status resolve_type(const planner *l, uint32_t tid) STATUS_CHECK;
/* The actual sizes of what an instruction writes; what it reads at its first use. */
clave_status resolve_operands(const planner *l, const ir_instruction *ins) STATUS_CHECK;
/* An operand on a backend, for instruction `index`; one that must be dense and is not gets a copy,
 * which later readers share. */
clave_status materialize_operand(const planner *l, uint32_t index, int backend,
                                 const operand *o) STATUS_CHECK;
/* rebind: the slot that is at `out` afterwards, or NO_INDEX. */
clave_status add_copy(const planner *l, int b, uint32_t index, location x, location out,
                      uint32_t rebind) STATUS_CHECK;
/* What a copy from x to `out` does on backend b, to be released. */
clave_status record_copy(const planner *l, int b, const tensor *x, const tensor *out,
                         recording **recorded) STATUS_CHECK;

/* ---- control.c ---- */
clave_status plan_control(const planner *l, uint32_t index) STATUS_CHECK;
/* The sizes of the args of a control op's bodies; those of their results are known as soon as they
 * are computed. */
clave_status resolve_bodies(const planner *l, uint32_t index) STATUS_CHECK;
/* After the last instruction of a body: its results go where they belong. */
clave_status plan_body_end(const planner *l, uint32_t control, int body) STATUS_CHECK;

#endif
