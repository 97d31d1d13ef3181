/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive, doubly linked list. The nodes lie inside the caller's structures; nothing is
 * allocated.
 *
 * A zeroed node is a node in no list, and so is a removed one: linking a node twice, or removing
 * one that is in no list, is an assertion. A list has one owner thread; it does not lock.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/check.h"

struct list_node {
    struct list_node *next; /* NULL: in no list */
    struct list_node *prev;
};

struct list {
    struct list_node head; /* head.next is the first node, head.prev the last; itself when empty */
};

static inline void list_init(struct list *list)
{
    list->head.next = &list->head;
    list->head.prev = &list->head;
}

static inline bool list_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

static inline bool list_is_linked(const struct list_node *node)
{
    return node->next != NULL;
}

/* Links `node`, which is in no list, right before `place`, a node of a list or a list's head. */
static inline void list_insert_before(struct list_node *place, struct list_node *node)
{
    NIGH_ASSERT(!list_is_linked(node));
    NIGH_ASSERT(list_is_linked(place));
    node->next = place;
    node->prev = place->prev;
    place->prev->next = node;
    place->prev = node;
}

static inline void list_push_back(struct list *list, struct list_node *node)
{
    list_insert_before(&list->head, node);
}

static inline void list_push_front(struct list *list, struct list_node *node)
{
    list_insert_before(list->head.next, node);
}

static inline void list_remove(struct list_node *node)
{
    NIGH_ASSERT(list_is_linked(node));
    NIGH_ASSERT(node->next->prev == node && node->prev->next == node);
    node->next->prev = node->prev;
    node->prev->next = node->next;
    node->next = NULL;
    node->prev = NULL;
}

/* The first node, which stays in the list; NULL when the list is empty. */
static inline struct list_node *list_first(const struct list *list)
{
    return list_empty(list) ? NULL : list->head.next;
}

/* The last node, which stays in the list; NULL when the list is empty. */
static inline struct list_node *list_last(const struct list *list)
{
    return list_empty(list) ? NULL : list->head.prev;
}

/* Removes and returns the first node; NULL when the list is empty. */
static inline struct list_node *list_pop_front(struct list *list)
{
    struct list_node *node = list_first(list);
    if (node != NULL)
        list_remove(node);
    return node;
}

/* Appends every node of `from` to `to`, in order, and leaves `from` empty. The lists differ. */
static inline void list_append_all(struct list *to, struct list *from)
{
    NIGH_ASSERT(to != from);
    if (list_empty(from))
        return;
    from->head.next->prev = to->head.prev;
    to->head.prev->next = from->head.next;
    from->head.prev->next = &to->head;
    to->head.prev = from->head.prev;
    list_init(from);
}

/* Visits each node, first to last. The body neither removes nor links nodes. */
#define LIST_FOREACH(node, list) \
    for (struct list_node *node = (list)->head.next; node != &(list)->head; node = node->next)

/* Visits each node, first to last. The body may remove `node`, and no other. */
#define LIST_FOREACH_SAFE(node, list)                                           \
    for (struct list_node *node = (list)->head.next, *node##_next = node->next; \
         node != &(list)->head; node = node##_next, node##_next = node->next)

#endif
