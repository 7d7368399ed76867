/* A module with one command that does nothing but answer five integers, as a decision does: the price of being a
 * module's command at all. It declares the four functions it needs itself, so that no header is needed. */

typedef int (*find_function)(const char *name, void *where);
typedef int (*command_function)(void *ctx, void **argv, int argc);

static void (*set_attributes)(void *ctx, const char *name, int version, int api);
static int (*create_command)(void *ctx, const char *name, command_function function, const char *flags, int first,
                             int last, int step);
static int (*reply_array)(void *ctx, long length);
static int (*reply_number)(void *ctx, long long number);

static int answer(void *ctx, void **argv, int argc) {
    (void)argv;
    (void)argc;
    reply_array(ctx, 5);
    for (long long number = 1; number <= 5; number++) reply_number(ctx, number * 1000);
    return 0;
}

int RedisModule_OnLoad(void *ctx, void **argv, int argc) {
    (void)argv;
    (void)argc;
    /* The first word of a context is the function that finds all others. */
    find_function find = *(find_function *)ctx;
    if (find("RedisModule_SetModuleAttribs", &set_attributes) || find("RedisModule_CreateCommand", &create_command) ||
        find("RedisModule_ReplyWithArray", &reply_array) || find("RedisModule_ReplyWithLongLong", &reply_number))
        return 1;
    set_attributes(ctx, "rlbench", 1, 1);
    return create_command(ctx, "rlbench.reply", answer, "readonly fast", 1, 1, 1);
}
