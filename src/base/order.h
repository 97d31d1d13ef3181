/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells ThreadSanitizer of an order that it cannot see. It knows addresses, and a session's ring is
 * mapped at one for the client and at another for the node: what either did before it said so in
 * the ring has happened before what the other does when it has read it. Elsewhere these are
 * nothing.
 */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H

#ifdef __SANITIZE_THREAD__

extern char order_of_rings;

void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define ORDER_SAID()  __tsan_release(&order_of_rings)
#define ORDER_HEARD() __tsan_acquire(&order_of_rings)

#else

#define ORDER_SAID()  ((void)0)
#define ORDER_HEARD() ((void)0)

#endif

#endif
