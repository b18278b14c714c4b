// SPDX-License-Identifier: MIT OR Apache-2.0
#include <sys/utsname.h>
#include <unistd.h>

#include "../lib/linux/fail.h"
#include "../lib/linux/file.h"
#include "steps.h"

void report_hello(void)
{
	char type[32], major[16], minor[16], extra[64];
	struct utsname name;

	uname(&name);
	read_line("/sys/hypervisor/type", type, sizeof(type));
	read_line("/sys/hypervisor/version/major", major, sizeof(major));
	read_line("/sys/hypervisor/version/minor", minor, sizeof(minor));
	read_line("/sys/hypervisor/version/extra", extra, sizeof(extra));
	report("{\"kind\":\"hello\",\"release\":\"%s\",\"version\":\"%s\",\"hypervisor\":\"%s\",\"xen\":\"%s%s%s%s\","
	       "\"cpus\":%ld}",
	       name.release, name.version, type, major, *minor ? "." : "", minor, extra, sysconf(_SC_NPROCESSORS_ONLN));
}
