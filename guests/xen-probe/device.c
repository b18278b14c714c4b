// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/xen-probe: does to page-table entries of the caller's own mm, to TLS descriptors, to events and to TLBs what a
 * kernel does, by every mechanism of the PV ABI; times it, checks the result, and puts everything back as it was. For a
 * PV guest under Xen only, and for root.
 */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <xen/xen.h>

#include "probe.h"

/* One request at a time works on the tables; XEN_PROBE_IOC_DIRTY runs beside it. */
static DEFINE_MUTEX(work);

static bool range_ok(u64 addr, u32 pages)
{
	u64 bytes = (u64)pages * PAGE_SIZE;

	return pages && !(addr & (PMD_SIZE - 1)) && addr < TASK_SIZE_MAX && bytes <= TASK_SIZE_MAX - addr;
}

static bool batch_ok(u32 batch)
{
	return batch >= 1 && batch <= XEN_PROBE_MAX_BATCH;
}

/* Calls `one` for each table of a range; mmap_lock is held for writing meanwhile. */
static int for_each_table(u64 addr, u32 pages, void (*one)(struct table *t, void *request), void *request)
{
	struct table *t = kvmalloc(sizeof(*t), GFP_KERNEL);
	struct tick tick = {};
	u32 done;
	int err = 0;

	if (!t)
		return -ENOMEM;
	mmap_write_lock(current->mm);
	for (done = 0; done < pages; done += XEN_PROBE_MAX_BATCH) {
		err = table_find(t, current->mm, addr + (u64)done * PAGE_SIZE,
				 min_t(u32, pages - done, XEN_PROBE_MAX_BATCH));
		if (err)
			break;
		tick_begin(&tick);
		one(t, request);
		tick_end(&tick);
	}
	mmap_write_unlock(current->mm);
	kvfree(t);
	return err;
}

static int run_clear(void *request)
{
	struct xen_probe_clear *req = request;

	if (!range_ok(req->addr, req->pages) || !batch_ok(req->batch) || !mechanism_find(req->mechanism))
		return -EINVAL;
	if (!mechanism_supported(req->mechanism))
		return -EOPNOTSUPP;
	req->instructions = 0;
	memset(req->classes, 0, sizeof(req->classes));
	memset(&req->faults, 0, sizeof(req->faults));
	return for_each_table(req->addr, req->pages, clear_one, req);
}

static int run_set(void *request)
{
	struct xen_probe_set *req = request;

	if (!range_ok(req->addr, req->pages) || !set_known(req->mechanism))
		return -EINVAL;
	req->instructions = 0;
	memset(&req->faults, 0, sizeof(req->faults));
	return for_each_table(req->addr, req->pages, set_one, req);
}

static int run_repeat(void *request)
{
	return repeat_run(request);
}

static int run_race(void *request)
{
	struct xen_probe_race *req = request;
	struct table *t;
	int err;

	if (!range_ok(req->addr, req->pages) || !batch_ok(req->batch) || !mechanism_find(req->mechanism) ||
	    mechanism_is_baseline(req->mechanism))
		return -EINVAL;
	if (!mechanism_supported(req->mechanism))
		return -EOPNOTSUPP;
	t = kvmalloc(sizeof(*t), GFP_KERNEL);
	if (!t)
		return -ENOMEM;
	memset(&req->faults, 0, sizeof(req->faults));
	/* For reading only: the contents are read by get_user(), which may have to take it again for a fault. */
	mmap_read_lock(current->mm);
	err = race_run(t, current->mm, req);
	mmap_read_unlock(current->mm);
	kvfree(t);
	return err;
}

static int run_case(void *request)
{
	return conformance_run(request);
}

static const struct {
	unsigned int command;
	int (*run)(void *request);
} commands[] = {
	{ XEN_PROBE_IOC_CLEAR, run_clear },
	{ XEN_PROBE_IOC_SET, run_set },
	{ XEN_PROBE_IOC_REPEAT, run_repeat },
	{ XEN_PROBE_IOC_RACE, run_race },
	{ XEN_PROBE_IOC_CASE, run_case },
};

/* Runs a command on a copy of the caller's request, which is copied back if it succeeds. */
static long run_command(int (*run)(void *request), void __user *arg, size_t size)
{
	void *request = memdup_user(arg, size);
	long err;

	if (IS_ERR(request))
		return PTR_ERR(request);
	err = mutex_lock_interruptible(&work);
	if (!err) {
		err = run(request);
		mutex_unlock(&work);
	}
	if (!err && copy_to_user(arg, request, size))
		err = -EFAULT;
	kfree(request);
	return err;
}

static long probe_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	unsigned int i;

	if (command == XEN_PROBE_IOC_DIRTY)
		return race_dirty();
	if (command == XEN_PROBE_IOC_DIRTY_STOP) {
		race_stop();
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i].command == command)
			return run_command(commands[i].run, (void __user *)arg, _IOC_SIZE(command));
	return -ENOTTY;
}

static const struct file_operations probe_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = probe_ioctl,
};

static struct miscdevice probe_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xen-probe",
	.mode = 0600,
	.fops = &probe_fops,
};

static int __init probe_init(void)
{
	if (!xen_pv_domain())
		return -ENODEV;
	return misc_register(&probe_device);
}

static void __exit probe_exit(void)
{
	misc_deregister(&probe_device);
}

module_init(probe_init);
module_exit(probe_exit);
MODULE_DESCRIPTION("Measures what a Xen PV guest pays its hypervisor for");
MODULE_LICENSE("GPL");
