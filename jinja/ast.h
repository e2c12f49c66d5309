#ifndef JINJA_AST_H
#define JINJA_AST_H
/* The syntax tree of a template. Names are resolved when the tree is built, as in Jinja2: each
 * scope lists its names with their initial values. */
#include "jinja/jinja.h"
#include "jinja/value.h"

typedef enum node_kind {
  /* expressions */
  NODE_CONST,   /* constant: its value */
  NODE_NAME,    /* name; level: number of functions up; slot */
  NODE_LIST,    /* a: items */
  NODE_TUPLE,   /* a: items */
  NODE_DICT,    /* a: key, value, key, ... */
  NODE_UNARY,   /* op '-' or '+'; a */
  NODE_BINARY,  /* op: a binary_op; a, b */
  NODE_CONCAT,  /* a: items */
  NODE_COMPARE, /* a; b: NODE_OPERANDs */
  NODE_OPERAND, /* op: a comparison; a: right operand */
  NODE_AND,     /* a, b */
  NODE_OR,      /* a, b */
  NODE_NOT,     /* a */
  NODE_COND,    /* a: condition, b, c (or NULL) */
  NODE_ATTR,  /* a; constant: the attribute's name; op: its loop number (find_loop_name); is_method
               */
  NODE_ITEM,  /* a: the container; b: the key */
  NODE_SLICE, /* b of a NODE_ITEM: a, b, c are the bounds, each may be NULL */
  NODE_CALL,  /* a: the callee; b: arguments */
  NODE_KEYWORD, /* in arguments: name; a: value */
  NODE_SPREAD,  /* in arguments: op 1: *a, op 2: **a */
  NODE_FILTER,  /* op: filter_index, -1 if unknown; name; a: input (NULL in filter blocks); b:
                   arguments */
  NODE_TEST,    /* op: test_index; name; a; b: arguments */
  /* statements */
  NODE_DATA,      /* constant */
  NODE_OUTPUT,    /* a */
  NODE_SET,       /* a: target, b: value */
  NODE_SET_BLOCK, /* a: target, b: filters or NULL, c: body */
  NODE_FOR,       /* a: target, b: iterable, c: body, d: else, e: condition; loop: slot of `loop` */
  NODE_IF,        /* a: condition, b: body, c: NODE_IFs of elif, d: else */
  NODE_MACRO,     /* name; level, slot; a: parameters; b: defaults of the last ones; c: body */
  NODE_CALL_BLOCK,   /* a: the call; b: NODE_MACRO of the body */
  NODE_FILTER_BLOCK, /* b: filters; c: body */
  NODE_WITH,         /* a: targets; b: values; c: body */
  NODE_GENERATION,   /* c: body */
  NODE_BREAK,
  NODE_CONTINUE,
  NODE_MEMBER /* a target that is a namespace member: name (level, slot) . constant */
} node_kind;

/* The initial value of a name when its scope is entered. */
typedef enum load_kind { LOAD_PARAMETER, LOAD_CONTEXT, LOAD_UNDEFINED, LOAD_ALIAS } load_kind;
typedef struct load {
  const char *name;
  uint32_t slot;
  load_kind kind;
  uint32_t level, from; /* ALIAS: position of the outer slot. PARAMETER of a loop's condition:
                           `from` is the slot in the loop's body */
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
  bool is_method; /* ATTR: dicts have a method of that name, or the sandbox rejects it */
  int16_t op;
  uint32_t line, column;
  node *next; /* next node of a list */
  node *a, *b, *c, *d, *e;
  const char *name;
  value constant;
  uint32_t level, slot;
  scope *scope, *else_scope, *test_scope;
  uint32_t loop;                             /* FOR: slot of `loop`; SLOT_NONE if unused */
  uint32_t n_slots, caller, kwargs, varargs; /* MACRO: slots of its function; SLOT_NONE if unused */
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
  const string **literals; /* owned array of the texts outside of blocks */
  size_t n_literals, literal_capacity;
};

/* resolve.c: sets levels, slots and scopes. */
clave_status resolve_names(jinja_template *template, arena *arena) STATUS_CHECK;
clave_status error_at(const node *node, status_code code, const char *format, ...)
    STATUS_PRINTF(3, 4) STATUS_CHECK STATUS_NEVER_NULL;
/* filters.c, tests.c: return the number of a filter or test, -1 if Jinja2 has none of this name,
 * -2 if it exists in Jinja2 but is not supported here. */
int filter_index(const char *name);
int test_index(const char *name);
/* attributes.c: returns the number of an attribute of `loop`, -1 if it has none of this name. */
int find_loop_name(const string *name);
/* methods.c: returns a method's index, -1 if the type has no such method, -2 if it is not
 * supported here, -3 if the sandbox rejects it. */
int find_method(value_kind kind, const string *name);

#endif
