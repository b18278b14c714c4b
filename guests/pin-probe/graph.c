// SPDX-License-Identifier: MIT OR Apache-2.0
#include "graph.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "../lib/shared_memory.h"

#define TRACING "/sys/kernel/tracing/"
/* KiB for each CPU. A trace that does not fit loses its beginning, which the reader notices. */
#define BUFFER_KIB "98304"

/* VFIO and the functions that do its work. One that this kernel lacks, or has inlined, is skipped. */
static const char *const functions[] = {
	"vfio_*", "vaddr_get_pfn*", "vpfn_pages*", "put_pfn*", "is_invalid_reserved_pfn*", "mm_lock_acct*",
	"pin_user_pages_remote", "unpin_user_page*", "iommu_map*", "__iommu_map*", "iommu_unmap*", "__iommu_unmap*",
	"iommu_iova_to_phys", "intel_iommu_*", "amd_iommu_*", "iommu_v1_*", "*pt_iommu*", "iommu_iotlb*",
#ifdef __aarch64__
	"arm_smmu_*", "arm_lpae_*",
#endif
};

static bool traced;

/* A file that is not there, and a function that cannot be traced, are skipped. */
static void append(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, value, strlen(value)) < 0 && errno != EINVAL)
		fail(path);
	close(fd);
}

void graph_begin(void)
{
	if (access(TRACING "trace", R_OK) && mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL) < 0)
		fail("the kernel has no tracefs");
	write_file(TRACING "tracing_on", "0");
	write_file(TRACING "buffer_size_kb", BUFFER_KIB);
	/* Tracing slows down what it traces: no more functions than the itemisation needs. */
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		append(TRACING "set_ftrace_filter", functions[i]);
	append(TRACING "set_graph_function", "vfio_iommu_type1_ioctl");
	append(TRACING "set_graph_function", "vfio_pin_pages_remote");
	/* Interrupts are not part of the ioctl. */
	write_file(TRACING "options/funcgraph-irqs", "0");
	write_file(TRACING "current_tracer", "function_graph");
	write_file(TRACING "trace", "0");
	write_file(TRACING "tracing_on", "1");
}

void graph_end(const char *name)
{
	char text[65536];
	ssize_t got;
	int fd;

	write_file(TRACING "tracing_on", "0");
	fd = open(TRACING "trace", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail("read the trace");
	shared_append(text, snprintf(text, sizeof(text), "# shape: %s\n", name));
	while ((got = read(fd, text, sizeof(text))) > 0)
		shared_append(text, got);
	close(fd);
	write_file(TRACING "current_tracer", "nop");
	traced = true;
}

void graph_report(void)
{
	if (traced)
		shared_report("function-graph");
}
