/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations. Their keys are the device's. */
#include <errno.h>
#include <stdlib.h>

#include "fabric/verbs/verbs_internal.h"

#define LOG_MODULE "fabric"
#include "base/log.h"

#define ALL_RIGHTS \
    (FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC)

/* What is written from afar must be open to writes from here, says verbs; whether our own posts may
 * is checked by us. On iWARP a READ lands as the peer's write. */
static int access_of(const struct verbs *verbs, uint32_t rights)
{
    int access = 0;

    if ((rights & (FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC)) != 0)
        access |= IBV_ACCESS_LOCAL_WRITE;
    if ((rights & FABRIC_REMOTE_READ) != 0)
        access |= IBV_ACCESS_REMOTE_READ;
    if ((rights & FABRIC_REMOTE_WRITE) != 0 ||
        (verbs->device.is_iwarp && (rights & FABRIC_LOCAL_WRITE) != 0))
        access |= IBV_ACCESS_REMOTE_WRITE;
    if ((rights & FABRIC_REMOTE_ATOMIC) != 0 && (verbs->fabric.caps.ops & FABRIC_CAN_ATOMICS) != 0)
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    return access;
}

bool verbs_memory_enter(struct verbs *verbs, struct fabric_memory *memory)
{
    memory->mr = verbs->library->reg_mr(verbs->pd, memory->address, memory->bytes,
                                        access_of(verbs, memory->rights));
    if (memory->mr == NULL)
        LOG_WARN("memory cannot be registered",
                 "bytes=%llu errno=%d do=\"if errno is 12: ulimit -l unlimited, or "
                 "LimitMEMLOCK=infinity in the unit (nigh doctor)\"",
                 (unsigned long long)memory->bytes, errno);
    return memory->mr != NULL;
}

nigh_status verbs_memory_register(struct fabric *fabric, void *address, uint64_t bytes,
                                  enum fabric_kind kind, uint32_t rights,
                                  struct fabric_memory **memory)
{
    struct verbs *verbs = verbs_of(fabric);
    struct fabric_memory *made;

    if (kind != FABRIC_HOST)
        return NIGH_UNSUPPORTED;
    if (address == NULL || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)address ||
        (rights & ~ALL_RIGHTS) != 0)
        return NIGH_INVALID;
    if (verbs->memory_count >= verbs->fabric.caps.memories)
        return NIGH_LIMIT;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return NIGH_NO_RESOURCES;
    made->verbs = verbs;
    made->address = address;
    made->bytes = bytes;
    made->rights = rights;
    if (!verbs->is_gone && !verbs_memory_enter(verbs, made)) {
        free(made);
        return NIGH_NO_RESOURCES;
    }
    list_push_back(&verbs->memories, &made->node);
    verbs->memory_count++;
    *memory = made;
    return NIGH_OK;
}

struct fabric_remote verbs_memory_remote(const struct fabric_memory *memory, const void *address)
{
    return (struct fabric_remote){.address = (uintptr_t)address,
                                  .key = memory->mr != NULL ? memory->mr->rkey : 0};
}

/* Whether the device knows it no more. */
static bool forget(struct verbs *verbs, struct ibv_mr *mr)
{
    int error = verbs->library->dereg_mr(mr);

    return error == 0 || (error == EIO && verbs_loss_is_taken(verbs));
}

/* V13: a device that holds on to it lets go when the queue pairs are gone. */
void verbs_memory_leave(struct verbs *verbs, struct fabric_memory *memory)
{
    if (memory->mr != NULL && !forget(verbs, memory->mr)) {
        LOG_WARN("memory in use is deregistered: connections are cut",
                 "errno=%d do=\"nothing: the connections are made anew; if it comes again, see the "
                 "kernel's log (dmesg) and the card\"",
                 errno);
        LIST_FOREACH_SAFE(node, &verbs->every)
        {
            struct fabric_endpoint *endpoint = container_of(node, struct fabric_endpoint, every);

            if (endpoint->state >= VERBS_ACCEPTED && endpoint->state < VERBS_FAILED) {
                if (endpoint->state != VERBS_FAILING)
                    verbs_endpoint_fail(endpoint, NIGH_PEER_LOST);
                verbs_endpoint_finish(endpoint);
            }
        }
        if (!forget(verbs, memory->mr))
            LOG_ERROR("the device keeps a registration",
                      "errno=%d do=\"see the kernel's log (dmesg) and the card; that memory stays "
                      "locked until the node is started again\"",
                      errno);
    }
    memory->mr = NULL;
}

void verbs_memory_deregister(struct fabric *fabric, struct fabric_memory *memory)
{
    struct verbs *verbs = verbs_of(fabric);

    NIGH_ASSERT(memory->verbs == verbs);
    verbs_memory_leave(verbs, memory);
    list_remove(&memory->node);
    verbs->memory_count--;
    free(memory);
}

bool verbs_memory_covers(const struct verbs *verbs, const struct fabric_slice *slice,
                         uint32_t right)
{
    const struct fabric_memory *memory = slice->memory;
    uint64_t offset;

    if (memory == NULL)
        return slice->bytes == 0;
    offset = (uintptr_t)slice->address - (uintptr_t)memory->address;
    return memory->verbs == verbs && (memory->rights & right) == right && offset <= memory->bytes &&
           slice->bytes <= memory->bytes - offset;
}
