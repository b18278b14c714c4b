// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/xen-probe: does what a kernel does to page-table entries of the caller's own mm, to TLS descriptors, to events
 * and to TLBs by every mechanism of the PV ABI, times it, checks what came of it, and puts everything back as it was.
 * For a PV guest under Xen only, and for root.
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

static void count_classes(const struct table *t, u64 classes[4])
{
	unsigned int i;

	for (i = 0; i < t->count; i++)
		classes[!!pte_young(t->before[i]) + 2 * !!pte_dirty(t->before[i])]++;
}

/* Clears, times and checks one table; puts it back. */
static void clear_one(struct table *t, struct xen_probe_clear *req)
{
	clear_batch clear = mechanism_find(req->mechanism);
	unsigned int i;
	u64 start;

	table_lock(t);
	table_make_classes(t);
	mark_begin(req->mark);
	start = rdtsc_ordered();
	for (i = 0; i < t->count; i += req->batch)
		clear(t, i, min(req->batch, t->count - i));
	req->instructions += rdtsc_ordered() - start;
	mark_end(req->mark);
	count_classes(t, req->classes);
	table_check(t, t->before, &req->faults);
	if (mechanism_is_baseline(req->mechanism))
		req->faults.not_none = 0;
	else
		t->refused += table_restore(t);
	table_flush_tlb_all();
	req->faults.refused += t->refused;
	table_unlock(t);
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

static void clear_table(struct table *t, void *request)
{
	clear_one(t, request);
}

static long do_clear(struct xen_probe_clear __user *arg)
{
	struct xen_probe_clear req;
	int err;

	if (copy_from_user(&req, arg, sizeof(req)))
		return -EFAULT;
	if (!range_ok(req.addr, req.pages) || !batch_ok(req.batch) || !mechanism_find(req.mechanism))
		return -EINVAL;
	if (!mechanism_supported(req.mechanism))
		return -EOPNOTSUPP;
	req.instructions = 0;
	memset(req.classes, 0, sizeof(req.classes));
	memset(&req.faults, 0, sizeof(req.faults));
	err = for_each_table(req.addr, req.pages, clear_table, &req);
	if (err)
		return err;
	return copy_to_user(arg, &req, sizeof(req)) ? -EFAULT : 0;
}

static void set_table(struct table *t, void *request)
{
	set_one(t, request);
}

static long do_set(struct xen_probe_set __user *arg)
{
	struct xen_probe_set req;
	int err;

	if (copy_from_user(&req, arg, sizeof(req)))
		return -EFAULT;
	if (!range_ok(req.addr, req.pages) || !set_known(req.mechanism))
		return -EINVAL;
	req.instructions = 0;
	memset(&req.faults, 0, sizeof(req.faults));
	err = for_each_table(req.addr, req.pages, set_table, &req);
	if (err)
		return err;
	return copy_to_user(arg, &req, sizeof(req)) ? -EFAULT : 0;
}

static long do_repeat(struct xen_probe_repeat __user *arg)
{
	struct xen_probe_repeat req;
	int err;

	if (copy_from_user(&req, arg, sizeof(req)))
		return -EFAULT;
	err = repeat_run(&req);
	if (err)
		return err;
	return copy_to_user(arg, &req, sizeof(req)) ? -EFAULT : 0;
}

static long do_race(struct xen_probe_race __user *arg)
{
	struct xen_probe_race req;
	struct table *t;
	int err;

	if (copy_from_user(&req, arg, sizeof(req)))
		return -EFAULT;
	if (!range_ok(req.addr, req.pages) || !batch_ok(req.batch) || !mechanism_find(req.mechanism) ||
	    mechanism_is_baseline(req.mechanism))
		return -EINVAL;
	if (!mechanism_supported(req.mechanism))
		return -EOPNOTSUPP;
	t = kvmalloc(sizeof(*t), GFP_KERNEL);
	if (!t)
		return -ENOMEM;
	memset(&req.faults, 0, sizeof(req.faults));
	/* For reading only: the contents are read by get_user(), which may have to take it again for a fault. */
	mmap_read_lock(current->mm);
	err = race_run(t, current->mm, &req);
	mmap_read_unlock(current->mm);
	kvfree(t);
	if (err)
		return err;
	return copy_to_user(arg, &req, sizeof(req)) ? -EFAULT : 0;
}

static long do_case(struct xen_probe_case __user *arg)
{
	struct xen_probe_case *c = memdup_user(arg, sizeof(*c));
	int err;

	if (IS_ERR(c))
		return PTR_ERR(c);
	err = conformance_run(c);
	if (!err && copy_to_user(arg, c, sizeof(*c)))
		err = -EFAULT;
	kfree(c);
	return err;
}

static long locked(long (*request)(void __user *), void __user *arg)
{
	long ret;

	if (mutex_lock_interruptible(&work))
		return -EINTR;
	ret = request(arg);
	mutex_unlock(&work);
	return ret;
}

static long locked_clear(void __user *arg)
{
	return do_clear(arg);
}

static long locked_race(void __user *arg)
{
	return do_race(arg);
}

static long locked_case(void __user *arg)
{
	return do_case(arg);
}

static long locked_set(void __user *arg)
{
	return do_set(arg);
}

static long locked_repeat(void __user *arg)
{
	return do_repeat(arg);
}

static long probe_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	void __user *request = (void __user *)arg;

	switch (command) {
	case XEN_PROBE_IOC_CLEAR:
		return locked(locked_clear, request);
	case XEN_PROBE_IOC_RACE:
		return locked(locked_race, request);
	case XEN_PROBE_IOC_CASE:
		return locked(locked_case, request);
	case XEN_PROBE_IOC_SET:
		return locked(locked_set, request);
	case XEN_PROBE_IOC_REPEAT:
		return locked(locked_repeat, request);
	case XEN_PROBE_IOC_DIRTY:
		return race_dirty();
	case XEN_PROBE_IOC_DIRTY_STOP:
		race_stop();
		return 0;
	default:
		return -ENOTTY;
	}
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
MODULE_DESCRIPTION("Bills what a Xen PV guest pays its hypervisor for");
MODULE_LICENSE("GPL");
