/* neighbour: a module that lives beside others, for tests only. It filters every command, listens to every keyspace event,
 * counts both, and calls other modules' commands from its own, which denies them to block unless told otherwise. The few
 * functions it needs are asked for by name, so it needs no header. Build: cc -O2 -shared -fPIC -o neighbour.so neighbour.c */
#include <stddef.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Filter Filter;
typedef struct CallReply CallReply;
typedef int (*Command)(Ctx *, String **, int);

static int (*get_api)(const char *, void **);
static void (*set_attributes)(Ctx *, const char *, int, int);
static int (*create_command)(Ctx *, const char *, Command, const char *, int, int, int);
static int (*subscribe)(Ctx *, int, int (*)(Ctx *, int, const char *, String *));
static void *(*register_filter)(Ctx *, void (*)(Filter *), int);
static int (*unregister_filter)(Ctx *, void *);
static const char *(*string_bytes)(const String *, size_t *);
static CallReply *(*call)(Ctx *, const char *, const char *, ...);
static int (*reply_with_call_reply)(Ctx *, CallReply *);
static int (*reply_with_error)(Ctx *, const char *);
static int (*reply_with_array)(Ctx *, long);
static int (*reply_with_number)(Ctx *, long long);
static void (*free_call_reply)(CallReply *);
static int (*wrong_arity)(Ctx *);

static long long commands, events;
static void *filter;

static void on_command(Filter *context) {
    (void)context;
    commands++;
}

static int on_event(Ctx *ctx, int type, const char *event, String *key) {
    (void)ctx;
    (void)type;
    (void)event;
    (void)key;
    events++;
    return 0;
}

/* NEIGHBOUR.CALL command [argument ...]: runs the command, replicates its effects, hands on its reply. */
static int neighbour_call(Ctx *ctx, String **argv, int argc) {
    if (argc < 2) return wrong_arity(ctx);
    size_t length;
    CallReply *reply = call(ctx, string_bytes(argv[1], &length), "!v", argv + 2, (size_t)argc - 2);
    if (!reply) return reply_with_error(ctx, "ERR neighbour: the call could not be made");
    reply_with_call_reply(ctx, reply);
    free_call_reply(reply);
    return 0;
}

/* NEIGHBOUR.SEEN: commands and events so far. */
static int neighbour_seen(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    (void)argc;
    reply_with_array(ctx, 2);
    reply_with_number(ctx, commands);
    reply_with_number(ctx, events);
    return 0;
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    (void)argc;
    get_api = (int (*)(const char *, void **))((void **)ctx)[0];
    struct { const char *name; void **function; } wanted[] = {
        {"RedisModule_SetModuleAttribs", (void **)&set_attributes},
        {"RedisModule_CreateCommand", (void **)&create_command},
        {"RedisModule_SubscribeToKeyspaceEvents", (void **)&subscribe},
        {"RedisModule_RegisterCommandFilter", (void **)&register_filter},
        {"RedisModule_UnregisterCommandFilter", (void **)&unregister_filter},
        {"RedisModule_StringPtrLen", (void **)&string_bytes},
        {"RedisModule_Call", (void **)&call},
        {"RedisModule_ReplyWithCallReply", (void **)&reply_with_call_reply},
        {"RedisModule_ReplyWithError", (void **)&reply_with_error},
        {"RedisModule_ReplyWithArray", (void **)&reply_with_array},
        {"RedisModule_ReplyWithLongLong", (void **)&reply_with_number},
        {"RedisModule_FreeCallReply", (void **)&free_call_reply},
        {"RedisModule_WrongArity", (void **)&wrong_arity},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (get_api(wanted[i].name, wanted[i].function) != 0) return 1;
    set_attributes(ctx, "neighbour", 1, 1);
    commands = events = 0;
    /* Generic, string, list, set, hash, sorted set, expired, evicted, stream. */
    subscribe(ctx, 4 | 8 | 16 | 32 | 64 | 128 | 256 | 512 | 1024, on_event);
    filter = register_filter(ctx, on_command, 0);
    if (!filter) return 1;
    if (create_command(ctx, "neighbour.call", neighbour_call, "write", 0, 0, 0) != 0) return 1;
    return create_command(ctx, "neighbour.seen", neighbour_seen, "readonly", 0, 0, 0);
}

int RedisModule_OnUnload(Ctx *ctx) {
    unregister_filter(ctx, filter);
    return 0;
}
