/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: keys that one member has for its own before there is a birth of them. An entry that is
 * claimed is neither known nor a tombstone; its object is the birth that is to come.
 */
#include "cluster/directory_internal.h"

void directory_end_claim(struct directory *directory, struct entry *entry)
{
    NIGH_ASSERT(is_claimed(entry));
    share_give(&directory->claim_shares, entry->claim.claimer - 1);
    entry->claim.claimer = 0;
    entry->claim.doubted = false;
    directory_recount(directory, entry);
}

/* A claim of a key that nobody has. */
static nigh_status begin(struct directory *directory, uint32_t from,
                         const struct directory_key *key, const struct birth *birth)
{
    struct entry *entry;

    if (!share_take(&directory->claim_shares, from)) {
        directory->stats.refused++;
        return NIGH_LIMIT;
    }
    entry = directory_find(directory, key, NULL);
    if (entry == NULL) {
        entry = directory_add(directory, key, from);
    }
    if (entry == NULL) {
        share_give(&directory->claim_shares, from);
        return NIGH_LIMIT;
    }
    entry->object = (struct directory_object){.birth = *birth};
    entry->claim.claimer = from + 1;
    directory_recount(directory, entry);
    return NIGH_OK;
}

nigh_status directory_claim(struct directory *directory, uint32_t from,
                            const struct directory_key *key, const struct birth *birth, bool held)
{
    struct entry *entry = directory_find(directory, key, NULL);

    NIGH_ASSERT(from < directory->config.nodes);
    if (entry != NULL && set_has(directory, entry, SET_HOLDERS, from)) {
        if (birth_equal(&entry->object.birth, birth)) {
            return NIGH_OK; /* it is sealed by now */
        }
        /* What it held is gone, or it could not claim; news of that are lost. */
        directory_let_go(directory, entry, from, directory->rebuilt);
        entry = directory_find(directory, key, NULL);
    }
    if (entry != NULL && is_claimed_by(entry, from)) {
        entry->object.birth = *birth;
        entry->claim.doubted = false;
        return NIGH_OK;
    }
    if (entry != NULL && (is_known(directory, entry) || is_claimed(entry))) {
        return NIGH_EXISTS;
    }
    if (!held && !is_complete(directory, key)) {
        return NIGH_BUSY;
    }
    return begin(directory, from, key, birth);
}
