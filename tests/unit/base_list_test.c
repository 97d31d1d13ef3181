/* SPDX-License-Identifier: Apache-2.0 */
/* The intrusive list: order, removal, and that a node knows whether it is linked. */
#include "base/list.h"
#include "support/support.h"

struct item {
    int number;
    struct list_node node;
};

/* The list's numbers as one decimal number, first digit first; checks the backward links too. */
static int list_digits(const struct list *list)
{
    int digits = 0, count = 0, back = 0;
    LIST_FOREACH(node, list)
    {
        digits = digits * 10 + container_of(node, struct item, node)->number;
        count++;
    }
    for (const struct list_node *node = list->head.prev; node != &list->head; node = node->prev)
        back++;
    assert_int_equal(count, back);
    return digits;
}

static void nodes_keep_the_order_of_pushing(void **state)
{
    (void)state;
    struct list list;
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}};
    list_init(&list);
    assert_true(list_empty(&list));
    assert_null(list_first(&list));
    assert_null(list_last(&list));
    list_push_back(&list, &items[1].node);
    list_push_back(&list, &items[2].node);
    list_push_front(&list, &items[0].node);
    assert_int_equal(list_digits(&list), 123);
    assert_ptr_equal(list_first(&list), &items[0].node);
    assert_ptr_equal(list_last(&list), &items[2].node);
    assert_false(list_empty(&list));
}

static void node_is_put_before_another(void **state)
{
    (void)state;
    struct list list;
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}};
    list_init(&list);
    list_push_back(&list, &items[0].node);
    list_push_back(&list, &items[2].node);
    list_insert_before(&items[2].node, &items[1].node);
    assert_int_equal(list_digits(&list), 123);
}

static void removed_node_is_unlinked(void **state)
{
    (void)state;
    struct list list;
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}};
    list_init(&list);
    assert_false(list_is_linked(&items[1].node));
    for (size_t i = 0; i < ARRAY_LENGTH(items); i++)
        list_push_back(&list, &items[i].node);
    assert_true(list_is_linked(&items[1].node));
    list_remove(&items[1].node);
    assert_false(list_is_linked(&items[1].node));
    assert_int_equal(list_digits(&list), 13);
    list_push_back(&list, &items[1].node);
    assert_int_equal(list_digits(&list), 132);
}

static void popping_empties_the_list(void **state)
{
    (void)state;
    struct list list;
    struct item items[] = {{.number = 1}, {.number = 2}};
    list_init(&list);
    list_push_back(&list, &items[0].node);
    list_push_back(&list, &items[1].node);
    assert_ptr_equal(list_pop_front(&list), &items[0].node);
    assert_false(list_is_linked(&items[0].node));
    assert_ptr_equal(list_pop_front(&list), &items[1].node);
    assert_null(list_pop_front(&list));
    assert_true(list_empty(&list));
}

static void safe_loop_may_remove_its_node(void **state)
{
    (void)state;
    struct list list;
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
    list_init(&list);
    for (size_t i = 0; i < ARRAY_LENGTH(items); i++)
        list_push_back(&list, &items[i].node);
    int visited = 0;
    LIST_FOREACH_SAFE(node, &list)
    {
        visited++;
        if (container_of(node, struct item, node)->number % 2 == 1)
            list_remove(node);
    }
    assert_int_equal(visited, 4);
    assert_int_equal(list_digits(&list), 24);
    LIST_FOREACH_SAFE(node, &list)
    list_remove(node);
    assert_true(list_empty(&list));
}

static void appending_moves_all_nodes(void **state)
{
    (void)state;
    struct list to, from;
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
    list_init(&to);
    list_init(&from);
    list_append_all(&to, &from);
    assert_true(list_empty(&to));
    list_push_back(&from, &items[0].node);
    list_push_back(&from, &items[1].node);
    list_append_all(&to, &from);
    assert_true(list_empty(&from));
    assert_int_equal(list_digits(&to), 12);
    list_push_back(&from, &items[2].node);
    list_push_back(&from, &items[3].node);
    list_append_all(&to, &from);
    assert_int_equal(list_digits(&to), 1234);
    list_push_back(&from, list_pop_front(&to));
    assert_int_equal(list_digits(&from), 1);
}

static jmp_buf misuse_escape;

static void misuse_hook(const char *file, int line, const char *expression)
{
    (void)file;
    (void)line;
    (void)expression;
    longjmp(misuse_escape, 1);
}

/* Runs one misuse; whether it was caught. */
static bool is_caught(void (*misuse)(struct list *, struct list_node *), struct list *list,
                      struct list_node *node)
{
    check_hook *before = check_set_hook(misuse_hook);
    volatile bool caught = true;
    if (setjmp(misuse_escape) == 0) {
        misuse(list, node);
        caught = false;
    }
    check_set_hook(before);
    return caught;
}

static void remove_from_any(struct list *list, struct list_node *node)
{
    (void)list;
    list_remove(node);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct list list;
    struct item item = {0};
    list_init(&list);
    assert_true(is_caught(remove_from_any, &list, &item.node));
    list_push_back(&list, &item.node);
    assert_true(is_caught(list_push_back, &list, &item.node));
    assert_true(is_caught(list_push_front, &list, &item.node));
    assert_false(is_caught(remove_from_any, &list, &item.node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_keep_the_order_of_pushing),
        cmocka_unit_test(node_is_put_before_another),
        cmocka_unit_test(removed_node_is_unlinked),
        cmocka_unit_test(popping_empties_the_list),
        cmocka_unit_test(safe_loop_may_remove_its_node),
        cmocka_unit_test(appending_moves_all_nodes),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
