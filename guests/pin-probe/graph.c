// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include "graph.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "../init/report.h"
#include "../init/shared_memory.h"

#define TRACING "/sys/kernel/tracing/"
/* KiB for each CPU. A trace that does not fit loses its beginning, and the reader says so. */
#define BUFFER_KIB "98304"
/* Bytes of text that can be handed over: the device's memory, less some. */
#define TEXT_LIMIT (60ul << 20)

/* The functions of VFIO, and those that do its work. One that this kernel has not, or has inlined, is passed over. */
static const char *const functions[] = {
	"vfio_*", "vaddr_get_pfn*", "vpfn_pages*", "put_pfn*", "is_invalid_reserved_pfn*", "mm_lock_acct*",
	"pin_user_pages_remote", "unpin_user_page*", "iommu_map*", "__iommu_map*", "iommu_unmap*", "__iommu_unmap*",
	"iommu_iova_to_phys", "intel_iommu_*", "*pt_iommu*", "iommu_iotlb*",
};

/* All traces, one after the other. */
static char *text;
static size_t used;

static void set(const char *name, const char *value)
{
	char path[128] = TRACING;
	int fd;

	strncat(path, name, sizeof(path) - strlen(path) - 1);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		fail(path);
	close(fd);
}

static void append(const char *name, const char *value)
{
	char path[128] = TRACING;
	int fd;

	strncat(path, name, sizeof(path) - strlen(path) - 1);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd >= 0) {
		if (write(fd, value, strlen(value)) < 0 && errno != EINVAL)
			fail(path);
		close(fd);
	}
}

void graph_begin(void)
{
	if (access(TRACING "trace", R_OK) && mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL) < 0)
		fail("the kernel has no tracefs");
	set("tracing_on", "0");
	set("buffer_size_kb", BUFFER_KIB);
	/* Only what is traced is slowed down, so that no more is traced than tells where the time goes. */
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		append("set_ftrace_filter", functions[i]);
	append("set_graph_function", "vfio_iommu_type1_ioctl");
	append("set_graph_function", "vfio_pin_pages_remote");
	/* Interrupts are no part of the ioctl. */
	set("options/funcgraph-irqs", "0");
	set("current_tracer", "function_graph");
	set("trace", "0");
	set("tracing_on", "1");
}

void graph_end(const char *name)
{
	ssize_t got;
	int fd;

	set("tracing_on", "0");
	if (!text)
		text = malloc(TEXT_LIMIT);
	fd = open(TRACING "trace", O_RDONLY | O_CLOEXEC);
	if (!text || fd < 0)
		fail("read the trace");
	used += snprintf(text + used, TEXT_LIMIT - used, "# shape: %s\n", name);
	while (used < TEXT_LIMIT && (got = read(fd, text + used, TEXT_LIMIT - used)) > 0)
		used += got;
	close(fd);
	set("current_tracer", "nop");
}

void graph_hand_over(void)
{
	if (used)
		shared_memory_put("function-graph", text, used);
}
