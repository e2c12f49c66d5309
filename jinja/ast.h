#ifndef JINJA_AST_H
#define JINJA_AST_H
/* The tree of a template. Names are resolved while it is made, as Jinja2 does: each scope knows
 * what its names are when it is entered. */
#include "jinja/jinja.h"
#include "jinja/value.h"

typedef enum node_kind {
  /* expressions */
  NODE_CONST,   /* constant */
  NODE_NAME,    /* name; level functions up, slot */
  NODE_LIST,    /* a: items */
  NODE_TUPLE,   /* a: items */
  NODE_DICT,    /* a: key, value, key, ... */
  NODE_UNARY,   /* op '-' or '+'; a */
  NODE_BINARY,  /* op; a, b */
  NODE_CONCAT,  /* a: items */
  NODE_COMPARE, /* a; b: NODE_OPERANDs */
  NODE_OPERAND, /* op; a */
  NODE_AND,     /* a, b */
  NODE_OR,      /* a, b */
  NODE_NOT,     /* a */
  NODE_COND,    /* a: condition, b, c (or NULL) */
  NODE_ATTR,    /* a; constant: the attribute's name; op: loop's number of it; is_method */
  NODE_ITEM,    /* a, b */
  NODE_SLICE,   /* in b of NODE_ITEM: a, b, c (or NULL each) */
  NODE_CALL,    /* a: what is called; b: arguments */
  NODE_KEYWORD, /* among arguments: name; a */
  NODE_SPREAD,  /* among arguments: op 1: *a, 2: **a */
  NODE_FILTER,  /* op: its number, -1: there is none; name; a: input (NULL: a block's); b */
  NODE_TEST,    /* op; name; a; b: arguments */
  /* statements */
  NODE_DATA,         /* constant */
  NODE_OUTPUT,       /* a */
  NODE_SET,          /* a: target, b: value */
  NODE_SET_BLOCK,    /* a: target, b: filters or NULL, c: body */
  NODE_FOR,          /* a: target, b: what is iterated, c: body, d: else, e: if; loop: its slot */
  NODE_IF,           /* a: condition, b: body, c: NODE_IFs of elif, d: else */
  NODE_MACRO,        /* name; level, slot; a: parameters; b: defaults of the last; c: body */
  NODE_CALL_BLOCK,   /* a: the call; b: NODE_MACRO of its body */
  NODE_FILTER_BLOCK, /* b: filters; c: body */
  NODE_WITH,         /* a: targets; b: values; c: body */
  NODE_GENERATION,   /* c: body */
  NODE_BREAK,
  NODE_CONTINUE,
  NODE_MEMBER /* a target: name (level, slot) . constant */
} node_kind;

/* How a name of a scope begins when the scope is entered. */
typedef enum load_kind { LOAD_PARAMETER, LOAD_CONTEXT, LOAD_UNDEFINED, LOAD_ALIAS } load_kind;
typedef struct load {
  const char *name;
  uint32_t slot;
  load_kind kind;
  uint32_t level, from; /* ALIAS: of the outer slot; from of a PARAMETER of a loop's condition: the
                           slot in the loop's body */
  bool stored;
} load;

typedef struct scope {
  load *loads;
  size_t count, capacity;
} scope;

#define SLOT_NONE UINT32_MAX

typedef struct node node;
struct node {
  uint8_t kind;
  bool is_method; /* ATTR: dicts have a method of that name, or the sandbox refuses it */
  int16_t op;
  uint32_t line, column;
  node *next; /* in a list */
  node *a, *b, *c, *d, *e;
  const char *name;
  value constant;
  uint32_t level, slot;
  scope *scope, *else_scope, *test_scope;
  uint32_t loop;                             /* FOR: slot of `loop`, or SLOT_NONE */
  uint32_t n_slots, caller, kwargs, varargs; /* MACRO: of its function; SLOT_NONE: not used */
};

typedef enum binary_op {
  OP_ADD,
  OP_SUB,
  OP_MUL,
  OP_DIV,
  OP_FLOORDIV,
  OP_MOD,
  OP_POW,
  OP_EQ,
  OP_NE,
  OP_LT,
  OP_LE,
  OP_GT,
  OP_GE,
  OP_IN,
  OP_NOT_IN
} binary_op;

struct jinja_template {
  mem_pool *pool;
  node *body;
  scope scope;
  uint32_t n_slots;
  const string **literals; /* owned array */
  size_t n_literals, literal_capacity;
};

/* resolve.c: fills levels, slots and scopes. */
clave_status resolve_names(jinja_template *template, arena *arena) STATUS_CHECK;
clave_status error_at(const node *node, status_code code, const char *format, ...)
    STATUS_PRINTF(3, 4) STATUS_CHECK STATUS_NEVER_NULL;
/* filters.c, tests.c: the number of a filter or test, -1 if Jinja has none, -2 if only we lack it.
 */
int filter_index(const char *name);
int test_index(const char *name);
/* attributes.c: the number of what `loop` has under a name, -1 if it has nothing. */
int find_loop_name(const string *name);
/* methods.c: -1: the type has no such method, -2: it has, and we have not, -3: the sandbox refuses
 * it. */
int find_method(value_kind kind, const string *name);

#endif
