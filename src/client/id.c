/* SPDX-License-Identifier: Apache-2.0 */
/* Ids: of a name, and random ones. Needs no client. */
#include <string.h>

#include "base/blake.h"
#include "base/limits.h"
#include "base/random.h"
#include "nigh/object.h"

_Static_assert(NIGH_ID_BYTES == LIMIT_ID_BYTES, "one size of ids");

nigh_status nigh_id_from_name(const char *name, nigh_id *id)
{
    size_t length;

    if (name == NULL || id == NULL) {
        return NIGH_INVALID;
    }
    length = strnlen(name, LIMIT_NAME_BYTES + 1);
    if (length == 0 || length > LIMIT_NAME_BYTES) {
        return NIGH_INVALID;
    }
    blake_id20(name, length, id->bytes);
    return NIGH_OK;
}

nigh_status nigh_id_random(nigh_id *id)
{
    nigh_id fresh;
    nigh_status status;

    if (id == NULL) {
        return NIGH_INVALID;
    }
    status = random_system_fill(fresh.bytes, sizeof(fresh.bytes));
    if (status == NIGH_OK) {
        *id = fresh;
    }
    return status;
}
