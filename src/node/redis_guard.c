/* SPDX-License-Identifier: Apache-2.0 */
/* See redis_guard.h. A function that gives hiredis no object ends the connection. */
#include "node/redis_guard.h"

#include <string.h>

#include <hiredis/hiredis.h>

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static bool refuse(struct redis_guard *guard, const char *what, const char *text, size_t count)
{
    guard->refused(guard->context, what, text, count);
    return false;
}

static bool is_word(const char *text, size_t count, const char *word)
{
    return count == strlen(word) && memcmp(text, word, count) == 0;
}

/* A reply of its own. Whoever has subscribed is sent what is published, and nothing else. */
static bool may_begin(struct redis_guard *guard, const redisReadTask *task, const char *text,
                      size_t count)
{
    bool listens = (guard->of->c.flags & REDIS_SUBSCRIBED) != 0;

    guard->elements = 0;
    if (guard->of->replies.head != NULL)
        return true;
    if (task->type == REDIS_REPLY_ERROR)
        return refuse(guard, "it says: ", text, count);
    if (!listens)
        return refuse(guard, "it answers what was not asked", "", 0);
    if (task->type != REDIS_REPLY_ARRAY)
        return refuse(guard, "it publishes what is no message", "", 0);
    return true;
}

/* An element of one. */
static bool may_go_on(struct redis_guard *guard, const redisReadTask *task, const char *text,
                      size_t count)
{
    bool is_message = guard->of->replies.head == NULL && task->parent->parent == NULL;

    if (!is_message || task->idx > 1)
        return true;
    if (task->type != REDIS_REPLY_STRING || text == NULL ||
        (task->idx == 0 && !is_word(text, count, "message") && !is_word(text, count, "subscribe")))
        return refuse(guard, "it publishes what is no message", "", 0);
    return true;
}

static bool may_be(const redisReadTask *task, const char *text, size_t count)
{
    struct redis_guard *guard = task->privdata;

    return task->parent == NULL ? may_begin(guard, task, text, count)
                                : may_go_on(guard, task, text, count);
}

static void *make_string(const redisReadTask *task, char *text, size_t count)
{
    const struct redis_guard *guard = task->privdata;

    return may_be(task, text, count) ? guard->made.createString(task, text, count) : NULL;
}

static void *make_integer(const redisReadTask *task, long long value)
{
    const struct redis_guard *guard = task->privdata;

    return may_be(task, NULL, 0) ? guard->made.createInteger(task, value) : NULL;
}

/* An array that is not there is of the type of one. */
static void *make_nil(const redisReadTask *task)
{
    const struct redis_guard *guard = task->privdata;

    return may_be(task, NULL, 0) ? guard->made.createNil(task) : NULL;
}

static void *make_array(const redisReadTask *task, element_count count)
{
    struct redis_guard *guard = task->privdata;

    if (!may_be(task, NULL, 0))
        return NULL;
    if (task->parent == NULL && guard->of->replies.head == NULL && count != 3) {
        refuse(guard, "it publishes what is no message", "", 0);
        return NULL;
    }
    if ((size_t)count > REDIS_ELEMENTS - guard->elements) {
        refuse(guard, "its answers are too long", "", 0);
        return NULL;
    }
    guard->elements += (size_t)count;
    return guard->made.createArray(task, count);
}

void redis_guard_init(struct redis_guard *guard, redisAsyncContext *of, redis_refused *refused,
                      void *context)
{
    redisReader *reader = of->c.reader;

    *guard = (struct redis_guard){.of = of,
                                  .made = *reader->fn,
                                  .functions = *reader->fn,
                                  .refused = refused,
                                  .context = context};
    guard->functions.createString = make_string;
    guard->functions.createArray = make_array;
    guard->functions.createInteger = make_integer;
    guard->functions.createNil = make_nil;
    reader->fn = &guard->functions;
    reader->privdata = guard;
}

bool redis_guard_is_bounded(const struct redis_guard *guard)
{
    return guard->of->c.reader->len <= REDIS_UNREAD_BYTES;
}
