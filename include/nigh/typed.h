/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed calls: a request and a reply that are structs, over the bytes of nigh/rpc.h.
 *
 *   struct get { char name[64]; };
 *   struct got { uint64_t value; };
 *   NIGH_TYPED_CALL(kv_get, "kv.get", 1, struct get, struct got);
 *
 * declares kv_get_call, and what else there is below, as static inline functions, to be used at
 * both ends. In front of the bytes goes a tag: the version, the size of the type and a hash of the
 * service's name. An end that goes by another version, or another size, says NIGH_VERSION, and so
 * does one to which something else is sent. That guards against mistakes; what a struct's bytes
 * say is the sender's word, and is to be checked as any request is.
 *
 * A struct travels as it lies in memory, its padding, too (zero it, if that may tell anything), and
 * pointers in it mean nothing at the other end: both are of one architecture and ABI. A change of
 * a type that keeps its size takes another version. All that calls are otherwise holds here:
 * deadlines, any server, one-way, urgent and idempotent calls, memory that calls bring.
 */
#ifndef NIGH_TYPED_H
#define NIGH_TYPED_H

#include <string.h>

#include "nigh/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In front of each request and reply, in the machine's order. */
typedef struct nigh_typed_tag {
    uint32_t magic; /* NIGH_TYPED_REQUEST, NIGH_TYPED_REPLY */
    uint32_t version;
    uint32_t bytes; /* of the type */
    uint32_t name;  /* FNV-1a of the service's */
} nigh_typed_tag;

#define NIGH_TYPED_REQUEST UINT32_C(0x3151474e) /* "NGQ1", little endian */
#define NIGH_TYPED_REPLY   UINT32_C(0x3152474e) /* "NGR1" */

/* Most bytes of a type and of the tail behind it. */
#define NIGH_TYPED_BYTES (NIGH_CALL_BYTES - (int)sizeof(nigh_typed_tag))

/* Requests of another type in a row that a receive answers when its time is over. */
#define NIGH_TYPED_LOOKS 128

/* Microseconds of the clock that deadlines go by, which no one sets. Any thread. */
NIGH_API uint64_t nigh_now_us(void);

/* ---- what the functions below are made of ----------------------------------- */

#ifdef __cplusplus
#define NIGH_TYPED_ASSERT(is_so, sentence) static_assert(is_so, sentence)
#define NIGH_TYPED_PLAIN(type)             __is_trivially_copyable(type)
#else
#define NIGH_TYPED_ASSERT(is_so, sentence) _Static_assert(is_so, sentence)
#define NIGH_TYPED_PLAIN(type)             1
#endif
#define NIGH_TYPED_FUNCTION static inline __attribute__((unused))

/* What one end of a call says: one of these for requests, one for replies. */
typedef struct nigh_typed_part {
    const char *service;
    uint32_t magic;
    uint32_t version;
    uint32_t bytes;     /* of the type */
    uint32_t tail_most; /* bytes behind it */
} nigh_typed_part;

NIGH_TYPED_FUNCTION nigh_typed_tag nigh_typed_tag_of(const nigh_typed_part *part)
{
    nigh_typed_tag tag = {part->magic, part->version, part->bytes, UINT32_C(2166136261)};

    for (const char *at = part->service; *at != '\0'; at++) {
        tag.name = (tag.name ^ (unsigned char)*at) * UINT32_C(16777619);
    }
    return tag;
}

/* Writes tag, struct and tail to `to`, which has room for all of it; returns how many bytes. */
NIGH_TYPED_FUNCTION size_t nigh_typed_put(const nigh_typed_part *part, unsigned char *to,
                                          const void *body, const void *tail, size_t tail_bytes)
{
    nigh_typed_tag tag = nigh_typed_tag_of(part);

    memcpy(to, &tag, sizeof tag);
    memcpy(to + sizeof tag, body, part->bytes);
    if (tail_bytes > 0) {
        memcpy(to + sizeof tag + part->bytes, tail, tail_bytes);
    }
    return sizeof tag + part->bytes + tail_bytes;
}

/* Where the struct lies in these bytes; NULL: they are not of this type. */
NIGH_TYPED_FUNCTION const void *nigh_typed_body(const nigh_typed_part *part, const void *from,
                                                size_t bytes)
{
    nigh_typed_tag tag = nigh_typed_tag_of(part);

    if (bytes < sizeof tag + part->bytes || bytes - sizeof tag - part->bytes > part->tail_most ||
        memcmp(from, &tag, sizeof tag) != 0) {
        return NULL;
    }
    return (const unsigned char *)from + sizeof tag;
}

/* What is behind the struct, of bytes that have a body. */
NIGH_TYPED_FUNCTION const void *nigh_typed_tail(const nigh_typed_part *part, const void *from,
                                                size_t bytes, size_t *tail_bytes)
{
    *tail_bytes = bytes - sizeof(nigh_typed_tag) - part->bytes;
    return (const unsigned char *)from + sizeof(nigh_typed_tag) + part->bytes;
}

NIGH_TYPED_FUNCTION uint64_t nigh_typed_deadline(uint64_t timeout_us)
{
    uint64_t now_us = timeout_us == NIGH_FOREVER ? 0 : nigh_now_us();

    return timeout_us > NIGH_FOREVER - now_us ? NIGH_FOREVER : now_us + timeout_us;
}

/* A receive has ended with `status`: what is of another type is answered, and the next received. */
NIGH_TYPED_FUNCTION nigh_status nigh_typed_sift(const nigh_typed_part *part, nigh_status status,
                                                nigh_request *request, void *buffer,
                                                uint64_t deadline_us)
{
    int looks = 0;

    while (status == NIGH_OK && nigh_typed_body(part, request->bytes, request->size) == NULL) {
        uint64_t now_us = deadline_us == NIGH_FOREVER ? 0 : nigh_now_us();
        uint64_t left_us = deadline_us > now_us ? deadline_us - now_us : 0;

        if (left_us == 0 && ++looks > NIGH_TYPED_LOOKS) {
            (void)nigh_call_reply(request, NIGH_VERSION, NULL, 0);
            return NIGH_TIMEOUT;
        }
        status = nigh_reply_receive(request, NIGH_VERSION, NULL, 0, buffer,
                                    deadline_us == NIGH_FOREVER ? NIGH_FOREVER : left_us);
    }
    return status;
}

/* ---- declare ----------------------------------------------------------------- */

/*
 * Declares, for `service`, a name in quotes; `number`, its version; and two types:
 *
 * The caller's side
 *   PREFIX_frame: where a call's bytes lie; it stays as it is until the call has ended.
 *   PREFIX_call(client, rank, &request, &reply, timeout_us): calls, and waits for the end. As
 *     nigh_call; NIGH_VERSION: the service goes by another type. *reply is written with NIGH_OK
 *     alone.
 *   PREFIX_prepare(&frame, &spec, rank, &request): makes *spec a call for nigh_call and
 *     nigh_call_start; set its flags, bulks, near_ids behind that.
 *   PREFIX_result(&frame, &spec, status, &reply): how it ended, for the status that it ended with.
 *     Not of a one-way call, of which the status says all.
 *
 * The service's side
 *   PREFIX_register(client, options, &service): as nigh_service_register.
 *   PREFIX_receive(service, &request, buffer, &body, timeout_us): as nigh_receive, `buffer` too.
 *     It answers a request of another type itself, with NIGH_VERSION, and goes on waiting.
 *   PREFIX_take(&request, &body): the struct of a request, for handlers and nigh_receive_start.
 *     NIGH_VERSION: it is of another type; answer so.
 *   PREFIX_reply(&request, status, &reply): as nigh_call_reply. With a status that is not NIGH_OK
 *     no reply is sent, and it may be NULL. NIGH_INVALID: NIGH_OK, and no reply.
 *   PREFIX_reply_receive(&request, status, &reply, buffer, &body, timeout_us): as
 *     nigh_reply_receive, otherwise as the two.
 */
#define NIGH_TYPED_CALL(prefix, service, number, request_type, reply_type) \
    NIGH_TYPED_CALL_TAILS(prefix, service, number, request_type, 0, reply_type, 0)

/*
 * The same where bytes of any number up to a bound may stand behind each struct, 0 and more:
 *   PREFIX_prepare_tail(&frame, &spec, rank, &request, tail, tail_bytes): NIGH_INVALID: too many.
 *   PREFIX_reply_tail(&request, status, &reply, tail, tail_bytes): likewise.
 *   PREFIX_tail(&request, &tail_bytes): where they lie, of a request that was taken or received,
 *     as long as its bytes are good; not aligned.
 *   PREFIX_result_tail(&frame, &spec, &tail_bytes): of the reply, when PREFIX_result said NIGH_OK.
 * The others send no tail, and pass over one that comes.
 */
#define NIGH_TYPED_CALL_TAILS(prefix, service_name, number, request_type, request_tail,            \
                              reply_type, reply_tail)                                              \
    typedef struct prefix##_frame {                                                                \
        unsigned char request[sizeof(nigh_typed_tag) + sizeof(request_type) + (request_tail)];     \
        unsigned char reply[sizeof(nigh_typed_tag) + sizeof(reply_type) + (reply_tail)];           \
    } prefix##_frame;                                                                              \
                                                                                                   \
    static const nigh_typed_part prefix##_request_part = {                                         \
        service_name, NIGH_TYPED_REQUEST, number, sizeof(request_type), request_tail};             \
    static const nigh_typed_part prefix##_reply_part = {service_name, NIGH_TYPED_REPLY, number,    \
                                                        sizeof(reply_type), reply_tail};           \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_prepare_tail(                                         \
        prefix##_frame *frame, nigh_call_spec *spec, uint32_t rank, const request_type *request,   \
        const void *tail, size_t tail_bytes)                                                       \
    {                                                                                              \
        if (tail_bytes > prefix##_request_part.tail_most) {                                        \
            return NIGH_INVALID;                                                                   \
        }                                                                                          \
        memset(spec, 0, sizeof *spec);                                                             \
        spec->struct_size = sizeof *spec;                                                          \
        spec->service = service_name;                                                              \
        spec->rank = rank;                                                                         \
        spec->request = frame->request;                                                            \
        spec->request_bytes =                                                                      \
            nigh_typed_put(&prefix##_request_part, frame->request, request, tail, tail_bytes);     \
        spec->reply = frame->reply;                                                                \
        spec->reply_room = sizeof frame->reply;                                                    \
        return NIGH_OK;                                                                            \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION void prefix##_prepare(prefix##_frame *frame, nigh_call_spec *spec,         \
                                              uint32_t rank, const request_type *request)          \
    {                                                                                              \
        (void)prefix##_prepare_tail(frame, spec, rank, request, NULL, 0);                          \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_result(const prefix##_frame *frame,                   \
                                                    const nigh_call_spec *spec,                    \
                                                    nigh_status status, reply_type *reply)         \
    {                                                                                              \
        const void *body;                                                                          \
                                                                                                   \
        if (status == NIGH_LIMIT && spec->reply_bytes > sizeof frame->reply) {                     \
            return NIGH_VERSION; /* longer than any of this type */                                \
        }                                                                                          \
        if (status != NIGH_OK) {                                                                   \
            return status;                                                                         \
        }                                                                                          \
        body = nigh_typed_body(&prefix##_reply_part, frame->reply, spec->reply_bytes);             \
        if (body == NULL) {                                                                        \
            return NIGH_VERSION;                                                                   \
        }                                                                                          \
        memcpy(reply, body, sizeof *reply);                                                        \
        return NIGH_OK;                                                                            \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION const void *prefix##_result_tail(                                          \
        const prefix##_frame *frame, const nigh_call_spec *spec, size_t *tail_bytes)               \
    {                                                                                              \
        return nigh_typed_tail(&prefix##_reply_part, frame->reply, spec->reply_bytes, tail_bytes); \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_call(nigh_client *client, uint32_t rank,              \
                                                  const request_type *request, reply_type *reply,  \
                                                  uint64_t timeout_us)                             \
    {                                                                                              \
        prefix##_frame frame;                                                                      \
        nigh_call_spec spec;                                                                       \
                                                                                                   \
        prefix##_prepare(&frame, &spec, rank, request);                                            \
        return prefix##_result(&frame, &spec, nigh_call(client, &spec, timeout_us), reply);        \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_register(                                             \
        nigh_client *client, const nigh_service_options *options, nigh_service **service)          \
    {                                                                                              \
        return nigh_service_register(client, service_name, options, service);                      \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_take(const nigh_request *request, request_type *body) \
    {                                                                                              \
        const void *from = nigh_typed_body(&prefix##_request_part, request->bytes, request->size); \
                                                                                                   \
        if (from == NULL) {                                                                        \
            return NIGH_VERSION;                                                                   \
        }                                                                                          \
        memcpy(body, from, sizeof *body);                                                          \
        return NIGH_OK;                                                                            \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION const void *prefix##_tail(const nigh_request *request, size_t *tail_bytes) \
    {                                                                                              \
        return nigh_typed_tail(&prefix##_request_part, request->bytes, request->size, tail_bytes); \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_receive(nigh_service *service, nigh_request *request, \
                                                     void *buffer, request_type *body,             \
                                                     uint64_t timeout_us)                          \
    {                                                                                              \
        uint64_t deadline_us = nigh_typed_deadline(timeout_us);                                    \
        nigh_status status = nigh_receive(service, request, buffer, timeout_us);                   \
                                                                                                   \
        status = nigh_typed_sift(&prefix##_request_part, status, request, buffer, deadline_us);    \
        return status == NIGH_OK ? prefix##_take(request, body) : status;                          \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_reply_tail(                                           \
        const nigh_request *request, nigh_status status, const reply_type *reply,                  \
        const void *tail, size_t tail_bytes)                                                       \
    {                                                                                              \
        unsigned char bytes[sizeof(((prefix##_frame *)0)->reply)];                                 \
                                                                                                   \
        if (status != NIGH_OK) {                                                                   \
            return nigh_call_reply(request, status, NULL, 0);                                      \
        }                                                                                          \
        if (reply == NULL || tail_bytes > prefix##_reply_part.tail_most) {                         \
            return NIGH_INVALID;                                                                   \
        }                                                                                          \
        return nigh_call_reply(                                                                    \
            request, status, bytes,                                                                \
            nigh_typed_put(&prefix##_reply_part, bytes, reply, tail, tail_bytes));                 \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_reply(const nigh_request *request,                    \
                                                   nigh_status status, const reply_type *reply)    \
    {                                                                                              \
        return prefix##_reply_tail(request, status, reply, NULL, 0);                               \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_FUNCTION nigh_status prefix##_reply_receive(                                        \
        nigh_request *request, nigh_status status, const reply_type *reply, void *buffer,          \
        request_type *body, uint64_t timeout_us)                                                   \
    {                                                                                              \
        unsigned char bytes[sizeof(((prefix##_frame *)0)->reply)];                                 \
        uint64_t deadline_us = nigh_typed_deadline(timeout_us);                                    \
        size_t count = 0;                                                                          \
                                                                                                   \
        if (status == NIGH_OK && reply == NULL) {                                                  \
            return NIGH_INVALID;                                                                   \
        }                                                                                          \
        if (status == NIGH_OK) {                                                                   \
            count = nigh_typed_put(&prefix##_reply_part, bytes, reply, NULL, 0);                   \
        }                                                                                          \
        status = nigh_reply_receive(request, status, bytes, count, buffer, timeout_us);            \
        status = nigh_typed_sift(&prefix##_request_part, status, request, buffer, deadline_us);    \
        return status == NIGH_OK ? prefix##_take(request, body) : status;                          \
    }                                                                                              \
                                                                                                   \
    NIGH_TYPED_ASSERT(NIGH_TYPED_PLAIN(request_type) && NIGH_TYPED_PLAIN(reply_type),              \
                      "what is sent is copied byte by byte");                                      \
    NIGH_TYPED_ASSERT(sizeof(((prefix##_frame *)0)->request) <= NIGH_CALL_BYTES,                   \
                      "a request has NIGH_TYPED_BYTES at most");                                   \
    NIGH_TYPED_ASSERT(sizeof(((prefix##_frame *)0)->reply) <= NIGH_CALL_BYTES,                     \
                      "a reply has NIGH_TYPED_BYTES at most")

#ifdef __cplusplus
}
#endif
#endif
