/* SPDX-License-Identifier: Apache-2.0 */
/* A node that cannot ask which rank it has says that, and not what a member would have said. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nigh/node.h"
#include "support/support.h"

static bool refuses_random;

ssize_t getrandom(void *bytes, size_t count, unsigned flags)
{
    if (refuses_random) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, count, flags);
}

static void who_cannot_ask_does_not_lack_a_rank(void **unused)
{
    static const uint8_t key[32] = {1};
    char state[108];
    nigh_node_options options = {.struct_size = sizeof(options),
                                 .memory_bytes = 16 << 20,
                                 .lanes = 1,
                                 .members = "127.0.0.1:1",
                                 .cluster_key = key,
                                 .state_dir = state};
    char self[32];
    nigh_node *node = NULL;

    (void)unused;
    support_path(state, sizeof(state), "state");
    (void)snprintf(self, sizeof(self), "127.0.0.1:%d", support_port());
    options.member = self;
    refuses_random = true;
    assert_int_equal(nigh_node_start(&options, &node), NIGH_NO_RESOURCES);
    refuses_random = false;
    assert_non_null(strstr(nigh_node_start_error(), "cannot join as"));
    assert_non_null(strstr(nigh_node_start_error(), "random numbers"));
    assert_null(strstr(nigh_node_start_error(), "no rank is left"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_cannot_ask_does_not_lack_a_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
