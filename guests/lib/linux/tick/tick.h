/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The kernel's timer. */
#ifndef PAGETOLL_TICK_H
#define PAGETOLL_TICK_H

/* Returns right after a timer tick: the number of ticks in what follows depends on its length alone. */
void await_tick(void);

#endif
