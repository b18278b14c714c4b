/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a guest has to do, which it gets once it is ready for it: all before this can be kept as a snapshot. */
#ifndef PAGETOLL_RECEIVE_H
#define PAGETOLL_RECEIVE_H

/*
 * Sleeps while the machine is stopped. By the time it goes on, the host has put files into the shared memory, which this
 * writes to /: for each a line "NAME SIZE" and its bytes, then an empty line. crates/lab-vm/src/files.rs writes that.
 */
void receive_files(void);

#endif
