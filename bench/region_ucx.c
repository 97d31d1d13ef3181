/* SPDX-License-Identifier: Apache-2.0 */
/* See region_ucx.h. */
#include "region_ucx.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "harness.h"

#define NAME_BYTES 1024 /* most of an address or a key */
#define FILL       7    /* of the target's memory */

/* Shared with the target. */
struct target {
    _Atomic uint32_t mode, does; /* enum ucx_mode: wanted, and as it is */
    _Atomic bool is_ready;
    size_t address_bytes, key_bytes;
    uint8_t address[NAME_BYTES], key[NAME_BYTES];
    uint64_t memory;
};

static struct target *target;
static pid_t target_pid;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint;
static ucp_rkey_h remote_key;
static uint8_t *own_memory;
static uint64_t own_bytes;
static const ucp_request_param_t plain_request;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        bench_fail("UCX: %s: %s", what, ucs_status_string(status));
    }
}

static void start(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;

    check(ucp_config_read(NULL, NULL, &config), "its configuration");
    check(ucp_config_modify(config, "TLS", "tcp,self"), "tcp alone");
    check(ucp_config_modify(config, "NET_DEVICES", "lo"), "the loopback");
    check(ucp_init(&params, config, &context), "a context");
    ucp_config_release(config);
    check(ucp_worker_create(context, &worker_params, &worker), "a worker");
}

/* ---- the target ----------------------------------------------------------- */

static void copy_name(const void *from, size_t bytes, uint8_t to[NAME_BYTES])
{
    if (bytes > NAME_BYTES) {
        bench_fail("UCX: an address or key of %zu bytes", bytes);
    }
    memcpy(to, from, bytes);
}

static void offer_memory(uint64_t bytes)
{
    void *memory = bench_memory_create(bytes), *key;
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = bytes};
    ucp_address_t *address;
    ucp_mem_h handle;

    memset(memory, FILL, bytes);
    check(ucp_mem_map(context, &params, &handle), "memory");
    check(ucp_rkey_pack(context, handle, &key, &target->key_bytes), "a key");
    check(ucp_worker_get_address(worker, &address, &target->address_bytes), "an address");
    copy_name(key, target->key_bytes, target->key);
    copy_name(address, target->address_bytes, target->address);
    target->memory = (uint64_t)(uintptr_t)memory;
}

static void be_target(uint64_t bytes)
{
    volatile uint64_t sum = 0;

    start();
    offer_memory(bytes);
    atomic_store(&target->is_ready, true);
    for (;;) {
        uint32_t mode = atomic_load_explicit(&target->mode, memory_order_relaxed);

        atomic_store_explicit(&target->does, mode, memory_order_relaxed);
        if (mode == UCX_POLLS) {
            (void)ucp_worker_progress(worker);
        } else if (mode == UCX_COMPUTES) {
            sum = sum + 1;
        } else {
            bench_word_wait(&target->mode, UCX_SLEEPS);
        }
    }
}

void ucx_set_target(enum ucx_mode mode)
{
    bench_word_set(&target->mode, mode);
    while (atomic_load(&target->does) != mode) {
        (void)usleep(100);
    }
}

/* ---- this side ------------------------------------------------------------ */

static void finish(ucs_status_ptr_t request, const char *what)
{
    ucs_status_t status = UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request);

    while (status == UCS_INPROGRESS) {
        (void)ucp_worker_progress(worker);
        status = ucp_request_check_status(request);
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    check(status, what);
}

void ucx_read(uint64_t bytes)
{
    finish(ucp_get_nbx(endpoint, own_memory, bytes, target->memory, remote_key, &plain_request),
           "a get");
}

void ucx_write(uint64_t bytes)
{
    ucs_status_ptr_t put =
        ucp_put_nbx(endpoint, own_memory, bytes, target->memory, remote_key, &plain_request);

    finish(ucp_ep_flush_nbx(endpoint, &plain_request), "a flush");
    finish(put, "a put");
}

void ucx_read_from_computing(uint64_t bytes)
{
    uint64_t until_ns = bench_now_ns() + UCX_COMPUTES_US * UINT64_C(1000);
    ucs_status_ptr_t get =
        ucp_get_nbx(endpoint, own_memory, bytes, target->memory, remote_key, &plain_request);

    while (bench_now_ns() < until_ns && UCS_PTR_IS_PTR(get) &&
           ucp_request_check_status(get) == UCS_INPROGRESS) {
        (void)ucp_worker_progress(worker);
    }
    atomic_store(&target->mode, UCX_POLLS);
    finish(get, "a get");
}

void ucx_open(uint64_t most_bytes, int core)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};

    target = mmap(NULL, sizeof *target, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (target == MAP_FAILED) {
        bench_fail("no shared memory");
    }
    target_pid = bench_fork(core);
    if (target_pid == 0) {
        be_target(most_bytes);
    }
    start();
    own_bytes = most_bytes;
    own_memory = bench_memory_create(most_bytes);
    while (!atomic_load(&target->is_ready)) {
        if (waitpid(target_pid, NULL, WNOHANG) != 0) {
            bench_fail("the target of UCX ended");
        }
        (void)usleep(1000);
    }
    params.address = (const ucp_address_t *)target->address;
    check(ucp_ep_create(worker, &params, &endpoint), "an endpoint");
    check(ucp_ep_rkey_unpack(endpoint, target->key, &remote_key), "a key");
    ucx_set_target(UCX_POLLS);
    ucx_read(most_bytes); /* connects */
    if (own_memory[most_bytes - 1] != FILL) {
        bench_fail("UCX brought other bytes");
    }
    ucx_set_target(UCX_SLEEPS);
}

void ucx_close(void)
{
    ucp_rkey_destroy(remote_key);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    (void)kill(target_pid, SIGKILL);
    (void)waitpid(target_pid, NULL, 0);
    bench_memory_destroy(own_memory, own_bytes);
}
