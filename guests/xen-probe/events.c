// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ways to unmask event delivery: clear the vCPU's mask, and make sure that an event that became pending meanwhile is
 * delivered. Xen delivers it on return from any hypercall, so one that does nothing will do.
 *
 * The event is an IPI of the vCPU to itself, bound to a handler that counts.
 */
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <linux/smp.h>

#include <xen/events.h>
#include <xen/xen-ops.h>

#include "probe.h"

/* Before Linux 3.4, xen_restore_fl(): a hypercall, needed or not. */
static void unmask_always(struct vcpu_info *vcpu)
{
	WRITE_ONCE(vcpu->evtchn_upcall_mask, 0);
	barrier();
	HYPERVISOR_xen_version(0, NULL);
}

/* Linux 6.1, arch/x86/xen/irq.c, xen_irq_enable(): unmask, then check, so that no event is missed in between. */
static void unmask_if_pending(struct vcpu_info *vcpu)
{
	WRITE_ONCE(vcpu->evtchn_upcall_mask, 0);
	barrier();
	if (unlikely(READ_ONCE(vcpu->evtchn_upcall_pending)))
		HYPERVISOR_xen_version(0, NULL);
}

static void mask(struct vcpu_info *vcpu)
{
	WRITE_ONCE(vcpu->evtchn_upcall_mask, 1);
	barrier();
}

/* The mask must follow local_irq_save(), else this is not the vCPU's vcpu_info. */
int unmask_prepare_idle(struct repeat *r)
{
	struct vcpu_info *vcpu;
	unsigned long flags;
	bool follows;

	preempt_disable();
	vcpu = (struct vcpu_info *)(r->req->vcpu_info + per_cpu_offset(smp_processor_id()));
	follows = !READ_ONCE(vcpu->evtchn_upcall_mask);
	local_irq_save(flags);
	follows &= READ_ONCE(vcpu->evtchn_upcall_mask) == 1;
	local_irq_restore(flags);
	preempt_enable();
	r->vcpu = vcpu;
	return follows ? 0 : -EOPNOTSUPP;
}

static irqreturn_t count_event(int irq, void *data)
{
	struct repeat *r = data;

	r->delivered++;
	return IRQ_HANDLED;
}

int unmask_prepare_pending(struct repeat *r)
{
	struct evtchn_bind_ipi bind = { 0 };
	int err = unmask_prepare_idle(r);

	if (err)
		return err;
	preempt_disable();
	bind.vcpu = xen_vcpu_nr(smp_processor_id());
	preempt_enable();
	err = HYPERVISOR_event_channel_op(EVTCHNOP_bind_ipi, &bind);
	if (err)
		return err;
	r->port = bind.port;
	r->irq = bind_evtchn_to_irqhandler(r->port, count_event, 0, "xen-probe", r);
	return r->irq < 0 ? r->irq : 0;
}

void unmask_finish_pending(struct repeat *r)
{
	unbind_from_irqhandler(r->irq, r);
}

#define UNMASK_IDLE(name, unmask)                       \
	void name(struct repeat *r, unsigned int count) \
	{                                               \
		unsigned int i;                         \
							\
		stretch_begin(r);                       \
		for (i = 0; i < count; i++) {           \
			unmask(r->vcpu);                \
			mask(r->vcpu);                  \
		}                                       \
		stretch_end(r);                         \
	}

/* An event becomes pending while delivery is masked; unmasking must deliver it at once. */
static bool make_pending(struct repeat *r)
{
	struct evtchn_send send = { .port = r->port };

	r->req->refused += HYPERVISOR_event_channel_op(EVTCHNOP_send, &send) != 0;
	return READ_ONCE(r->vcpu->evtchn_upcall_pending);
}

#define UNMASK_PENDING(name, unmask)                                                           \
	void name(struct repeat *r, unsigned int count)                                        \
	{                                                                                      \
		unsigned int i;                                                                \
											       \
		for (i = 0; i < count; i++) {                                                  \
			u64 delivered = READ_ONCE(r->delivered);                               \
			bool pending = make_pending(r);                                        \
											       \
			stretch_begin(r);                                                      \
			unmask(r->vcpu);                                                       \
			mask(r->vcpu);                                                         \
			stretch_end(r);                                                        \
			r->req->wrong += !pending || READ_ONCE(r->delivered) != delivered + 1; \
		}                                                                              \
	}

UNMASK_IDLE(unmask_idle_always, unmask_always)
UNMASK_IDLE(unmask_idle_if_pending, unmask_if_pending)
UNMASK_PENDING(unmask_pending_always, unmask_always)
UNMASK_PENDING(unmask_pending_if_pending, unmask_if_pending)
