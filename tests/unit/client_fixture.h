/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a node that does as it is told (support/fake_node.h), and objects that this node has.
 */
#ifndef CLIENT_FIXTURE_H
#define CLIENT_FIXTURE_H

#include <string.h>

#include "nigh/nigh.h"
#include "support/fake_node.h"
#include "support/support.h"

struct fixture {
    struct fake_node fake;
    nigh_client *client;
};

static inline void start(struct fixture *fixture, const struct fake_options *options)
{
    nigh_client_options open = {.struct_size = sizeof(open)};

    fake_node_start(&fixture->fake, options);
    open.socket_path = fixture->fake.path;
    assert_int_equal(nigh_client_open(&open, &fixture->client), NIGH_OK);
}

static inline void stop(struct fixture *fixture)
{
    nigh_client_close(fixture->client);
    fake_node_stop(&fixture->fake);
}

static inline nigh_id id_of(uint32_t number)
{
    nigh_id id = {{0}};

    memcpy(id.bytes, &number, sizeof(number));
    return id;
}

static inline void seal(struct fixture *fixture, uint32_t number, const char *text)
{
    nigh_id id = id_of(number);

    fake_node_seal(&fixture->fake, id.bytes, text, strlen(text));
}

#endif
