/* SPDX-License-Identifier: Apache-2.0 */
/* See space_tpcc.h: workers. */
#include "space_tpcc.h"

#include <string.h>

#include "support/support.h"

static uint64_t below(struct tpcc *tpcc, uint64_t bound)
{
    return random_below(&tpcc->random, bound);
}

static bool one_in(struct tpcc *tpcc, uint64_t count)
{
    return below(tpcc, count) == 0;
}

static struct world_client *client_of(struct tpcc *tpcc, const struct tpcc_worker *worker)
{
    return &tpcc->world->nodes[worker->node].clients[worker->client];
}

/* ---- addresses ------------------------------------------------------------ */

static uint64_t block_of(const struct tpcc *tpcc, uint32_t warehouse, uint32_t block)
{
    return tpcc->base[warehouse] + (uint64_t)block * WORLD_BYTES;
}

static uint64_t customer_of(const struct tpcc *tpcc, const struct tpcc_transaction *wanted)
{
    return block_of(tpcc, wanted->customer_warehouse,
                    TPCC_CUSTOMER + wanted->customer_district * TPCC_CUSTOMERS + wanted->customer);
}

/* Of a district's places of what is only added, that of a number. */
static uint64_t place_of(uint32_t district, int64_t number)
{
    return (uint64_t)district * TPCC_ROOM + (uint64_t)(number - 1) % TPCC_ROOM;
}

static uint64_t log_of(const struct tpcc *tpcc, uint32_t number)
{
    uint32_t nodes = tpcc->world->rules.nodes;

    return block_of(tpcc, (number - 1) % nodes,
                    TPCC_LOGS + (number - 1) / nodes * (1 + TPCC_CHANGES));
}

static uint64_t mark_of(const struct tpcc_worker *worker, uint64_t transaction)
{
    return (uint64_t)worker->number << 48 | transaction;
}

/* ---- what is said and asked ----------------------------------------------- */

static void say(struct tpcc_worker *worker, uint8_t kind, uint64_t address, const void *bytes,
                uint32_t length)
{
    struct tpcc_say *says = &worker->says[worker->says_count++];

    NIGH_ASSERT(worker->says_count <= ARRAY_LENGTH(worker->says));
    *says = (struct tpcc_say){.kind = kind, .address = address, .length = length};
    if (length > 0) {
        memcpy(says->bytes, bytes, length);
    }
}

static void say_write(struct tpcc_worker *worker, uint64_t address, const void *bytes,
                      uint32_t length)
{
    say(worker, SPACE_RECORD_WRITE, address, bytes, length);
}

static void say_unlock(struct tpcc_worker *worker, uint64_t address)
{
    say(worker, SPACE_RECORD_UNLOCK, address, NULL, 0);
}

static void ask(struct tpcc_worker *worker, uint8_t kind, uint64_t address, tpcc_then *then)
{
    worker->ask = kind;
    worker->asked = address;
    worker->then = then;
}

/* One of what is yet to be said, so that it may be killed between any two. */
static void say_one(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    struct world_client *client = client_of(tpcc, worker);
    const struct tpcc_say *says = &worker->says[worker->said];
    uint64_t ticket;
    bool is_said = says->kind == SPACE_RECORD_WRITE
                       ? space_producer_write(&client->producer, &client->mapped, says->address,
                                              says->bytes, says->length, &ticket)
                       : space_producer_say(&client->producer, (enum space_record_kind)says->kind,
                                            &client->mapped, says->address);

    worker->said += is_said;
    if (worker->said == worker->says_count) {
        worker->said = worker->says_count = 0;
    }
}

static void ask_now(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    struct world_client *client = client_of(tpcc, worker);
    bool is_lock = worker->ask == SPACE_RECORD_LOCK_READ || worker->ask == SPACE_RECORD_LOCK_WRITE;
    bool has_time = is_lock && !tpcc->world->is_calm && one_in(tpcc, 8);
    uint32_t length = worker->ask == SPACE_RECORD_READ ? WORLD_BYTES : 0;
    uint64_t operands[2] = {worker->ask == SPACE_RECORD_ALLOC ? TPCC_BLOCKS * WORLD_BYTES : 0, 0};
    tpcc_then *then = worker->then;

    if (length > 0 && space_producer_read(&client->producer, &client->mapped, worker->asked,
                                          worker->bytes, length) == SPACE_READ) {
        worker->ask = 0;
        then(tpcc, worker, NIGH_OK);
    } else if (space_producer_ask(&client->producer, (enum space_record_kind)worker->ask,
                                  &client->mapped, worker->asked, length, operands,
                                  has_time ? below(tpcc, 4000) : UINT64_MAX)) {
        client->state = CLIENT_ASKS;
    }
}

static void answered(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    struct world_client *client = client_of(tpcc, worker);
    uint64_t value = 0, address;
    nigh_status status, why;
    tpcc_then *then = worker->then;

    if (!space_producer_is_answered(&client->producer)) {
        return;
    }
    status = space_producer_answer(&client->producer, &value, worker->bytes,
                                   worker->ask == SPACE_RECORD_READ ? WORLD_BYTES : 0);
    client->state = CLIENT_IDLE;
    tpcc->world->answers++;
    tpcc->world->statuses[-status]++;
    if (worker->ask == SPACE_RECORD_ALLOC) {
        memcpy(worker->bytes, &value, sizeof(value));
    } else if (worker->ask == SPACE_RECORD_FLUSH && status == NIGH_OK &&
               space_producer_failures(&client->producer, &why, &address) > 0) {
        status = why;
    }
    worker->ask = 0;
    then(tpcc, worker, status);
}

/* It is at its end: whoever has its part next begins by its log. */
static void give_in(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    tpcc->failed++;
    world_end_client(tpcc->world, worker->node, worker->client);
}

/* ---- a row that is locked ------------------------------------------------- */

static void read_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status);

/* It has it, or it has not, and holds nothing of it. */
static void end_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    if (status != NIGH_OK) {
        say_unlock(worker, worker->address);
    }
    worker->have(tpcc, worker, status);
}

/* What was settled is written before anything else is: else a mark of its own could come over that
 * of another whose change is not there yet. */
static void settled(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    if (status != NIGH_OK) {
        give_in(tpcc, worker);
        return;
    }
    ask(worker, SPACE_RECORD_READ, worker->address, read_row);
}

static void settle_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    struct tpcc_log_row logged;
    struct tpcc_row row = {.mark = 0};

    if (status != NIGH_OK) {
        end_row(tpcc, worker, status);
        return;
    }
    memcpy(&logged, worker->bytes, sizeof(logged));
    if (!world_claim(tpcc->world, worker->looked < TPCC_CHANGES,
                     "a row has a mark of a log that does not know it") ||
        !world_claim(tpcc->world, logged.transaction == (uint32_t)worker->row.mark,
                     "a log is of two transactions")) {
        return;
    }
    if (logged.address != worker->address) {
        worker->looked++;
        ask(worker, SPACE_RECORD_READ, worker->marked_by + (1 + worker->looked) * WORLD_BYTES,
            settle_row);
        return;
    }
    memcpy(row.values, logged.values, sizeof(row.values));
    tpcc->redone++;
    say_write(worker, worker->address, &row, sizeof(row));
    ask(worker, SPACE_RECORD_FLUSH, 0, settled);
}

static void settle(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    struct tpcc_log_head head;
    const uint64_t none = 0;

    if (status != NIGH_OK) {
        end_row(tpcc, worker, status);
        return;
    }
    memcpy(&head, worker->bytes, sizeof(head));
    worker->looked = 0;
    if (head.transaction == (uint32_t)worker->row.mark) {
        ask(worker, SPACE_RECORD_READ, worker->marked_by + WORLD_BYTES, settle_row);
        return;
    }
    tpcc->undone++;
    say_write(worker, worker->address, &none, sizeof(none));
    ask(worker, SPACE_RECORD_FLUSH, 0, settled);
}

static void locked_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    if (status != NIGH_OK) {
        worker->have(tpcc, worker, status);
        return;
    }
    ask(worker, SPACE_RECORD_READ, worker->address, read_row);
}

static void read_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    uint64_t maker;

    memcpy(&worker->row, worker->bytes, sizeof(worker->row));
    maker = worker->row.mark >> 48;
    if (status != NIGH_OK || worker->row.mark == 0) {
        end_row(tpcc, worker, status);
    } else if (!worker->is_alone) {
        say_unlock(worker, worker->address);
        worker->is_alone = true;
        ask(worker, SPACE_RECORD_LOCK_WRITE, worker->address, locked_row);
    } else if (world_claim(tpcc->world, maker <= tpcc->workers_count,
                           "a row has a mark of nobody")) {
        worker->marked_by = log_of(tpcc, (uint32_t)maker);
        ask(worker, SPACE_RECORD_READ, worker->marked_by, settle);
    }
}

/* Locks it, and what others left undone of it is done, or undone. */
static void have_row(struct tpcc_worker *worker, uint64_t address, bool is_alone, tpcc_then *have)
{
    worker->address = address;
    worker->is_alone = is_alone;
    worker->have = have;
    ask(worker, is_alone ? SPACE_RECORD_LOCK_WRITE : SPACE_RECORD_LOCK_READ, address, locked_row);
}

/* ---- a worker's begin ----------------------------------------------------- */

static void recover(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status);

/* Not now: its log, or a row of it, is with a node that is down. */
static void recover_later(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    worker->rests_till = tpcc->world->event + below(tpcc, 400);
    ask(worker, SPACE_RECORD_READ, worker->log, recover);
}

static void read_own_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status);

static void recovered(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    if (status != NIGH_OK) {
        give_in(tpcc, worker);
    }
}

/* Nobody's mark is on it any more. */
static void have_own_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    if (status != NIGH_OK) {
        recover_later(tpcc, worker);
        return;
    }
    say_unlock(worker, worker->address);
    worker->at++;
    if (worker->at < worker->recovers) {
        ask(worker, SPACE_RECORD_READ, worker->log + (1 + worker->at) * WORLD_BYTES, read_own_row);
    } else {
        ask(worker, SPACE_RECORD_FLUSH, 0, recovered);
    }
}

/* Of a later transaction than the head says: then all rows of that one were written before. */
static void read_own_row(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    struct tpcc_log_row logged;

    if (status != NIGH_OK) {
        recover_later(tpcc, worker);
        return;
    }
    memcpy(&logged, worker->bytes, sizeof(logged));
    world_claim(tpcc->world, logged.transaction >= worker->committed,
                "a log's rows are of an earlier transaction than its head");
    if (logged.transaction == worker->committed) {
        have_row(worker, logged.address, true, have_own_row);
    } else {
        ask(worker, SPACE_RECORD_FLUSH, 0, recovered);
    }
}

/* What became of the transaction at which it was killed: the terminal is told now. */
static void learn(struct tpcc *tpcc, struct tpcc_worker *worker, uint64_t last)
{
    struct tpcc_transaction *current = &tpcc->transactions[worker->current];

    world_claim(tpcc->world, last == worker->committed || last == worker->current,
                "a log's head is of an earlier transaction");
    if (worker->current == 0 || current->state != TPCC_RUNS) {
        return;
    }
    tpcc->killed++;
    tpcc->in_doubt += worker->is_put;
    world_claim(tpcc->world, worker->is_put || last != worker->current, "it did not put that");
    if (last == worker->current) {
        tpcc->found_committed++;
        tpcc->committed++;
        current->state = TPCC_COMMITTED;
        worker->committed = last;
    } else {
        current->state = TPCC_ABSENT;
    }
}

static void recover(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    struct tpcc_log_head head;

    if (status != NIGH_OK) {
        recover_later(tpcc, worker);
        return;
    }
    memcpy(&head, worker->bytes, sizeof(head));
    learn(tpcc, worker, head.transaction);
    worker->recovers = (uint32_t)min_u64(head.count, TPCC_CHANGES);
    worker->at = 0;
    if (worker->recovers > 0) {
        ask(worker, SPACE_RECORD_READ, worker->log + WORLD_BYTES, read_own_row);
    }
}

static void started(void *context, uint32_t node, uint32_t client)
{
    struct tpcc *tpcc = context;
    uint32_t n = (uint32_t)below(tpcc, tpcc->workers_count);
    struct tpcc_worker *worker;

    while (tpcc->workers[n].is_running) {
        n = (n + 1) % tpcc->workers_count;
    }
    worker = &tpcc->workers[n];
    worker->is_running = true;
    worker->node = node;
    worker->client = client;
    worker->said = worker->says_count = 0;
    worker->ask = 0;
    if (!tpcc->is_loading) {
        worker->log = log_of(tpcc, worker->number);
        ask(worker, SPACE_RECORD_READ, worker->log, recover);
    }
}

static struct tpcc_worker *worker_at(struct tpcc *tpcc, uint32_t node, uint32_t client)
{
    for (uint32_t n = 0; n < tpcc->workers_count; n++) {
        struct tpcc_worker *worker = &tpcc->workers[n];

        if (worker->is_running && worker->node == node && worker->client == client) {
            return worker;
        }
    }
    NIGH_ASSERT(false);
    return NULL;
}

static void stopped(void *context, uint32_t node, uint32_t client)
{
    struct tpcc_worker *worker = worker_at(context, node, client);

    worker->is_running = worker->is_busy = false;
}

/* ---- transactions --------------------------------------------------------- */

static void add_row(struct tpcc_worker *worker, uint64_t address, bool is_alone)
{
    uint32_t at = worker->count++;

    NIGH_ASSERT(worker->count <= TPCC_ROWS);
    while (at > 0 && worker->rows[at - 1].address > address) {
        worker->rows[at] = worker->rows[at - 1];
        at--;
    }
    worker->rows[at] = (struct tpcc_rows){.address = address, .is_alone = is_alone};
}

static struct tpcc_rows *row_of(struct tpcc_worker *worker, uint64_t address)
{
    for (uint32_t n = 0; n < worker->count; n++) {
        if (worker->rows[n].address == address) {
            return &worker->rows[n];
        }
    }
    NIGH_ASSERT(false);
    return NULL;
}

/* Each item once; one line in ten is of another warehouse's stock. */
static void choose_lines(struct tpcc *tpcc, struct tpcc_transaction *wanted)
{
    uint32_t item = (uint32_t)below(tpcc, TPCC_ITEMS), nodes = tpcc->world->rules.nodes;

    wanted->lines = 1 + (uint32_t)below(tpcc, TPCC_LINES);
    for (uint32_t n = 0; n < wanted->lines; n++) {
        bool is_remote = one_in(tpcc, 10);

        wanted->wanted[n] = (struct tpcc_wanted){
            .item = item,
            .supplier = is_remote ? (uint32_t)below(tpcc, nodes) : wanted->warehouse,
            .quantity = 1 + (uint32_t)below(tpcc, 10)};
        item = (item + 1 + (uint32_t)below(tpcc, 2)) % TPCC_ITEMS;
    }
}

static struct tpcc_transaction choose(struct tpcc *tpcc, const struct tpcc_worker *worker)
{
    uint32_t nodes = tpcc->world->rules.nodes;
    struct tpcc_transaction wanted = {.state = TPCC_RUNS,
                                      .is_payment = one_in(tpcc, 2),
                                      .worker = worker->number,
                                      .warehouse = (worker->number - 1) % nodes,
                                      .district = (uint32_t)below(tpcc, TPCC_DISTRICTS),
                                      .customer = (uint32_t)below(tpcc, TPCC_CUSTOMERS),
                                      .amount = (int64_t)below(tpcc, 500000) + 100};
    bool is_remote = wanted.is_payment && one_in(tpcc, 6);

    wanted.customer_warehouse = is_remote ? (uint32_t)below(tpcc, nodes) : wanted.warehouse;
    wanted.customer_district = is_remote ? (uint32_t)below(tpcc, TPCC_DISTRICTS) : wanted.district;
    if (!wanted.is_payment) {
        choose_lines(tpcc, &wanted);
    }
    return wanted;
}

static void name_rows(const struct tpcc *tpcc, struct tpcc_worker *worker,
                      const struct tpcc_transaction *wanted)
{
    worker->count = 0;
    add_row(worker, block_of(tpcc, wanted->warehouse, TPCC_WAREHOUSE), wanted->is_payment);
    add_row(worker, block_of(tpcc, wanted->warehouse, TPCC_DISTRICT + wanted->district), true);
    add_row(worker, customer_of(tpcc, wanted), wanted->is_payment);
    for (uint32_t n = 0; n < wanted->lines; n++) {
        add_row(worker,
                block_of(tpcc, wanted->wanted[n].supplier, TPCC_STOCK + wanted->wanted[n].item),
                true);
    }
}

/* Takes from stock, and adds the order: nobody looks at that before the district says so. */
static void new_order(struct tpcc *tpcc, struct tpcc_worker *worker,
                      const struct tpcc_transaction *wanted, struct tpcc_row *district)
{
    int64_t id = district->values[TPCC_NEXT_ORDER]++;
    uint64_t place = place_of(wanted->district, id);
    struct tpcc_order order = {.transaction = worker->current,
                               .id = (uint32_t)id,
                               .customer = (uint16_t)wanted->customer,
                               .lines = (uint16_t)wanted->lines};
    struct tpcc_line lines[TPCC_LINES] = {{0}};

    for (uint32_t n = 0; n < wanted->lines; n++) {
        const struct tpcc_wanted *line = &wanted->wanted[n];
        int64_t *stock =
            row_of(worker, block_of(tpcc, line->supplier, TPCC_STOCK + line->item))->row.values;

        stock[TPCC_YTD] += line->quantity;
        stock[TPCC_QUANTITY] -= line->quantity;
        stock[TPCC_QUANTITY] += stock[TPCC_QUANTITY] < 10 ? 91 : 0;
        stock[TPCC_ORDERED]++;
        stock[TPCC_REMOTE] += line->supplier != wanted->warehouse;
        lines[n] = (struct tpcc_line){.order = (uint32_t)id,
                                      .number = (uint16_t)(n + 1),
                                      .item = (uint16_t)line->item,
                                      .supplier = (uint16_t)line->supplier,
                                      .quantity = (uint16_t)line->quantity};
    }
    say_write(worker,
              block_of(tpcc, wanted->warehouse, TPCC_ORDERS) + place * sizeof(struct tpcc_order),
              &order, sizeof(order));
    say_write(worker, block_of(tpcc, wanted->warehouse, TPCC_ORDER_LINES) + place * WORLD_BYTES,
              lines, sizeof(lines));
}

static void payment(struct tpcc *tpcc, struct tpcc_worker *worker,
                    const struct tpcc_transaction *wanted, struct tpcc_row *district)
{
    int64_t id = district->values[TPCC_NEXT_PAYMENT]++;
    int64_t *customer = row_of(worker, customer_of(tpcc, wanted))->row.values;
    struct tpcc_history history = {.transaction = worker->current,
                                   .id = (uint32_t)id,
                                   .warehouse = (uint16_t)wanted->customer_warehouse,
                                   .district = (uint16_t)wanted->customer_district,
                                   .customer = wanted->customer,
                                   .amount = wanted->amount};

    customer[TPCC_YTD] += wanted->amount;
    customer[TPCC_BALANCE] -= wanted->amount;
    customer[TPCC_PAYMENTS]++;
    district->values[TPCC_YTD] += wanted->amount;
    row_of(worker, block_of(tpcc, wanted->warehouse, TPCC_WAREHOUSE))->row.values[TPCC_YTD] +=
        wanted->amount;
    say_write(worker,
              block_of(tpcc, wanted->warehouse, TPCC_HISTORY) +
                  place_of(wanted->district, id) * sizeof(history),
              &history, sizeof(history));
}

static void let_go(struct tpcc_worker *worker, uint32_t count)
{
    while (count > 0) {
        say_unlock(worker, worker->rows[--count].address);
    }
}

/* Nothing was written yet. */
static void give_up(struct tpcc *tpcc, struct tpcc_worker *worker, uint32_t locked)
{
    let_go(worker, locked);
    worker->is_busy = false;
    tpcc->transactions[worker->current].state = TPCC_ABSENT;
    worker->rests_till = tpcc->world->event + below(tpcc, 200);
}

static void applied(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    worker->is_busy = false;
    if (status != NIGH_OK) {
        give_in(tpcc, worker);
    }
}

/* Its number is in its log's head: from here on it was done. */
static void committed(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    if (status != NIGH_OK) {
        give_in(tpcc, worker);
        return;
    }
    tpcc->transactions[worker->current].state = TPCC_COMMITTED;
    worker->committed = worker->current;
    tpcc->committed++;
    for (uint32_t n = 0; n < worker->count; n++) {
        if (worker->rows[n].is_alone) {
            say_write(worker, worker->rows[n].address, &worker->rows[n].row,
                      sizeof(worker->rows[n].row));
        }
    }
    let_go(worker, worker->count);
    ask(worker, SPACE_RECORD_FLUSH, 0, applied);
}

static void logged(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    struct tpcc_log_head head = {.transaction = worker->current};

    if (status != NIGH_OK) {
        give_in(tpcc, worker);
        return;
    }
    for (uint32_t n = 0; n < worker->count; n++) {
        head.count += worker->rows[n].is_alone;
    }
    worker->is_put = true;
    say_write(worker, worker->log, &head, sizeof(head));
    ask(worker, SPACE_RECORD_FLUSH, 0, committed);
}

static void mark_and_log(struct tpcc_worker *worker)
{
    uint64_t mark = mark_of(worker, worker->current), place = worker->log;

    for (uint32_t n = 0; n < worker->count; n++) {
        struct tpcc_log_row change = {.transaction = worker->current,
                                      .address = worker->rows[n].address};

        if (worker->rows[n].is_alone) {
            memcpy(change.values, worker->rows[n].row.values, sizeof(change.values));
            say_write(worker, worker->rows[n].address, &mark, sizeof(mark));
            say_write(worker, place += WORLD_BYTES, &change, sizeof(change));
        }
    }
}

/* It has all locks. The user may have mistaken something; a district may be full. */
static void carry_out(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    const struct tpcc_transaction *wanted = &tpcc->transactions[worker->current];
    struct tpcc_row *district =
        &row_of(worker, block_of(tpcc, wanted->warehouse, TPCC_DISTRICT + wanted->district))->row;
    int64_t orders =
        district->values[TPCC_NEXT_ORDER] - tpcc->orders_from[wanted->warehouse][wanted->district];
    int64_t payments = district->values[TPCC_NEXT_PAYMENT] -
                       tpcc->payments_from[wanted->warehouse][wanted->district];

    if (one_in(tpcc, 50) || orders >= (int64_t)TPCC_ROOM || payments >= (int64_t)TPCC_ROOM) {
        tpcc->rolled_back++;
        give_up(tpcc, worker, worker->count);
        return;
    }
    if (wanted->is_payment) {
        payment(tpcc, worker, wanted, district);
    } else {
        new_order(tpcc, worker, wanted, district);
    }
    mark_and_log(worker);
    ask(worker, SPACE_RECORD_FLUSH, 0, logged);
}

static void have_next(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    if (status != NIGH_OK) {
        tpcc->aborted++;
        give_up(tpcc, worker, worker->at);
        return;
    }
    worker->rows[worker->at++].row = worker->row;
    if (worker->at == worker->count) {
        carry_out(tpcc, worker);
    } else {
        have_row(worker, worker->rows[worker->at].address, worker->rows[worker->at].is_alone,
                 have_next);
    }
}

static void begin(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    if (tpcc->next == TPCC_TRANSACTIONS) {
        return;
    }
    worker->current = tpcc->next++;
    worker->is_put = false;
    worker->is_busy = true;
    tpcc->transactions[worker->current] = choose(tpcc, worker);
    name_rows(tpcc, worker, &tpcc->transactions[worker->current]);
    worker->at = 0;
    have_row(worker, worker->rows[0].address, worker->rows[0].is_alone, have_next);
}

/* ---- a check: all workers read -------------------------------------------- */

static void read_block(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    uint32_t warehouse = worker->visits / TPCC_TABLES, block = worker->visits % TPCC_TABLES;

    if (!world_claim(tpcc->world, status == NIGH_OK, "a row cannot be read, and all is calm")) {
        return;
    }
    if (block < TPCC_ORDERS) {
        memcpy(tpcc->found[warehouse][block], &worker->row, sizeof(worker->row));
        say_unlock(worker, worker->address);
    } else {
        memcpy(tpcc->found[warehouse][block], worker->bytes, WORLD_BYTES);
    }
    tpcc->blocks_read++;
}

static void visit(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    uint64_t address;

    if (tpcc->next_block == tpcc->world->rules.nodes * TPCC_TABLES) {
        return;
    }
    worker->visits = tpcc->next_block++;
    address = block_of(tpcc, worker->visits / TPCC_TABLES, worker->visits % TPCC_TABLES);
    if (worker->visits % TPCC_TABLES < TPCC_ORDERS) {
        have_row(worker, address, true, read_block);
    } else {
        ask(worker, SPACE_RECORD_READ, address, read_block);
    }
}

/* ---- the load ------------------------------------------------------------- */

static void loaded(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    (void)worker;
    world_claim(tpcc->world, status == NIGH_OK, "the tables cannot be loaded");
    tpcc->blocks_read++;
}

static void load(struct tpcc *tpcc, struct tpcc_worker *worker, nigh_status status)
{
    uint64_t base;

    if (!world_claim(tpcc->world, status == NIGH_OK, "no memory for a warehouse")) {
        return;
    }
    memcpy(&base, worker->bytes, sizeof(base));
    tpcc->base[worker->visits] = base;
    for (uint32_t n = 0; n < TPCC_ORDERS; n++) {
        say_write(worker, base + n * WORLD_BYTES, &tpcc->expected[worker->visits][n],
                  sizeof(struct tpcc_row));
    }
    ask(worker, SPACE_RECORD_FLUSH, 0, loaded);
}

static void load_next(struct tpcc *tpcc, struct tpcc_worker *worker)
{
    if (tpcc->next_block < tpcc->world->rules.nodes) {
        worker->visits = tpcc->next_block++;
        ask(worker, SPACE_RECORD_ALLOC, space_address_first((uint8_t)worker->visits) + WORLD_BYTES,
            load);
    }
}

/* ---- turns ---------------------------------------------------------------- */

static void event(void *context, uint32_t node, uint32_t client)
{
    struct tpcc *tpcc = context;
    struct tpcc_worker *worker = worker_at(tpcc, node, client);

    if (client_of(tpcc, worker)->state == CLIENT_ASKS) {
        answered(tpcc, worker);
    } else if (worker->said < worker->says_count) {
        say_one(tpcc, worker);
    } else if (!tpcc->world->is_calm && tpcc->world->event < worker->rests_till) {
        return;
    } else if (worker->ask != 0) {
        ask_now(tpcc, worker);
    } else if (tpcc->is_loading) {
        load_next(tpcc, worker);
    } else if (tpcc->is_checking) {
        visit(tpcc, worker);
    } else if (!tpcc->world->is_calm) {
        begin(tpcc, worker);
    }
}

static bool is_quiet(void *context)
{
    const struct tpcc *tpcc = context;
    uint32_t to_read = tpcc->is_loading    ? tpcc->world->rules.nodes
                       : tpcc->is_checking ? tpcc->world->rules.nodes * TPCC_TABLES
                                           : 0;

    for (uint32_t n = 0; n < tpcc->workers_count; n++) {
        const struct tpcc_worker *worker = &tpcc->workers[n];

        if (!worker->is_running || worker->ask != 0 || worker->said < worker->says_count) {
            return false;
        }
    }
    return tpcc->blocks_read >= to_read;
}

bool tpcc_init(struct tpcc *tpcc, struct world *world, struct world_rules *rules, uint64_t seed)
{
    memset(tpcc, 0, sizeof(*tpcc));
    random_init(&tpcc->random, seed + 1);
    tpcc->world = world;
    tpcc->workers_count = rules->nodes * rules->clients;
    tpcc->next = 1; /* 0 is none */
    tpcc->is_loading = true;
    for (uint32_t n = 0; n < tpcc->workers_count; n++) {
        tpcc->workers[n].number = n + 1;
    }
    tpcc_expect_nothing(tpcc);
    tpcc->users = (struct world_users){.context = tpcc,
                                       .started = started,
                                       .stopped = stopped,
                                       .event = event,
                                       .is_quiet = is_quiet};
    rules->home = TPCC_BLOCKS + 1; /* the first one of the first home is nobody's */
    rules->users = &tpcc->users;
    world_init(world, rules, seed);
    if (!world_calm(world)) {
        return false;
    }
    tpcc->is_loading = false;
    for (uint32_t n = 0; n < tpcc->workers_count; n++) {
        tpcc->workers[n].log = log_of(tpcc, n + 1);
    }
    return true;
}

bool tpcc_check(struct tpcc *tpcc)
{
    if (!world_calm(tpcc->world)) {
        return false;
    }
    tpcc->is_checking = true;
    tpcc->next_block = tpcc->blocks_read = 0;
    if (!world_calm(tpcc->world)) {
        return false;
    }
    tpcc->is_checking = false;
    tpcc_look(tpcc);
    return tpcc->world->broken == NULL;
}

/* Its own, or the home of its log or of the row that it has locked last. */
bool tpcc_is_busy(struct tpcc *tpcc, uint32_t *node)
{
    uint32_t first = (uint32_t)below(tpcc, tpcc->workers_count);

    for (uint32_t n = 0; n < tpcc->workers_count; n++) {
        const struct tpcc_worker *worker = &tpcc->workers[(first + n) % tpcc->workers_count];

        if (worker->is_busy) {
            uint64_t homes[] = {worker->log, worker->rows[max_u32(worker->at, 1) - 1].address};

            *node = one_in(tpcc, 2) ? worker->node
                                    : (uint32_t)space_address_seat(homes[below(tpcc, 2)]);
            return true;
        }
    }
    return false;
}
