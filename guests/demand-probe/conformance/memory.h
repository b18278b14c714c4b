/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memories of a case. What they hold goes in and out through /proc/self/mem and the file behind them: pages may be
 * missing, and may be taken away.
 */
#ifndef PAGETOLL_CONFORMANCE_MEMORY_H
#define PAGETOLL_CONFORMANCE_MEMORY_H

#include <stdint.h>

/* Maps the next memory of a case. `kind` and `content` are the words of conformance/kvm/README.md, or empty. */
void memory_add(const char *kind, const char *content, uint64_t pages);

/* Answers with what each page holds that is mapped; it maps none. */
void memory_show(unsigned int memory);

#endif
