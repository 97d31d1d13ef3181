/* SPDX-License-Identifier: Apache-2.0 */
/* Payment (TPC-C, clause 2.5): a customer, of whatever warehouse, pays at a district of the
 * terminal's. */
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "transaction.h"
#include "work.h"

struct input {
    uint32_t district;                                        /* where it is paid */
    uint32_t customer_warehouse, customer_district, customer; /* by whom */
    int64_t amount;
};

/* Three of five come by their last name. */
static uint32_t choose_customer(struct terminal *terminal, uint32_t warehouse, uint32_t district)
{
    const struct database *database = terminal->database;
    uint64_t name;

    if (!chance_percent(&terminal->chance, 60)) {
        return work_customer(terminal);
    }
    name = chance_nurand(&terminal->chance, 255, database->name_run, 0, database->names - 1);
    return database_customer_by_name(database, terminal->store, warehouse, district, name);
}

static struct input make_input(struct terminal *terminal)
{
    struct chance *chance = &terminal->chance;
    struct input input = {.district = (uint32_t)chance_between(chance, 1, DISTRICTS),
                          .amount = (int64_t)chance_between(chance, 100, 500000)};
    bool is_remote = chance_percent(chance, 15) && terminal->database->warehouses > 1;

    input.customer_warehouse = is_remote ? work_elsewhere(terminal) : terminal->warehouse;
    input.customer_district =
        is_remote ? (uint32_t)chance_between(chance, 1, DISTRICTS) : input.district;
    input.customer = choose_customer(terminal, input.customer_warehouse, input.customer_district);
    return input;
}

/* Of customers of bad credit their data begin with what they paid. */
static void note(const struct terminal *terminal, const struct input *input, uint64_t row,
                 struct customer_data *data)
{
    struct customer_data before;
    int length = snprintf(data->text, sizeof data->text, "%u %u %u %u %u %lld.%02lld|",
                          input->customer, input->customer_district, input->customer_warehouse,
                          input->district, terminal->warehouse, (long long)(input->amount / 100),
                          (long long)(input->amount % 100));

    terminal->store->read(terminal->store, row + ROW_BYTES, &before, sizeof before);
    memcpy(data->text + length, before.text, sizeof before.text - (size_t)length);
}

/* Nobody looks for it before the district's history is longer. */
static void add_history(const struct terminal *terminal, const struct input *input,
                        const struct warehouse *warehouse, struct district *district)
{
    struct history history = {.customer = input->customer,
                              .customer_district = input->customer_district,
                              .customer_warehouse = input->customer_warehouse,
                              .district = input->district,
                              .warehouse = terminal->warehouse,
                              .date = today_us(),
                              .amount = input->amount};

    memcpy(history.data, warehouse->name, sizeof warehouse->name);
    memset(history.data + sizeof warehouse->name, ' ', 4);
    memcpy(history.data + sizeof warehouse->name + 4, district->name, sizeof district->name);
    if (++district->history > terminal->database->room) {
        fail("a district", "has no room for more payments");
    }
    terminal->store->write(
        terminal->store,
        history_row(terminal->database, terminal->warehouse, input->district, district->history),
        &history, sizeof history);
}

static void pay(const struct terminal *terminal, const struct input *input,
                struct row *warehouse_row, struct row *district_row, struct row *customer_row,
                struct customer_data *data)
{
    struct warehouse *warehouse = (struct warehouse *)(void *)warehouse_row->copy;
    struct district *district = (struct district *)(void *)district_row->copy;
    struct customer *customer = (struct customer *)(void *)customer_row->copy;

    warehouse->ytd += input->amount;
    district->ytd += input->amount;
    customer->balance -= input->amount;
    customer->ytd_payment += input->amount;
    customer->payments++;
    if (memcmp(customer->credit, "BC", 2) == 0) {
        note(terminal, input, customer_row->address, data);
        customer_row->tail = data;
        customer_row->tail_bytes = sizeof *data;
    }
    add_history(terminal, input, warehouse, district);
    warehouse_row->changed = WAREHOUSE_HEAD;
    district_row->changed = DISTRICT_HEAD;
    customer_row->changed = CUSTOMER_HEAD;
}

enum outcome payment(struct terminal *terminal)
{
    const struct database *database = terminal->database;
    struct input input = make_input(terminal);
    struct row *warehouse, *district, *customer;
    struct transaction transaction;
    struct customer_data data;

    for (uint32_t tries = 0;; tries++) {
        transaction_begin(&transaction, terminal->store);
        warehouse =
            transaction_add(&transaction, places_of(database, terminal->warehouse)->warehouse,
                            sizeof(struct warehouse), true);
        district = transaction_add(&transaction,
                                   district_row(database, terminal->warehouse, input.district),
                                   sizeof(struct district), true);
        customer = transaction_add(&transaction,
                                   customer_row(database, input.customer_warehouse,
                                                input.customer_district, input.customer),
                                   sizeof(struct customer), true);
        if (transaction_lock(&transaction)) {
            break;
        }
        work_again(terminal, tries);
    }
    pay(terminal, &input, warehouse, district, customer, &data);
    transaction_commit(&transaction);
    return OUTCOME_COMMITTED;
}
