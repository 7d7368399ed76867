/* denyblock: a module that calls commands and denies them to block, as RedisModule_Call does unless told otherwise.
 * For the tests of RL.QUEUE only. The few functions it needs are asked for by name, so it needs no header.
 * Build: cc -O2 -shared -fPIC -o denyblock.so denyblock.c */
#include <stddef.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct CallReply CallReply;
typedef int (*Command)(Ctx *, String **, int);

static int (*get_api)(const char *, void **);
static void (*set_attributes)(Ctx *, const char *, int, int);
static int (*create_command)(Ctx *, const char *, Command, const char *, int, int, int);
static const char *(*string_bytes)(const String *, size_t *);
static CallReply *(*call)(Ctx *, const char *, const char *, ...);
static int (*reply_with_call_reply)(Ctx *, CallReply *);
static int (*reply_with_error)(Ctx *, const char *);
static void (*free_call_reply)(CallReply *);
static int (*wrong_arity)(Ctx *);

/* DENYBLOCK.CALL command [argument ...]: runs the command, replicates its effects, hands on its reply. */
static int denyblock_call(Ctx *ctx, String **argv, int argc) {
    if (argc < 2) return wrong_arity(ctx);
    size_t length;
    CallReply *reply = call(ctx, string_bytes(argv[1], &length), "!v", argv + 2, (size_t)argc - 2);
    if (!reply) return reply_with_error(ctx, "ERR denyblock: the call could not be made");
    reply_with_call_reply(ctx, reply);
    free_call_reply(reply);
    return 0;
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    (void)argc;
    get_api = (int (*)(const char *, void **))((void **)ctx)[0];
    struct { const char *name; void **function; } wanted[] = {
        {"RedisModule_SetModuleAttribs", (void **)&set_attributes},
        {"RedisModule_CreateCommand", (void **)&create_command},
        {"RedisModule_StringPtrLen", (void **)&string_bytes},
        {"RedisModule_Call", (void **)&call},
        {"RedisModule_ReplyWithCallReply", (void **)&reply_with_call_reply},
        {"RedisModule_ReplyWithError", (void **)&reply_with_error},
        {"RedisModule_FreeCallReply", (void **)&free_call_reply},
        {"RedisModule_WrongArity", (void **)&wrong_arity},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (get_api(wanted[i].name, wanted[i].function) != 0) return 1;
    set_attributes(ctx, "denyblock", 1, 1);
    return create_command(ctx, "denyblock.call", denyblock_call, "write", 0, 0, 0);
}
