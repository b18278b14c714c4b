/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Captures the trace buffers of Xen's CPUs in the file format of xentrace. Xen's own tool needs the sysctl version of its
 * release; this asks the running Xen for its version, and works with any.
 *
 * Structures and rules: Xen's public/sysctl.h (tbuf_op, physinfo) and public/trace.h (t_info, t_buf).
 */
#ifndef PAGETOLL_XENTRACE_H
#define PAGETOLL_XENTRACE_H

#include <stdbool.h>
#include <stdint.h>

#define HYPERVISOR_SYSCTL 35
#define SYSCTL_LOCKPROF_OP 15
#define DOMID_XEN 0x7ff2u

/* uint64_aligned_t: aligned to 8 bytes in 32-bit guests too. */
typedef uint64_t xen_uint64 __attribute__((aligned(8)));

struct xen_sysctl {
	uint32_t cmd;
	uint32_t interface_version;
	union {
		struct {
			uint32_t cmd;
			struct {
				xen_uint64 bitmap;
				uint32_t nr_bits;
			} cpu_mask;
			uint32_t evt_mask;
			xen_uint64 buffer_mfn;
			uint32_t size;
		} tbuf;
		struct {
			uint32_t threads_per_core;
			uint32_t cores_per_socket;
			uint32_t nr_cpus;
		} physinfo;
		struct {
			uint32_t cmd;
			uint32_t max_elem;
			uint32_t nr_elem;
			xen_uint64 time;
			xen_uint64 data;
		} lockprof;
		uint8_t pad[128];
	};
};

/* How this guest reaches Xen. */
struct xentrace_access {
	/* The hypercall; 0 or a negative errno. */
	long (*sysctl)(struct xen_sysctl *call);
	/* Maps frames of Xen one after the other; ends the guest when one cannot be mapped. */
	void *(*map)(const uint64_t *frames, unsigned int count, bool writable);
	/* Waits long enough to see another's trace go on; NULL where there is no other. */
	void (*pause)(void);
};

struct xentrace_state {
	/* The choice of events. */
	uint32_t mask;
	/* Whether a trace is running. */
	bool busy;
};

struct xentrace_state xentrace_state(const struct xentrace_access *access);

/* Stops a trace that was begun here and not ended, and restores the choice of events; leaves any other alone. */
void xentrace_stop(const struct xentrace_access *access, uint32_t mask);

/*
 * Starts tracing the PV event class into buffers of that many pages, or of their present size. Ends the guest where a
 * trace is running.
 */
void xentrace_begin(const struct xentrace_access *access, uint32_t pages);

/* Moves what the buffers hold to the shared memory. */
void xentrace_drain(void);

/* Stops tracing, restores the choice of events, and reports the capture. */
void xentrace_end(void);

#endif
